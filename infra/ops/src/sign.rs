//! Signs requests (AWS Signature Version 4) where no SDK does: for services of
//! which one operation is needed, and for the API itself.

use std::time::SystemTime;

use anyhow::{Context, Result};
use aws_sdk_sqs::config::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;

/// Signs a request to `service` in `region`.
///
/// # Errors
///
/// The request has something that cannot be signed.
pub fn sign_request(
    request: &mut http::Request<String>,
    credentials: Credentials,
    region: &str,
    service: &str,
) -> Result<()> {
    const WHAT: &str = "could not sign the request";
    let identity = credentials.into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(SystemTime::now())
        .settings(SigningSettings::default())
        .build()
        .context(WHAT)?
        .into();
    let headers = request
        .headers()
        .iter()
        .filter_map(|(name, value)| value.to_str().ok().map(|value| (name.as_str(), value)));
    let signable = SignableRequest::new(
        request.method().as_str(),
        request.uri().to_string(),
        headers,
        SignableBody::Bytes(request.body().as_bytes()),
    )
    .context(WHAT)?;
    let (instructions, _) = sign(signable, &parameters).context(WHAT)?.into_parts();
    instructions.apply_to_request_http1x(request);
    Ok(())
}
