//! The way in.

use serde_json::Value;

use super::{Break, Rule, attribute, keeps_logs_as_told};
use crate::expansion::{number, text};

pub(super) const RULES: &[Rule] = &[
    ("the producer is stopped before the API gives up", |it| {
        number(&it.properties("Producer")["Timeout"]) == 10
            && it.properties("ApiToProducer")["PayloadFormatVersion"] == "2.0"
    }),
    ("every route asks who is calling", |it| {
        let routes = it.all("AWS::ApiGatewayV2::Route");
        let jwt = it.parameter("AuthMode") == "JWT";
        let authorizer = it.resource("JwtAuthorizer");
        routes.len() == 1
            && routes.iter().all(|(_, route)| {
                route["Properties"]["RouteKey"] == "$default"
                    && route["Properties"]["AuthorizationType"] == it.parameter("AuthMode")
                    && route["Properties"]["AuthorizerId"].is_null() != jwt
            })
            && authorizer.is_null() != jwt
            && (!jwt
                || authorizer["Properties"]["JwtConfiguration"]["Issuer"]
                    == it.parameter("JwtIssuer"))
    }),
    ("the API lets no more through than it was told", |it| {
        let settings = it.properties("Stage")["DefaultRouteSettings"].clone();
        text(&settings["ThrottlingRateLimit"]) == it.parameter("ThrottleRate")
            && text(&settings["ThrottlingBurstLimit"]) == it.parameter("ThrottleBurst")
    }),
    ("the API's access log is JSON, on one line", |it| {
        let settings = it.properties("Stage")["AccessLogSettings"].clone();
        // What is absent is written as a bare hyphen, so all of it must be quoted.
        let line = text(&settings["Format"]).replace("$context.error.message", "-");
        let fields = serde_json::from_str::<Value>(&line).unwrap_or_default();
        settings["DestinationArn"] == attribute("ApiLogs", "Arn")
            && keeps_logs_as_told(it, "ApiLogs")
            && !line.contains('\n')
            && ["requestId", "status", "path"].iter().all(|field| fields[field].is_string())
    }),
];

pub(super) const BREAKS: &[Break] = &[
    ("the producer is stopped before the API gives up", "Producer/Properties/Timeout", "30", 0),
    ("every route asks who is calling", "EveryRoute/Properties/AuthorizationType", "\"NONE\"", 0),
    ("every route asks who is calling", "EveryRoute/Properties/AuthorizerId", "null", 3),
    (
        "the API lets no more through than it was told",
        "Stage/Properties/DefaultRouteSettings",
        "{}",
        0,
    ),
    (
        "the API's access log is JSON, on one line",
        "Stage/Properties/AccessLogSettings/Format",
        "\"$context.path\"",
        0,
    ),
];
