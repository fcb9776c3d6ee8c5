//! An API that answers as it is told, for tests.

use std::sync::{Arc, Mutex};

use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::calls::Calls;
use crate::api::Api;
use crate::connection::Connection;
use crate::outputs::Outputs;

/// An answer: status, media type, body. `None`: the connection ends without one.
pub(super) type Reply = Option<(u16, &'static str, String)>;

/// The bodies that came, in their order.
pub(super) type Seen = Arc<Mutex<Vec<String>>>;

/// A client of an API that gives these answers, the last one again and again.
pub(super) async fn api(mut replies: Vec<Reply>) -> (Calls, Seen) {
    replies.reverse();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let seen = Seen::default();
    let (bodies, replies) = (Arc::clone(&seen), Arc::new(Mutex::new(replies)));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (bodies, replies) = (Arc::clone(&bodies), Arc::clone(&replies));
            let answer = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let (bodies, replies) = (Arc::clone(&bodies), Arc::clone(&replies));
                async move {
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    bodies.lock().unwrap().push(String::from_utf8(body.to_vec()).unwrap());
                    let mut replies = replies.lock().unwrap();
                    let last = replies.len() == 1;
                    let reply = if last { replies[0].clone() } else { replies.pop().unwrap() };
                    let (status, media_type, body) = reply.ok_or_else(|| "hung up".to_owned())?;
                    let answer = Response::builder()
                        .status(StatusCode::from_u16(status).unwrap())
                        .header("content-type", media_type)
                        .body(Full::new(Bytes::from(body)));
                    Ok::<_, String>(answer.unwrap())
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
    (client(&endpoint), seen)
}

/// A client of what listens there, or of nothing.
pub(super) fn client(endpoint: &str) -> Calls {
    let text = str::to_owned;
    let outputs = Outputs {
        alarm_topic: text("topic"),
        api_id: text("api"),
        api_url: text("https://api.example"),
        queue_url: text("queue"),
        dead_letter_queue_url: text("letters"),
        table_name: text("table"),
        producer: text("producer"),
        consumer: text("consumer"),
    };
    Calls::new(Api::of_stack(&Connection::emulator(endpoint), &outputs).unwrap())
}

#[expect(clippy::unnecessary_wraps, reason = "other replies are none")]
pub(super) fn json(status: u16, body: &serde_json::Value) -> Reply {
    Some((status, "application/json", body.to_string()))
}

#[expect(clippy::unnecessary_wraps, reason = "other replies are none")]
pub(super) fn problem(status: u16, name: &str) -> Reply {
    let kind = format!("urn:problem-type:relevo:{name}");
    let body = serde_json::json!({ "type": kind, "title": name, "status": status, "detail": "d" });
    Some((status, "application/problem+json", body.to_string()))
}
