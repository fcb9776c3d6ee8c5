//! Takes API Gateway's stage out of paths, so that it does not change the routes.
//!
//! | gateway | address | path in the event |
//! |---|---|---|
//! | HTTP API, stage `$default`; function URL; load balancer | `/jobs` | `/jobs` |
//! | HTTP API, stage `prod` | `/prod/jobs` | `/prod/jobs` |
//! | HTTP API with a domain of its own | `/jobs` | `/jobs` |
//! | REST API, stage `prod` | `/prod/jobs` | `/jobs`, the whole in its context |
//!
//! A domain that maps APIs under base paths (`/v1`) is not supported: its
//! paths tell nothing of the mapping.

use lambda_http::aws_lambda_events::apigw::{
    ApiGatewayProxyRequestContext, ApiGatewayV2httpRequestContext,
};

/// A path in two parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// What a link must start with: nothing, or `/` and the stage.
    pub(crate) base: String,
    /// The path as routes know it.
    pub(crate) path: String,
}

/// The path of an event with payload 2.0.
pub(crate) fn http_api_path(raw_path: String, context: &ApiGatewayV2httpRequestContext) -> Address {
    if !is_own_domain(context.domain_name.as_deref(), context.apiid.as_deref()) {
        return Address { base: String::new(), path: raw_path };
    }
    without_stage(raw_path, context.stage.as_deref())
}

/// The path of an event with payload 1.0.
pub(crate) fn rest_api_path(path: String, context: &ApiGatewayProxyRequestContext) -> Address {
    match context.path.as_deref().and_then(|whole| whole.strip_suffix(path.as_str())) {
        // An HTTP API that sends payload 1.0, a domain of its own, or an
        // emulator: only the first of them has the stage in its path.
        Some("") if is_own_domain(context.domain_name.as_deref(), context.apiid.as_deref()) => {
            without_stage(path, context.stage.as_deref())
        }
        Some(base) => Address { base: base.to_owned(), path },
        None => Address { base: String::new(), path },
    }
}

fn without_stage(path: String, stage: Option<&str>) -> Address {
    let stage = stage.filter(|stage| *stage != "$default" && !stage.is_empty());
    let rest = stage
        .and_then(|stage| path.strip_prefix('/')?.strip_prefix(stage))
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match (stage, rest) {
        (Some(stage), Some(rest)) => Address { base: format!("/{stage}"), path: rest.to_owned() },
        _ => Address { base: String::new(), path },
    }
}

/// Whether the request came to `{api id}.execute-api.…`, as far as is known.
fn is_own_domain(domain: Option<&str>, api_id: Option<&str>) -> bool {
    match (domain, api_id) {
        (Some(domain), Some(api_id)) => domain.split('.').next() == Some(api_id),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(stage: &str, domain: &str, path: &str) -> (String, String) {
        let context = format!(
            r#"{{"stage":"{stage}","apiId":"api-id","domainName":"{domain}","http":{{"method":"GET"}}}}"#
        );
        let address = http_api_path(path.to_owned(), &serde_json::from_str(&context).unwrap());
        (address.base, address.path)
    }

    fn rest(stage: &str, whole: &str, domain: &str, path: &str) -> (String, String) {
        let context = format!(
            r#"{{"stage":"{stage}","apiId":"api-id","domainName":"{domain}","path":"{whole}","httpMethod":"GET"}}"#
        );
        let address = rest_api_path(path.to_owned(), &serde_json::from_str(&context).unwrap());
        (address.base, address.path)
    }

    fn parts(base: &str, path: &str) -> (String, String) {
        (base.to_owned(), path.to_owned())
    }

    const OWN: &str = "api-id.execute-api.eu-west-1.amazonaws.com";

    #[test]
    fn an_http_apis_named_stage_is_taken_out_once() {
        assert_eq!(http("$default", OWN, "/jobs"), parts("", "/jobs"));
        assert_eq!(http("prod", OWN, "/prod/jobs"), parts("/prod", "/jobs"));
        assert_eq!(http("prod", OWN, "/prod"), parts("/prod", ""));
        assert_eq!(http("prod", OWN, "/production/jobs"), parts("", "/production/jobs"));
        assert_eq!(http("jobs", OWN, "/jobs/jobs"), parts("/jobs", "/jobs"));
        assert_eq!(http("jobs", OWN, "/jobs"), parts("/jobs", ""));
        assert_eq!(http("jobs", "api.example.com", "/jobs/1"), parts("", "/jobs/1"));
    }

    #[test]
    fn a_rest_apis_stage_is_in_its_context() {
        assert_eq!(rest("Prod", "/Prod/jobs", OWN, "/jobs"), parts("/Prod", "/jobs"));
        assert_eq!(rest("jobs", "/jobs/jobs", OWN, "/jobs"), parts("/jobs", "/jobs"));
        assert_eq!(rest("Prod", "/jobs", "api.example.com", "/jobs"), parts("", "/jobs"));
        assert_eq!(rest("jobs", "/jobs", "api.example.com", "/jobs"), parts("", "/jobs"));
    }

    #[test]
    fn an_http_api_may_send_payload_1_0() {
        assert_eq!(rest("prod", "/prod/jobs", OWN, "/prod/jobs"), parts("/prod", "/jobs"));
        assert_eq!(rest("$default", "/jobs", OWN, "/jobs"), parts("", "/jobs"));
    }
}
