//! An SMTP server on loopback, which goes wrong as it is told.
#![expect(clippy::disallowed_methods, reason = "a test's server is no handler's work")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What the server does at one point, instead of what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Answers(&'static str),
    Closes,
    Hangs,
}

/// Where the answer to the message itself is given.
pub(crate) const AFTER_THE_MESSAGE: &str = ".";

/// When the server speaks TLS.
#[derive(Clone)]
pub(crate) enum Security {
    FromTheFirstByte(TlsAcceptor),
    AfterStartTls(TlsAcceptor),
    Never,
}

/// A server, and what it took.
pub(crate) struct MailServer {
    pub(crate) port: u16,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    taken: Mutex<Vec<String>>,
    heard: Mutex<Vec<String>>,
    overheard: Mutex<Vec<String>>,
}

impl MailServer {
    /// Starts one that goes wrong at these points.
    pub(crate) async fn start(faults: &[(&'static str, Fault)]) -> Self {
        Self::start_with(Security::Never, faults).await
    }

    pub(crate) async fn start_with(security: Security, faults: &[(&'static str, Fault)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::<Seen>::default();
        let faults = faults.iter().copied().collect();
        let talk = Arc::new(Talk { security, faults, seen: Arc::clone(&seen) });
        tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let talk = Arc::clone(&talk);
                tokio::spawn(async move { talk.hold(connection).await });
            }
        });
        Self { port, seen }
    }

    /// The messages that it has.
    pub(crate) fn taken(&self) -> Vec<String> {
        self.seen.taken.lock().unwrap().clone()
    }

    /// The commands that it was told.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.seen.heard.lock().unwrap().clone()
    }

    /// Those that anybody on the way could read.
    pub(crate) fn overheard(&self) -> Vec<String> {
        self.seen.overheard.lock().unwrap().clone()
    }
}

/// What a conversation is held with.
struct Talk {
    security: Security,
    faults: BTreeMap<&'static str, Fault>,
    seen: Arc<Seen>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Talk {
    /// Talks until the client goes, or a fault ends it.
    async fn hold(&self, connection: TcpStream) -> Option<()> {
        let mut connection: BufReader<Box<dyn Stream>> = BufReader::new(Box::new(connection));
        let mut is_secure = false;
        if let Security::FromTheFirstByte(tls) = &self.security {
            (connection, is_secure) = (secure(tls, connection).await?, true);
        }
        let (mut point, mut message) = ("connect".to_owned(), String::new());
        loop {
            let answer = self.answer(&point, is_secure).await?;
            if point == AFTER_THE_MESSAGE && answer.starts_with("250") {
                self.seen.taken.lock().unwrap().push(std::mem::take(&mut message));
            }
            connection.write_all(format!("{answer}\r\n").as_bytes()).await.ok()?;
            connection.flush().await.ok()?;
            if point == "DATA" && answer.starts_with("354") {
                while !message.ends_with("\r\n.\r\n") {
                    read_line(&mut connection, &mut message).await?;
                }
                AFTER_THE_MESSAGE.clone_into(&mut point);
                continue;
            }
            if let Security::AfterStartTls(tls) = &self.security
                && (point == "STARTTLS" && answer.starts_with("220"))
            {
                (connection, is_secure) = (secure(tls, connection).await?, true);
            }
            let mut line = String::new();
            read_line(&mut connection, &mut line).await?;
            point = line.split(' ').next()?.trim().to_owned();
            self.note(line.trim(), is_secure);
        }
    }

    /// What is answered; `None` if the connection is closed instead.
    async fn answer(&self, point: &str, is_secure: bool) -> Option<&'static str> {
        match self.faults.get(point) {
            Some(Fault::Answers(answer)) => return Some(answer),
            Some(Fault::Closes) => return None,
            Some(Fault::Hangs) => std::future::pending().await,
            None => {}
        }
        Some(match (point, &self.security) {
            ("connect", _) => "220 mail.example",
            ("EHLO", Security::AfterStartTls(_)) if !is_secure => {
                "250-mail.example\r\n250 STARTTLS"
            }
            ("EHLO", _) if is_secure => "250-mail.example\r\n250 AUTH PLAIN",
            ("STARTTLS", _) => "220 go ahead",
            ("AUTH", _) => "235 welcome",
            ("DATA", _) => "354 go ahead",
            _ => "250 fine",
        })
    }

    fn note(&self, line: &str, is_secure: bool) {
        self.seen.heard.lock().unwrap().push(line.to_owned());
        if !is_secure {
            self.seen.overheard.lock().unwrap().push(line.to_owned());
        }
    }
}

async fn secure(
    tls: &TlsAcceptor,
    connection: BufReader<Box<dyn Stream>>,
) -> Option<BufReader<Box<dyn Stream>>> {
    let connection = tls.accept(connection.into_inner()).await.ok()?;
    Some(BufReader::new(Box::new(connection)))
}

/// `None` when the client has gone.
async fn read_line(connection: &mut BufReader<Box<dyn Stream>>, into: &mut String) -> Option<()> {
    connection.read_line(into).await.ok().filter(|read| *read > 0).map(|_| ())
}
