//! The repository's sample events, and variations of them.

use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The body of the samples.
pub(crate) const BODY: &str =
    r#"{"kind":"report","payload":{"title":"t","rows":[{"group":"a","amount":"1.50"}]}}"#;

/// An event that can be changed.
#[derive(Clone, Debug)]
pub(crate) struct Event(Value);

/// A sample event by its name in `events/`.
macro_rules! sample {
    ($name:literal) => {
        crate::events::Event::read(include_str!(concat!("../../../events/", $name, ".json")))
    };
}
pub(crate) use sample;

impl Event {
    pub(crate) fn read(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap())
    }

    pub(crate) fn of(value: Value) -> Self {
        Self(value)
    }

    /// `POST /jobs` through an HTTP API that has no authorizer.
    pub(crate) fn post(body: &str) -> Self {
        sample!("http-report").without("/requestContext/authorizer").with("/body", json!(body))
    }

    /// `POST /jobs` through a REST API that has no authorizer.
    pub(crate) fn rest_post(body: &str) -> Self {
        sample!("rest-report")
            .with("/requestContext/identity", json!({"sourceIp": "192.0.2.10"}))
            .with("/body", json!(body))
    }

    /// `POST /jobs` through a load balancer.
    pub(crate) fn alb_post(body: &str) -> Self {
        Self::of(json!({
            "requestContext": {"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/t/1"}},
            "httpMethod": "POST",
            "path": "/jobs",
            "queryStringParameters": {},
            "headers": {"host": "lb.example", "content-type": "application/json"},
            "body": body,
            "isBase64Encoded": false
        }))
    }

    /// Any method and path through an HTTP API, without a body.
    pub(crate) fn request(method: &str, path: &str) -> Self {
        sample!("http-get-job").without("/requestContext/authorizer").at(method, path)
    }

    pub(crate) fn at(self, method: &str, path: &str) -> Self {
        self.with("/rawPath", json!(path))
            .with("/requestContext/http/path", json!(path))
            .with("/requestContext/http/method", json!(method))
    }

    /// Sets what `pointer` points to.
    pub(crate) fn with(mut self, pointer: &str, value: Value) -> Self {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = self.0.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        parent.insert(name.replace("~1", "/"), value);
        self
    }

    pub(crate) fn without(mut self, pointer: &str) -> Self {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        self.0.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
        self
    }

    pub(crate) fn header(self, name: &str, value: &str) -> Self {
        self.with(&format!("/headers/{name}"), json!(value))
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    /// The caller that a JWT authorizer vouches for.
    pub(crate) fn jwt(self, subject: &str) -> Self {
        let claims = json!({"iss": "https://issuer.example", "sub": subject});
        self.with("/requestContext/authorizer", json!({"jwt": {"claims": claims, "scopes": null}}))
    }

    pub(crate) fn iam(self, user_id: &str) -> Self {
        let iam = json!({"accountId": "123456789012", "userId": user_id});
        self.with("/requestContext/authorizer", json!({"iam": iam}))
    }

    pub(crate) fn value(&self) -> &Value {
        &self.0
    }

    pub(crate) fn raw(&self) -> Box<RawValue> {
        serde_json::value::to_raw_value(&self.0).unwrap()
    }
}
