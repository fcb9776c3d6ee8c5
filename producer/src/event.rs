//! Turns Lambda's events into HTTP requests, and answers into what each gateway
//! reads.
//!
//! `lambda_http` knows the events' types. Its conversion to a request is not
//! used: it panics on bodies that are not base64 and on URLs that do not
//! parse, and its path carries the stage or not, depending on the gateway and
//! on `AWS_LAMBDA_HTTP_IGNORE_STAGE_IN_PATH`.

use std::fmt;

use lambda_http::Body;
use lambda_http::aws_lambda_events::alb::{AlbTargetGroupRequest, AlbTargetGroupResponse};
use lambda_http::aws_lambda_events::apigw::{
    ApiGatewayProxyRequest, ApiGatewayProxyResponse, ApiGatewayV2httpRequest,
    ApiGatewayV2httpResponse,
};
use lambda_http::http::HeaderMap;
use lambda_http::http::uri::PathAndQuery;
use lambda_http::lambda_runtime::Diagnostic;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use shared::Principal;

use crate::answer::Answer;
use crate::caller;
use crate::problem::ProblemType;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::stage::{Address, http_api_path, rest_api_path};
use crate::trace::TraceHeader;

/// The header by which gateways hand on a trace.
const TRACE_HEADER: &str = "x-amzn-trace-id";

/// What sent the event, and which answer it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// API Gateway with payload 1.0.
    Rest,
    /// API Gateway with payload 2.0, or a function URL.
    Http,
    /// An Application Load Balancer.
    Alb,
}

/// The event is not an HTTP request, so that nobody waits for an HTTP answer:
/// the invocation fails.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the event is not an HTTP request; this function expects events of an API Gateway HTTP API \
     or REST API, a function URL or an Application Load Balancer (look at what invokes it)"
)]
pub struct NotHttp;

/// The runtime logs errors by this.
impl fmt::Debug for NotHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<NotHttp> for Diagnostic {
    fn from(error: NotHttp) -> Self {
        Self { error_type: "NotHttp".to_owned(), error_message: error.to_string() }
    }
}

/// Reads an event: who sent it, and the request or the answer to one that
/// cannot be read.
///
/// # Errors
///
/// [`NotHttp`].
pub(crate) fn read(
    event: &RawValue,
    trace: Option<&str>,
) -> Result<(Gateway, Result<Request, Refusal>), NotHttp> {
    let (gateway, text) = (sender(event)?, event.get());
    let request = match gateway {
        Gateway::Rest => serde_json::from_str(text).map(rest_request),
        Gateway::Http => serde_json::from_str(text).map(http_request),
        Gateway::Alb => serde_json::from_str(text).map(alb_request),
    };
    // The type does not fit because of a header that HTTP does not allow, say.
    // A client waits for an answer, and it is the client's fault.
    let detail = "The request's method or one of its headers is not valid HTTP.";
    let request = request
        .unwrap_or_else(|_| Err(Refusal::new(ProblemType::Malformed, detail)))
        .map(|mut request| {
            // The invocation's own trace, where there is one: it continues the
            // gateway's.
            let header = request.headers.get(TRACE_HEADER).and_then(|value| value.to_str().ok());
            request.trace = [trace, header].into_iter().flatten().find_map(TraceHeader::parse);
            request
        });
    Ok((gateway, request))
}

