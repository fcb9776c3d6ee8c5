//! `welcome-email`: sends the message that nobody wants twice.
//!
//! The mail server takes a message when it answers to the end of the data, and
//! not before. So what goes wrong before the data begins (`server`) has no effect,
//! and is tried again. Later, only an answer that refuses the message is tried
//! again: a lost answer, a stop or a crash leaves the job for a person.

mod letter;
mod line_by_line;
mod server;

use std::time::Duration;

use lettre::message::Mailbox;
use lettre::transport::smtp;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use serde::Serialize;
use shared::Clock;
use shared::config::Environment;
use shared::jobs::WelcomeEmail;
use shared::telemetry::causes;
use tokio::time::timeout;

use self::server::{Server, ServerUrl};
use crate::handler::{JobContext, JobError};

/// For everything before the message itself: the connection, TLS, logging in.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that has the message gets at least so long to say so, for a lost
/// answer costs a person's time.
const LEAST_TIME_TO_ANSWER: Duration = Duration::from_secs(2);

/// A server that has answered does not need to hear that we are going.
const QUIT_TIMEOUT: Duration = Duration::from_millis(200);

/// The mail server, and who sends; neither of them where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// `SMTP_URL`
    server: Option<ServerUrl>,
    /// `EMAIL_FROM`
    from: Option<Mailbox>,
}

impl Settings {
    pub(super) fn read<L: Fn(&str) -> Option<String>>(env: &mut Environment<L>) -> Option<Self> {
        let server = env.secret("SMTP_URL");
        let from = env.secret("EMAIL_FROM");
        let (server, from) = (server?, from?);
        if server.is_some() != from.is_some() {
            return env.problem("SMTP_URL and EMAIL_FROM go together".to_owned());
        }
        Some(Self { server, from })
    }
}

/// Sends welcome e-mails.
///
/// Each goes over a connection of its own. A pooled one may have died while the
/// function was frozen, and between two servers' time-outs it does not show when.
#[derive(Debug)]
pub(super) struct Mailer {
    sender: Option<(Server, Mailbox)>,
    clock: Clock,
}

/// What is kept of an e-mail that was sent.
#[derive(Debug, Serialize)]
pub(super) struct Sent {
    message_id: String,
    /// The server's own words, which hold its name for the message.
    answer: String,
}

/// Why nothing was sent.
#[derive(Debug, thiserror::Error)]
enum Unsent {
    #[error("there is no mail server: SMTP_URL and EMAIL_FROM are not set")]
    NoServer,
    #[error("the mail server took too long, and the message was not begun")]
    TooSlow,
    #[error("the mail server did not ask for the message")]
    NotAskedFor,
}

impl Mailer {
    pub(super) fn new(settings: Settings, clock: Clock) -> Self {
        let sender = settings.server.zip(settings.from);
        Self { sender: sender.map(|(url, from)| (Server::new(url), from)), clock }
    }

    pub(super) async fn send(
        &self,
        email: &WelcomeEmail,
        context: &JobContext,
    ) -> Result<Sent, JobError> {
        let sent = self.try_to_send(email, context).await;
        sent.map_err(|error| without_address(error, &email.to))
    }

    async fn try_to_send(
        &self,
        email: &WelcomeEmail,
        context: &JobContext,
    ) -> Result<Sent, JobError> {
        let (server, from) =
            self.sender.as_ref().ok_or_else(|| JobError::permanent(Unsent::NoServer))?;
        let message_id = format!("<{}@{}>", context.job_id, from.email.domain());
        let letter = letter::write(email, from, &message_id, self.clock.now());
        let letter = letter.map_err(JobError::permanent)?;
        let limit = context.time_left().saturating_sub(LEAST_TIME_TO_ANSWER).min(BEGIN_TIMEOUT);
        let begun = timeout(limit, server.begin(letter.envelope())).await;
        let mut connection = begun.map_err(|_| JobError::retryable(Unsent::TooSlow))??;
        // From here on nobody knows, until the server says.
        let answer = connection.message(&letter.formatted()).await.map_err(judge_last_answer)?;
        // The e-mail is sent: to be stopped now would make it look interrupted.
        if context.time_left() > QUIT_TIMEOUT * 2 {
            quit(connection).await;
        }
        let answer = answer.message().collect::<Vec<_>>().join(" ");
        Ok(Sent { message_id, answer })
    }
}

/// A server that answers the message itself with an error did not take it. With
/// any other error, it may have.
fn judge_last_answer(error: smtp::Error) -> JobError {
    if error.is_permanent() {
        JobError::permanent(error)
    } else if error.is_transient() {
        JobError::retryable(error)
    } else {
        error.into()
    }
}

/// Servers quote the address that they refuse. It belongs to the payload, and so
/// neither into the log nor into the entry.
fn without_address(error: JobError, address: &str) -> JobError {
    let JobError { kind, source } = error;
    let said = causes(&*source);
    // Changes no length, so that positions are the same in both.
    let (lower, address) = (said.to_ascii_lowercase(), address.to_ascii_lowercase());
    if !lower.contains(&address) {
        return JobError { kind, source };
    }
    let mut rest = 0;
    let mut kept = String::new();
    for (at, quoted) in lower.match_indices(&address) {
        kept.extend([said.get(rest..at).unwrap_or_default(), "(the recipient)"]);
        rest = at + quoted.len();
    }
    kept.push_str(said.get(rest..).unwrap_or_default());
    JobError { kind, source: kept.into() }
}

async fn quit(mut connection: AsyncSmtpConnection) {
    let _ = timeout(QUIT_TIMEOUT, connection.quit()).await;
}
