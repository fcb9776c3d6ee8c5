//! A connection on which TLS begins with `STARTTLS`, read line by line.
//!
//! The SMTP client reads ahead, and keeps what it has read when TLS begins. So
//! whoever sits on the way could put answers behind the server's last line in
//! plain text, the acceptance of the message among them, and they would be taken
//! for what the server says under TLS. Here nothing is read beyond the end of a
//! line: what follows meets TLS, which refuses it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, ToSocketAddrs};

/// Bytes that are looked at to find the end of a line. A longer one takes several
/// reads.
const LOOK_AHEAD: usize = 1024;

/// The connection.
#[derive(Debug)]
pub(super) struct LineByLine(TcpStream);

impl LineByLine {
    /// Connects to the first of these addresses that answers.
    pub(super) async fn connect(address: impl ToSocketAddrs) -> io::Result<Self> {
        TcpStream::connect(address).await.map(Self)
    }
}

impl AsyncRead for LineByLine {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut ahead = vec![0; into.remaining().min(LOOK_AHEAD)];
        let mut ahead = ReadBuf::new(&mut ahead);
        let there = ready!(self.0.poll_peek(context, &mut ahead))?;
        let end = ahead.filled().iter().position(|byte| *byte == b'\n');
        let mut line = vec![0; end.map_or(there, |end| end + 1)];
        let mut line = ReadBuf::new(&mut line);
        ready!(Pin::new(&mut self.0).poll_read(context, &mut line))?;
        into.put_slice(line.filled());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LineByLine {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl AsyncTokioStream for LineByLine {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }
}
