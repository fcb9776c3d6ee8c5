//! A way to AWS that is cut off in the middle of things.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It is lost, and so is all that comes after it.
    LostForGood,
    /// It takes effect, but its answer is lost, and so is all that comes after.
    UnansweredForGood,
    /// It takes effect, but its answer is lost; the next ones get through.
    UnansweredOnce,
}

/// A proxy that listens; it stops when dropped.
pub(crate) struct Cutting {
    port: u16,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

struct Shared {
    upstream: String,
    client: reqwest::Client,
    cut: Cut,
    /// Which operation it happens to.
    operation: &'static str,
    /// Which call of it, from 0.
    nth: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Calls of the operation.
    calls: usize,
    is_cut: bool,
}

impl Drop for Cutting {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Cutting {
    /// Listens on a free port and passes calls on to `upstream`, until the nth
    /// of this operation.
    pub(crate) async fn start(
        upstream: String,
        cut: Cut,
        operation: &'static str,
        nth: usize,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (client, state) = (reqwest::Client::new(), Mutex::default());
        let shared = Arc::new(Shared { upstream, client, cut, operation, nth, state });
        let listening = tokio::spawn(listen(listener, Arc::clone(&shared)));
        Self { port, shared, listening }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Whether there was such a call.
    pub(crate) fn is_cut(&self) -> bool {
        self.shared.state.lock().unwrap().is_cut
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&shared)));
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(|request| shared.answer(request));
    // It fails where the connection is cut, which is what it is for.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

impl Shared {
    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let target = parts.headers.get("x-amz-target").map(|name| name.to_str().unwrap());
        let operation = target.unwrap_or_default().rsplit('.').next().unwrap_or_default();
        let (was_cut, is_it) = {
            let mut state = self.state.lock().unwrap();
            let was_cut = state.is_cut;
            let is_it = operation == self.operation && state.calls == self.nth;
            state.calls += usize::from(operation == self.operation);
            state.is_cut |= is_it;
            (was_cut, is_it)
        };
        let cut_off = || Err(std::io::Error::other("cut off on purpose"));
        match self.cut {
            Cut::LostForGood if is_it || was_cut => cut_off(),
            Cut::UnansweredForGood if was_cut => cut_off(),
            Cut::UnansweredForGood | Cut::UnansweredOnce if is_it => {
                self.pass_on(&parts, body).await;
                cut_off()
            }
            _ => Ok(self.pass_on(&parts, body).await),
        }
    }

    async fn pass_on(&self, parts: &http::request::Parts, body: Bytes) -> Response<Full<Bytes>> {
        let answer = self
            .client
            .request(parts.method.clone(), format!("{}{}", self.upstream, parts.uri.path()))
            .headers(of_the_message(&parts.headers))
            .body(body)
            .send()
            .await
            .unwrap();
        let (status, headers) = (answer.status(), of_the_message(answer.headers()));
        let mut response = Response::new(Full::new(answer.bytes().await.unwrap()));
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        response
    }
}

/// Without the headers that belong to one connection.
fn of_the_message(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in ["connection", "content-length", "keep-alive", "transfer-encoding"] {
        headers.remove(name);
    }
    headers
}
