//! Who gets what the jobs send: a webhook receiver and a mail server on this machine.
//!
//! They are a process of the tools' Python (`receivers.py`), which ends when the
//! pipe to it closes: whatever ends us, ends it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::stack::eventually;
use crate::tools::Tools;

const PROGRAM: &str = include_str!("receivers.py");

/// What else can be asked of the webhook receiver, below a request to it.
pub(crate) const PATHS: &str = "    \
    (busy at first; its /accepts, /gone and /redirects answer 200, 410 and 302)";

/// Whom the e-mails are from.
const SENDER: &str = "hello@relevo.example";

/// Receivers that run; ended when dropped.
#[derive(Debug)]
pub struct Receivers {
    process: Child,
    listens: Listens,
    seen: Arc<Mutex<Vec<Value>>>,
}

/// The first line that they write.
#[derive(Debug, Deserialize)]
struct Listens {
    http: u16,
    https: u16,
    smtp: u16,
    smtps: u16,
    starttls: u16,
    authority: String,
    login: String,
    password: String,
    secrets: Vec<String>,
}

impl Receivers {
    /// Starts them on free ports.
    ///
    /// # Errors
    ///
    /// They ended at once, or could not be started.
    pub fn start(tools: &Tools) -> Result<Self> {
        let mut process = Command::new(tools.path("python"))
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A terminal's Ctrl-C is for us; they see the pipe close.
            .process_group(0)
            .spawn()
            .context("could not start the receivers")?;
        let output = process.stdout.take().context("the receivers have no output")?;
        let mut output = BufReader::new(output);
        let mut first = String::new();
        output.read_line(&mut first).context("could not read where the receivers listen")?;
        let seen = Arc::default();
        let listens = serde_json::from_str(&first).context("the receivers did not start");
        let receivers = Self { process, listens: listens?, seen: Arc::clone(&seen) };
        std::thread::spawn(move || collect(output, &seen));
        Ok(receivers)
    }

    /// The template's parameters that lead the jobs here, and let them in.
    #[must_use]
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let Listens { smtp, secrets, .. } = &self.listens;
        vec![
            // All others at public addresses, as on AWS.
            ("WebhookAllowedHosts", "127.0.0.1,*".to_owned()),
            ("WebhookAllowHttp", "true".to_owned()),
            ("WebhookSecrets", json!({ "127.0.0.1": secrets }).to_string()),
            ("SmtpUrl", format!("smtp://127.0.0.1:{smtp}?tls=none")),
            ("EmailFrom", SENDER.to_owned()),
        ]
    }

    /// The address of a webhook receiver that answers as `path` asks for.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.listens.http)
    }

    /// The same, by a name that leads there but that nobody allowed.
    #[must_use]
    pub fn url_by_name(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.listens.http)
    }

    /// The same, behind a certificate that nobody vouches for.
    #[must_use]
    pub fn url_without_trust(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.listens.https)
    }

    /// A mail server that speaks TLS from the first byte, and lets the sender log in.
    #[must_use]
    pub fn smtps_url(&self) -> String {
        let Listens { smtps, login, password, .. } = &self.listens;
        format!("smtps://{login}:{password}@localhost:{smtps}")
    }

    /// A mail server that takes nothing before `STARTTLS` and a login.
    #[must_use]
    pub fn starttls_url(&self) -> String {
        let Listens { starttls, login, password, .. } = &self.listens;
        format!("smtp://{login}:{password}@localhost:{starttls}")
    }

    /// The authority that vouches for these two, as PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.listens.authority
    }

    /// Everything that has arrived, in its order.
    #[must_use]
    pub fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The requests of the webhook with this job's id.
    #[must_use]
    pub fn webhooks(&self, id: &str) -> Vec<Value> {
        let mut all = self.seen();
        all.retain(|event| event.pointer("/headers/webhook-id") == Some(&json!(id)));
        all
    }

    /// The e-mails to this address.
    #[must_use]
    pub fn mails(&self, to: &str) -> Vec<Value> {
        let mut all = self.seen();
        all.retain(|event| event.pointer("/recipients/0") == Some(&json!(to)));
        all
    }

    /// Waits until the mail server has an e-mail to this address.
    ///
    /// # Errors
    ///
    /// There was none within `patience`.
    pub async fn wait_for_mail(&self, to: &str, patience: Duration) -> Result<Value> {
        eventually(patience, "the e-mail has arrived", async || Ok(self.mails(to).pop())).await
    }
}

impl Drop for Receivers {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// What has arrived, in one line.
#[must_use]
pub fn describe(event: &Value) -> String {
    let text = |pointer: &str| match event.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "?".to_owned(),
    };
    match event.get("what").and_then(Value::as_str) {
        Some("webhook") => format!(
            "receiver webhook to {} answered {}, attempt {}, signature {}, job {}",
            text("/path"),
            text("/status"),
            text("/headers/x-job-attempt"),
            text("/signature"),
            text("/headers/webhook-id"),
        ),
        _ => format!("receiver e-mail to {}", text("/recipients/0")),
    }
}

fn collect(output: BufReader<ChildStdout>, seen: &Mutex<Vec<Value>>) {
    for line in output.lines().map_while(Result::ok) {
        if let Ok(event) = serde_json::from_str(&line) {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        }
    }
}
