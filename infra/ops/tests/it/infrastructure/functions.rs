//! Both functions, and what Lambda brings the consumer.

use serde_json::json;

use super::{Break, FUNCTIONS, Rule, keeps_logs_as_told, variable};
use crate::expansion::{number, text};

pub(super) const RULES: &[Rule] = &[
    ("failed records are asked for", |it| {
        let types = &it.properties("QueueToConsumer")["FunctionResponseTypes"];
        *types == json!(["ReportBatchItemFailures"])
    }),
    ("the consumer knows its timeout", |it| {
        let consumer = it.properties("Consumer");
        variable(it, "Consumer", "FUNCTION_TIMEOUT_SECONDS") == number(&consumer["Timeout"])
    }),
    ("a batch is as large, and waits as long, as the parameters say", |it| {
        let mapping = it.properties("QueueToConsumer");
        let window = number(&mapping["MaximumBatchingWindowInSeconds"]);
        text(&mapping["BatchSize"]) == it.parameter("BatchSize")
            && window.to_string() == it.parameter("BatchWindowSeconds")
            && (number(&mapping["BatchSize"]) <= 10 || window >= 1)
    }),
    ("the mapping never wants more than is reserved", |it| {
        let mapping = it.properties("QueueToConsumer");
        let maximum = number(&mapping["ScalingConfig"]["MaximumConcurrency"]);
        let reserved = it.properties("Consumer")["ReservedConcurrentExecutions"].clone();
        maximum.to_string() == it.parameter("MaximumConcurrency")
            && maximum >= 2
            && reserved.is_null() == (it.parameter("ReserveConcurrency") == "false")
            && (reserved.is_null() || number(&reserved) >= maximum)
    }),
    ("both functions are what was built", |it| {
        FUNCTIONS.iter().all(|id| {
            let function = it.properties(id);
            function["Architectures"] == json!([it.parameter("Architecture")])
                && function["Runtime"] == "provided.al2023"
                && function["Handler"] == "bootstrap"
        })
    }),
    ("each function has a log of its own that ends, and is traced", |it| {
        FUNCTIONS.iter().all(|id| {
            let logs = format!("{id}Logs");
            let function = it.properties(id);
            function["LoggingConfig"]["LogGroup"] == json!({ "Ref": logs })
                && keeps_logs_as_told(it, &logs)
                && function["TracingConfig"]["Mode"] == "Active"
        })
    }),
    ("both functions count under the stack's name", |it| {
        FUNCTIONS.iter().all(|id| {
            it.properties(id)["Environment"]["Variables"]["METRICS_NAMESPACE"] == "Relevo/relevo"
        })
    }),
    ("the consumer has the secrets that were given, and no others", |it| {
        let variables = it.properties("Consumer")["Environment"]["Variables"].clone();
        [("WebhookSecrets", "WEBHOOK_SECRETS"), ("SmtpUrl", "SMTP_URL")].iter().all(
            |(parameter, variable)| {
                let given = it.parameter(parameter);
                variables[variable] == if given == "none" { "" } else { given.as_str() }
            },
        )
    }),
    ("no role may do everything with something", |it| {
        let roles = it.all("AWS::IAM::Role");
        let statements = roles.iter().flat_map(|(_, role)| {
            let policies = role["Properties"]["Policies"].as_array().cloned().unwrap_or_default();
            policies.into_iter().map(|policy| policy["PolicyDocument"]["Statement"][0].clone())
        });
        statements.into_iter().all(|statement| {
            let traces = text(&statement["Action"]).contains("xray:");
            !text(&statement["Action"]).contains(":*") && (statement["Resource"] != "*" || traces)
        })
    }),
];

pub(super) const BREAKS: &[Break] = &[
    ("failed records are asked for", "QueueToConsumer/Properties/FunctionResponseTypes", "[]", 0),
    (
        "the consumer has the secrets that were given, and no others",
        "Consumer/Properties/Environment/Variables/SMTP_URL",
        "{\"Ref\": \"SmtpUrl\"}",
        0,
    ),
    (
        "the consumer has the secrets that were given, and no others",
        "Consumer/Properties/Environment/Variables/WEBHOOK_SECRETS",
        "\"\"",
        5,
    ),
    ("the consumer knows its timeout", "Consumer/Properties/Timeout", "31", 0),
    (
        "a batch is as large, and waits as long, as the parameters say",
        "QueueToConsumer/Properties/BatchSize",
        "10",
        1,
    ),
    (
        "the mapping never wants more than is reserved",
        "Consumer/Properties/ReservedConcurrentExecutions",
        "1",
        1,
    ),
    (
        "the mapping never wants more than is reserved",
        "QueueToConsumer/Properties/ScalingConfig",
        "{\"MaximumConcurrency\": 1}",
        0,
    ),
    ("both functions are what was built", "Producer/Properties/Architectures", "[\"arm64\"]", 4),
    (
        "each function has a log of its own that ends, and is traced",
        "ConsumerLogs/Properties/RetentionInDays",
        "9",
        0,
    ),
    (
        "both functions count under the stack's name",
        "Consumer/Properties/Environment/Variables/METRICS_NAMESPACE",
        "\"x\"",
        0,
    ),
];
