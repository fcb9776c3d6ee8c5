//! A small HTTP server that stands in for AWS, so that the SDK, its retries
//! and its reading of errors are part of a test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request that came in.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// Method and path.
    pub(crate) line: String,
    /// AWS's name of the operation, if there is one.
    pub(crate) operation: String,
    pub(crate) body: String,
}

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Answer {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
        after: Duration,
    },
    /// The connection stays open, and nothing comes.
    Never,
}

impl Reply {
    pub(crate) fn new(status: u16, body: &str) -> Self {
        let (headers, body) = (Vec::new(), body.to_owned());
        Self::Answer { status, headers, body, after: Duration::ZERO }
    }

    /// An error as SQS and DynamoDB write it.
    pub(crate) fn error(status: u16, code: &str) -> Self {
        let body = format!(
            r#"{{"__type":"com.amazonaws#{code}","message":"arn:aws:sqs:eu-west-1:123456789012:jobs {code}"}}"#
        );
        Self::new(status, &body).with("x-amzn-requestid", "request-1")
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }

    pub(crate) fn delayed(mut self, by: Duration) -> Self {
        if let Self::Answer { after, .. } = &mut self {
            *after = by;
        }
        self
    }
}

/// A server that is running.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// Starts a server that answers what `reply` says.
    pub(crate) async fn start(reply: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let received = Arc::new(Mutex::new(Vec::new()));
        let (log, reply) = (Arc::clone(&received), Arc::new(reply));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, reply) = (Arc::clone(&log), Arc::clone(&reply));
                tokio::spawn(async move { serve(stream, &log, &*reply).await });
            }
        });
        Self { address, received }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// How many requests were for `operation`.
    pub(crate) fn count(&self, operation: &str) -> usize {
        self.received().iter().filter(|request| request.operation.ends_with(operation)).count()
    }
}

/// Answers the requests of one connection, until it ends.
async fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Received>>,
    reply: &(impl Fn(&Received) -> Reply + Send + Sync),
) -> Option<()> {
    loop {
        let request = read(&mut stream).await?;
        log.lock().unwrap().push(request.clone());
        let Reply::Answer { status, headers, body, after } = reply(&request) else {
            std::future::pending::<()>().await;
            return None;
        };
        tokio::time::sleep(after).await;
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (headers, length) = (headers.concat(), body.len());
        let answer =
            format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
        stream.write_all(answer.as_bytes()).await.ok()?;
    }
}

async fn read(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let (head, mut body) = loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let body = bytes.split_off(end + 4);
            break (String::from_utf8(bytes).ok()?, body);
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let header = |name: &str| {
        let mut lines = head.lines();
        lines.find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let length = header("content-length").map_or(0, |length| length.parse().unwrap());
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Received {
        line: head.lines().next()?.to_owned(),
        operation: header("x-amz-target").unwrap_or_default(),
        body: String::from_utf8(body).ok()?,
    })
}
