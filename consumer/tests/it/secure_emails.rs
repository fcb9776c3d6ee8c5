//! E-mails over TLS, sent by the program itself: which authorities it trusts
//! stands in its environment.

use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use shared::emf::published;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::emails::welcome;
use crate::mail_server::{Fault, MailServer, Security};
use crate::process::{program, server};

/// Somebody who vouches for servers, and the file that says so.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { issuer, folder: tempfile::tempdir().unwrap() };
        std::fs::write(authority.file(), authority.issuer.pem()).unwrap();
        authority
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// TLS for the server of this name.
    fn vouch_for(&self, name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            );
        TlsAcceptor::from(Arc::new(config.unwrap()))
    }
}

/// Has the program send one e-mail; what it logs of the record.
async fn send(smtp_url: &str, authority: &Authority) -> Value {
    let job = welcome("ada@example.org");
    let aws = server(json!({ "Records": [job.record("m-1")] })).await;
    let mut process = program(&aws)
        .envs([("SMTP_URL", smtp_url), ("EMAIL_FROM", "hello@relevo.example")])
        .env("SSL_CERT_FILE", authority.file())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    aws.posted("/2018-06-01/runtime/invocation/1/response").await.unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    let mut log = String::new();
    process.stdout.take().unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(published(&log, "Relevo").unwrap()["BatchSize"], [1.0]);
    let mut lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.find(|line| line["message"] == "record settled").ok_or(&log).unwrap()
}

/// Nothing was sent, nobody was told the password, and the job will be tried again.
async fn check_unsent(smtp_url: &str, authority: &Authority, mails: &MailServer, why: &str) {
    let settled = send(smtp_url, authority).await;
    assert_eq!(settled["outcome"], "released", "{settled}");
    let error = settled["error"].as_str().unwrap();
    assert!(error.contains(why), "{error}");
    assert_eq!(mails.taken(), [""; 0]);
    let heard = mails.heard();
    assert!(!heard.iter().any(|line| line.starts_with("MAIL")), "{heard:?}");
    let overheard = mails.overheard();
    assert!(!overheard.iter().any(|line| line.starts_with("AUTH")), "{overheard:?}");
}

#[tokio::test]
async fn an_email_goes_over_tls_that_the_named_authority_vouches_for() {
    let authority = Authority::new("ours");
    let tls = authority.vouch_for("localhost");
    for (scheme, security, overheard) in [
        ("smtps", Security::FromTheFirstByte(tls.clone()), &[][..]),
        ("smtp", Security::AfterStartTls(tls), &["EHLO", "STARTTLS"]),
    ] {
        let mails = MailServer::start_with(security, &[]).await;
        let url = format!("{scheme}://user:hunter2@localhost:{}", mails.port);
        let settled = send(&url, &authority).await;
        assert_eq!(settled["outcome"], "completed", "{settled}");
        assert_eq!(mails.taken().len(), 1, "{scheme}");
        // "\0user\0hunter2", in base64.
        assert!(mails.heard().contains(&"AUTH PLAIN AHVzZXIAaHVudGVyMg==".to_owned()), "{scheme}");
        let commands = mails.overheard();
        let commands: Vec<_> =
            commands.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(commands, overheard, "{scheme}");
    }
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_or_that_is_another_one_gets_no_email() {
    let authority = Authority::new("ours");
    for (tls, why) in [
        (Authority::new("somebody else").vouch_for("localhost"), "UnknownIssuer"),
        (authority.vouch_for("mail.example"), "not valid for name \"localhost\""),
    ] {
        for (scheme, security) in [
            ("smtps", Security::FromTheFirstByte(tls.clone())),
            ("smtp", Security::AfterStartTls(tls)),
        ] {
            let mails = MailServer::start_with(security, &[]).await;
            let url = format!("{scheme}://user:hunter2@localhost:{}", mails.port);
            check_unsent(&url, &authority, &mails, why).await;
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_come_to_tls_gets_no_email() {
    let authority = Authority::new("ours");
    let tls = || Security::AfterStartTls(authority.vouch_for("localhost"));
    let not_offered = [("EHLO", Fault::Answers("250 fine"))];
    let refused = [("STARTTLS", Fault::Answers("454 not now"))];
    let refused_for_good = [("STARTTLS", Fault::Answers("502 never"))];
    for (faults, why) in [
        (not_offered, "STARTTLS is not supported"),
        (refused, "not now"),
        (refused_for_good, "never"),
    ] {
        let mails = MailServer::start_with(tls(), &faults).await;
        let url = format!("smtp://user:hunter2@localhost:{}", mails.port);
        check_unsent(&url, &authority, &mails, why).await;
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_password_is_tried_again() {
    let authority = Authority::new("ours");
    let tls = Security::FromTheFirstByte(authority.vouch_for("localhost"));
    let refused = [("AUTH", Fault::Answers("535 5.7.8 who are you?"))];
    let mails = MailServer::start_with(tls, &refused).await;
    let url = format!("smtps://user:hunter2@localhost:{}", mails.port);
    check_unsent(&url, &authority, &mails, "who are you?").await;
}

#[tokio::test]
async fn an_answer_that_somebody_puts_in_before_tls_is_not_taken_for_the_servers() {
    // All that the client will wait for, the acceptance of the message included.
    let put_in = "220 go ahead\r\n250-mail.example\r\n250 AUTH PLAIN\r\n235 welcome\r\n\
                  250 fine\r\n250 fine\r\n354 go ahead\r\n250 taken";
    let authority = Authority::new("ours");
    let tls = Security::AfterStartTls(authority.vouch_for("localhost"));
    let mails = MailServer::start_with(tls, &[("STARTTLS", Fault::Answers(put_in))]).await;
    let url = format!("smtp://user:hunter2@localhost:{}", mails.port);
    check_unsent(&url, &authority, &mails, "InvalidContentType").await;
}
