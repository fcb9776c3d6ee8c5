//! `GET /health`: the function runs and its configuration is sound.
//!
//! It asks neither SQS nor DynamoDB: a load balancer that took every copy of
//! the function out for their sake would not help anybody.

use lambda_http::http::StatusCode;
use serde::Serialize;

use crate::answer::Answer;

/// The function runs.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(crate) struct Health {
    /// Always `ok`.
    status: &'static str,
}

pub(crate) fn health() -> Answer {
    Answer::json(StatusCode::OK, "application/json", &Health { status: "ok" })
}
