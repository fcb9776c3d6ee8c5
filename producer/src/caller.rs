//! Who is calling, as the API's authorizer vouches for it.
//!
//! Only the event's request context counts: the gateway writes it. Headers
//! come from the client.

use lambda_http::aws_lambda_events::apigw::{
    ApiGatewayProxyRequestContext, ApiGatewayV2httpRequestContext,
};
use serde_json::Value;
use shared::Principal;

use crate::problem::ProblemType;
use crate::refusal::Refusal;

/// The caller of an HTTP API or of a function URL.
///
/// # Errors
///
/// 403 where an authorizer let the caller in without naming it in a way that
/// this code knows. To call it anonymous would let all such callers see one
/// another's jobs.
pub(crate) fn of_http_api(context: &ApiGatewayV2httpRequestContext) -> Result<Principal, Refusal> {
    let Some(authorizer) = &context.authorizer else {
        return Ok(Principal::anonymous());
    };
    if let Some(jwt) = &authorizer.jwt {
        let claim = |name| jwt.claims.get(name).map(String::as_str);
        return jwt_subject(claim("iss"), claim("sub"));
    }
    if let Some(iam) = &authorizer.iam {
        return iam_user(iam.account_id.as_deref(), iam.user_id.as_deref());
    }
    Err(unknown())
}

/// The caller of a REST API.
///
/// # Errors
///
/// As [`of_http_api`].
pub(crate) fn of_rest_api(context: &ApiGatewayProxyRequestContext) -> Result<Principal, Refusal> {
    let identity = &context.identity;
    if let Some(user) = identity.user.as_deref().or(identity.caller.as_deref()) {
        return iam_user(identity.account_id.as_deref(), Some(user));
    }
    let authorizer = &context.authorizer.fields;
    if let Some(claims) = authorizer.get("claims") {
        let claim = |name| claims.get(name).and_then(Value::as_str);
        return jwt_subject(claim("iss"), claim("sub"));
    }
    if authorizer.is_empty() { Ok(Principal::anonymous()) } else { Err(unknown()) }
}

fn jwt_subject(issuer: Option<&str>, subject: Option<&str>) -> Result<Principal, Refusal> {
    match (issuer, subject) {
        (Some(issuer), Some(subject)) if !subject.is_empty() => Ok(Principal::jwt(issuer, subject)),
        _ => Err(unknown()),
    }
}

fn iam_user(account: Option<&str>, user_id: Option<&str>) -> Result<Principal, Refusal> {
    match (account, user_id) {
        (Some(account), Some(user_id)) if !user_id.is_empty() => {
            Ok(Principal::iam(account, user_id))
        }
        _ => Err(unknown()),
    }
}

fn unknown() -> Refusal {
    let detail = "The caller cannot be told from others: a token needs the claims \"iss\" and \
                  \"sub\", a signature an IAM user or role.";
    Refusal::new(ProblemType::CallerUnknown, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http_api(authorizer: &str) -> Result<Principal, u16> {
        let context = format!(r#"{{"http":{{"method":"GET"}},"authorizer":{authorizer}}}"#);
        of_http_api(&serde_json::from_str(&context).unwrap())
            .map_err(|refusal| refusal.problem.to_answer().status.as_u16())
    }

    fn rest_api(identity: &str, authorizer: &str) -> Result<Principal, u16> {
        let context =
            format!(r#"{{"httpMethod":"GET","identity":{identity},"authorizer":{authorizer}}}"#);
        of_rest_api(&serde_json::from_str(&context).unwrap())
            .map_err(|refusal| refusal.problem.to_answer().status.as_u16())
    }

    #[test]
    fn a_token_names_its_issuers_subject() {
        let claims = r#"{"claims":{"iss":"https://i.example","sub":"ann","exp":"1"}}"#;
        let ann = Principal::jwt("https://i.example", "ann");
        assert_eq!(http_api(&format!(r#"{{"jwt":{claims}}}"#)), Ok(ann.clone()));
        assert_eq!(rest_api("{}", claims), Ok(ann));
        assert_eq!(http_api(r#"{"jwt":{"claims":{"iss":"https://i.example"}}}"#), Err(403));
        assert_eq!(http_api(r#"{"jwt":{"claims":null}}"#), Err(403));
        assert_eq!(rest_api("{}", r#"{"claims":{"sub":"ann"}}"#), Err(403));
    }

    #[test]
    fn a_signature_names_the_role_without_its_session() {
        let role = Principal::iam("123456789012", "AROAEXAMPLE");
        for session in ["pod-1", "pod-2"] {
            let iam = format!(r#"{{"accountId":"123456789012","userId":"AROAEXAMPLE:{session}"}}"#);
            assert_eq!(http_api(&format!(r#"{{"iam":{iam}}}"#)), Ok(role.clone()));
            let identity = iam.replace("userId", "user");
            assert_eq!(rest_api(&identity, "null"), Ok(role.clone()));
        }
        assert_eq!(http_api(r#"{"iam":{"accountId":"123456789012","userId":null}}"#), Err(403));
    }

    #[test]
    fn without_an_authorizer_everyone_is_anonymous() {
        assert_eq!(http_api("null"), Ok(Principal::anonymous()));
        let identity = r#"{"accountId":null,"caller":null,"user":null,"sourceIp":"192.0.2.1"}"#;
        assert_eq!(rest_api(identity, "{}"), Ok(Principal::anonymous()));
    }

    #[test]
    fn an_authorizer_that_is_not_understood_makes_nobody_anonymous() {
        assert_eq!(http_api(r#"{"lambda":{"user":"ann"}}"#), Err(403));
        assert_eq!(rest_api("{}", r#"{"principalId":"ann"}"#), Err(403));
    }
}
