//! The mail server: where it is, and everything that is said to it before a message.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use lettre::address::Envelope;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use percent_encoding::percent_decode_str;
use url::Url;

use super::Unsent;
use super::line_by_line::LineByLine;
use crate::handler::JobError;

/// "Start mail input", the answer to `DATA`.
const GO_AHEAD: u16 = 354;

/// How a connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Security {
    /// TLS from the first byte; `smtps://`
    Tls,
    /// TLS before anything of worth is said; `smtp://`
    StartTls,
    /// None; `smtp://…?tls=none`
    None,
}

/// `smtp[s]://[user:password@]host[:port]`
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ServerUrl {
    host: String,
    port: u16,
    security: Security,
    login: Option<(String, String)>,
}

/// Without the password.
impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} ({:?})", self.host, self.port, self.security)
    }
}

/// Errors never quote what they are about: it may hold a password.
impl FromStr for ServerUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "must be like smtps://user:password@mail.example.org, or smtp://… for \
                            STARTTLS, or smtp://…?tls=none for no protection at all";
        let url = Url::parse(text).map_err(|_| FORM)?;
        let (security, default_port) = match (url.scheme(), url.query()) {
            ("smtps", None) => (Security::Tls, 465),
            ("smtp", None) => (Security::StartTls, 587),
            ("smtp", Some("tls=none")) => (Security::None, 25),
            _ => return Err(FORM),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(FORM)?;
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err(FORM);
        }
        let decode =
            |part: &str| percent_decode_str(part).decode_utf8().map(String::from).map_err(|_| FORM);
        let login = match (url.username(), url.password()) {
            ("", None) => None,
            (_, None) | ("", _) => return Err("must have a user and a password, or neither"),
            (user, Some(password)) => Some((decode(user)?, decode(password)?)),
        };
        let port = url.port().unwrap_or(default_port);
        // An IPv6 address is connected to without its brackets.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port, security, login })
    }
}

/// The mail server, spoken to.
pub(super) struct Server {
    url: ServerUrl,
    /// Made by the first e-mail, since it loads the system's certificates.
    tls: OnceLock<TlsParameters>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl Server {
    pub(super) const fn new(url: ServerUrl) -> Self {
        Self { url, tls: OnceLock::new() }
    }

    /// Says everything that comes before the message itself.
    ///
    /// # Errors
    ///
    /// Nothing was sent: permanent where the server says so, else to be tried
    /// again.
    pub(super) async fn begin(&self, envelope: &Envelope) -> Result<AsyncSmtpConnection, JobError> {
        let mut connection = self.connect().await?;
        let sender = Mail::new(envelope.from().cloned(), Vec::new());
        connection.command(sender).await.map_err(judge)?;
        for recipient in envelope.to() {
            let recipient = Rcpt::new(recipient.clone(), Vec::new());
            connection.command(recipient).await.map_err(judge)?;
        }
        let answer = connection.command(Data).await.map_err(judge)?;
        if !answer.has_code(GO_AHEAD) {
            return Err(JobError::retryable(Unsent::NotAskedFor));
        }
        Ok(connection)
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, JobError> {
        let mut connection = self.open().await?;
        if let Some((user, password)) = &self.url.login {
            let credentials = Credentials::new(user.clone(), password.clone());
            let login = connection.auth(DEFAULT_MECHANISMS, &credentials).await;
            // A password that was changed is no fault of the message's.
            login.map_err(JobError::retryable)?;
        }
        Ok(connection)
    }

    /// A connection that is protected as the URL says.
    async fn open(&self) -> Result<AsyncSmtpConnection, JobError> {
        let ServerUrl { host, port, security, .. } = &self.url;
        let (address, hello) = ((host.as_str(), *port), ClientId::default());
        let tls = match security {
            Security::Tls => Some(self.tls().map_err(judge)?),
            Security::None => None,
            Security::StartTls => {
                let stream = LineByLine::connect(address).await.map_err(JobError::retryable)?;
                let stream = Box::new(stream);
                let opened = AsyncSmtpConnection::connect_with_transport(stream, &hello).await;
                let (mut connection, tls) = (opened.map_err(judge)?, self.tls().map_err(judge)?);
                // A server without TLS is no fault of the message's either.
                connection.starttls(tls, &hello).await.map_err(JobError::retryable)?;
                return Ok(connection);
            }
        };
        let opened = AsyncSmtpConnection::connect_tokio1(address, None, &hello, tls, None).await;
        opened.map_err(judge)
    }

    fn tls(&self) -> Result<TlsParameters, Error> {
        if let Some(tls) = self.tls.get() {
            return Ok(tls.clone());
        }
        let tls = TlsParameters::new(self.url.host.clone())?;
        Ok(self.tls.get_or_init(|| tls).clone())
    }
}

fn judge(error: Error) -> JobError {
    if error.is_permanent() { JobError::permanent(error) } else { JobError::retryable(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, host: &str, port: u16, security: Security, login: Option<(&str, &str)>) {
        let login = login.map(|(user, password)| (user.to_owned(), password.to_owned()));
        let expected = ServerUrl { host: host.to_owned(), port, security, login };
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }

    #[test]
    fn a_server_is_protected_unless_it_says_otherwise() {
        check("smtps://mail.example.org", "mail.example.org", 465, Security::Tls, None);
        check("smtp://mail.example.org/", "mail.example.org", 587, Security::StartTls, None);
        check("smtp://127.0.0.1:2525?tls=none", "127.0.0.1", 2525, Security::None, None);
        check("smtp://[::1]:2525?tls=none", "::1", 2525, Security::None, None);
        check(
            "smtps://AKIA%2F1:p%40ss%3A@mail.example.org:2465",
            "mail.example.org",
            2465,
            Security::Tls,
            Some(("AKIA/1", "p@ss:")),
        );
    }

    #[test]
    fn other_urls_are_refused_and_not_told() {
        for text in [
            "hunter2",
            "https://user:hunter2@mail.example.org",
            "smtp://user:hunter2@mail.example.org?tls=maybe",
            "smtps://user:hunter2@mail.example.org?tls=none",
            "smtps://user:hunter2@mail.example.org/path",
            "smtps://hunter2@mail.example.org",
            "smtps://:hunter2@mail.example.org",
            "smtps://",
            "smtps://user:hunter2@",
        ] {
            let error = text.parse::<ServerUrl>().unwrap_err();
            assert!(!error.contains("hunter2"), "{text}: {error}");
        }
        let url: ServerUrl = "smtps://user:hunter2@mail.example.org".parse().unwrap();
        assert_eq!(format!("{url:?}"), "mail.example.org:465 (Tls)");
    }
}