/// As much of an event as tells who sent it.
#[derive(Deserialize)]
struct Sender {
    #[serde(rename = "requestContext")]
    context: SenderContext,
    #[serde(rename = "httpMethod")]
    method: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct SenderContext {
    http: Option<IgnoredAny>,
    elb: Option<IgnoredAny>,
}

/// Looked at first, and without keeping anything: to try one type after the
/// other would copy the event, and read it twice.
fn sender(event: &RawValue) -> Result<Gateway, NotHttp> {
    let sender: Sender = serde_json::from_str(event.get()).map_err(|_| NotHttp)?;
    match (sender.context, sender.method) {
        (SenderContext { http: Some(_), .. }, _) => Ok(Gateway::Http),
        (SenderContext { elb: Some(_), .. }, _) => Ok(Gateway::Alb),
        (_, Some(_)) => Ok(Gateway::Rest),
        _ => Err(NotHttp),
    }
}

fn rest_request(event: ApiGatewayProxyRequest) -> Result<Request, Refusal> {
    let context = &event.request_context;
    let Address { base, path } = rest_api_path(event.path.unwrap_or_default(), context);
    Ok(Request {
        method: event.http_method,
        path,
        base,
        headers: merged(event.multi_value_headers, event.headers),
        body: decoded(event.body, event.is_base64_encoded)?,
        caller: caller::of_rest_api(context)?,
        trace: None,
    })
}

fn http_request(event: ApiGatewayV2httpRequest) -> Result<Request, Refusal> {
    let query = event.raw_query_string.unwrap_or_default();
    if PathAndQuery::try_from(format!("/?{query}")).is_err() {
        return Err(Refusal::new(ProblemType::Malformed, "The query is not percent-encoded."));
    }
    let context = &event.request_context;
    let Address { base, path } = http_api_path(event.raw_path.unwrap_or_default(), context);
    Ok(Request {
        method: context.http.method.clone(),
        path,
        base,
        headers: event.headers,
        body: decoded(event.body, event.is_base64_encoded)?,
        caller: caller::of_http_api(context)?,
        trace: None,
    })
}

fn alb_request(event: AlbTargetGroupRequest) -> Result<Request, Refusal> {
    Ok(Request {
        method: event.http_method,
        path: event.path.unwrap_or_default(),
        base: String::new(),
        headers: merged(event.multi_value_headers, event.headers),
        body: decoded(event.body, event.is_base64_encoded)?,
        caller: Principal::anonymous(),
        trace: None,
    })
}

/// All headers: the map of lists has every value, the other one only the last.
fn merged(mut all: HeaderMap, single: HeaderMap) -> HeaderMap {
    for (name, value) in single {
        if let Some(name) = name.filter(|name| !all.contains_key(name)) {
            all.insert(name, value);
        }
    }
    all
}

fn decoded(body: Option<String>, is_base64: bool) -> Result<Vec<u8>, Refusal> {
    let body = body.unwrap_or_default();
    if !is_base64 {
        return Ok(body.into_bytes());
    }
    aws_smithy_types::base64::decode(body)
        .map_err(|_| Refusal::new(ProblemType::Malformed, "The body is not base64."))
}

/// An answer in the shape that its gateway reads.
#[derive(Debug)]
pub enum EventAnswer {
    /// For [`Gateway::Rest`].
    Rest(ApiGatewayProxyResponse),
    /// For [`Gateway::Http`].
    Http(ApiGatewayV2httpResponse),
    /// For [`Gateway::Alb`].
    Alb(AlbTargetGroupResponse),
}

impl EventAnswer {
    pub(crate) fn new(gateway: Gateway, answer: Answer) -> Self {
        let (status, headers, body) = (answer.status, answer.headers, answer.body.map(Body::Text));
        match gateway {
            Gateway::Rest => {
                let mut event = ApiGatewayProxyResponse::default();
                event.status_code = status.as_u16().into();
                // API Gateway would send a header of both maps twice.
                event.multi_value_headers = headers;
                event.body = body;
                Self::Rest(event)
            }
            Gateway::Http => {
                let mut event = ApiGatewayV2httpResponse::default();
                event.status_code = status.as_u16().into();
                event.headers = headers;
                event.body = body;
                Self::Http(event)
            }
            Gateway::Alb => {
                let mut event = AlbTargetGroupResponse::default();
                event.status_code = status.as_u16().into();
                event.status_description = Some(status.to_string());
                // Which of the two is read depends on the target group.
                event.headers = headers.clone();
                event.multi_value_headers = headers;
                event.body = body;
                Self::Alb(event)
            }
        }
    }
}

impl Serialize for EventAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Rest(event) => event.serialize(serializer),
            Self::Http(event) => event.serialize(serializer),
            Self::Alb(event) => event.serialize(serializer),
        }
    }
}
