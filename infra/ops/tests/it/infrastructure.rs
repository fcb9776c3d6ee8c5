//! What the template must hold whatever its parameters are, and that each of
//! these rules notices when it does not.

use ops::parameter_sets::PARAMETER_SETS;
use serde_json::{Value, json};

use crate::expansion::{Expansion, number, template, text};

const FUNCTIONS: [&str; 2] = ["Producer", "Consumer"];
const QUEUES: [&str; 2] = ["Queue", "DeadLetterQueue"];

/// SQS's longest retention, 14 days.
const LONGEST_RETENTION: i64 = 1_209_600;

type Rule = (&'static str, fn(&Expansion) -> bool);

const RULES: [Rule; 25] = [
    ("failed records are asked for", |it| {
        let types = &it.properties("QueueToConsumer")["FunctionResponseTypes"];
        *types == json!(["ReportBatchItemFailures"])
    }),
    ("a message stays hidden for six timeouts and the window", |it| {
        let window = number(&it.properties("QueueToConsumer")["MaximumBatchingWindowInSeconds"]);
        let timeout = number(&it.properties("Consumer")["Timeout"]);
        number(&it.properties("Queue")["VisibilityTimeout"]) == 6 * timeout + window
    }),
    ("the consumer knows its timeout", |it| {
        let consumer = it.properties("Consumer");
        variable(it, "Consumer", "FUNCTION_TIMEOUT_SECONDS") == number(&consumer["Timeout"])
    }),
    ("a dead letter outlives the queue", |it| {
        let [queue, letters] = QUEUES.map(|id| retention(it, id));
        letters == LONGEST_RETENTION && queue < letters
    }),
    ("an entry outlives both queues", |it| {
        let both: i64 = QUEUES.iter().map(|id| retention(it, id)).sum();
        FUNCTIONS.iter().all(|id| variable(it, id, "ENTRY_TTL_DAYS") * 86_400 > both)
    }),
    ("receives are counted by queue and consumer alike", |it| {
        let policy = &it.properties("Queue")["RedrivePolicy"];
        let receives = number(&policy["maxReceiveCount"]);
        (3..=10).contains(&receives)
            && receives == variable(it, "Consumer", "MAX_RECEIVE_COUNT")
            && policy["deadLetterTargetArn"] == attribute("DeadLetterQueue", "Arn")
    }),
    ("the longest waits end before the queue drops a message", |it| {
        // What the consumer refuses to start with; a wait for an outage to end
        // may take an hour whatever the cap is.
        let longest = variable(it, "Consumer", "BACKOFF_CAP_SECONDS").max(3600);
        longest * variable(it, "Consumer", "MAX_RECEIVE_COUNT") < retention(it, "Queue")
            && variable(it, "Consumer", "QUEUE_RETENTION_SECONDS") == retention(it, "Queue")
    }),
    ("receiving waits for messages", |it| {
        QUEUES.iter().all(|id| it.properties(id)["ReceiveMessageWaitTimeSeconds"] == 20)
    }),
    ("messages are encrypted at rest", |it| {
        QUEUES.iter().all(|id| it.properties(id)["SqsManagedSseEnabled"] == true)
    }),
    ("messages are encrypted on their way", |it| {
        QUEUES.iter().all(|id| refuses_plain_http(it, id))
    }),
    ("only the queue's dead letters go to the dead-letter queue", |it| {
        let name = text(&it.properties("Queue")["QueueName"]);
        let arn = format!("arn:aws:sqs:us-east-1:123456789012:{name}");
        let sources = json!({ "redrivePermission": "byQueue", "sourceQueueArns": [arn] });
        it.properties("DeadLetterQueue")["RedriveAllowPolicy"] == sources
            && it.properties("Queue")["RedriveAllowPolicy"]
                == json!({ "redrivePermission": "denyAll" })
    }),
    ("the producer knows how much the queue takes", |it| {
        let queue = number(&it.properties("Queue")["MaximumMessageSize"]);
        let letters = number(&it.properties("DeadLetterQueue")["MaximumMessageSize"]);
        queue == variable(it, "Producer", "MAX_MESSAGE_BYTES") && queue <= letters
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
    ("the table grows by itself and forgets by itself", |it| {
        let table = it.properties("Table");
        let ttl = json!({ "AttributeName": "expires_at", "Enabled": true });
        table["BillingMode"] == "PAY_PER_REQUEST" && table["TimeToLiveSpecification"] == ttl
    }),
    ("the table can be put back to any second of the last month", |it| {
        let table = it.properties("Table");
        table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] == true
            && table["SSESpecification"]["SSEEnabled"] == true
    }),
    ("an update loses nothing, and a deletion only what may be lost", |it| {
        let keeps = it.parameter("KeepData") == "true";
        let policy = if keeps { "RetainExceptOnCreate" } else { "Delete" };
        it.properties("Table")["DeletionProtectionEnabled"] == keeps
            && ["Table", "Queue", "DeadLetterQueue"].iter().all(|id| {
                let resource = it.resource(id);
                resource["UpdateReplacePolicy"] == "Retain" && resource["DeletionPolicy"] == policy
            })
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

/// One way to break the template for each rule, or several: where, with what,
/// and at which parameters it shows.
const BREAKS: [(&str, &str, &str, usize); 30] = [
    ("failed records are asked for", "QueueToConsumer/Properties/FunctionResponseTypes", "[]", 0),
    (
        "a message stays hidden for six timeouts and the window",
        "Queue/Properties/VisibilityTimeout",
        "180",
        0,
    ),
    (
        "a message stays hidden for six timeouts and the window",
        "Consumer/Properties/Timeout",
        "900",
        0,
    ),
    ("the consumer knows its timeout", "Consumer/Properties/Timeout", "31", 0),
    (
        "a dead letter outlives the queue",
        "DeadLetterQueue/Properties/MessageRetentionPeriod",
        "345600",
        0,
    ),
    ("a dead letter outlives the queue", "Queue/Properties/MessageRetentionPeriod", "1209600", 0),
    (
        "an entry outlives both queues",
        "Producer/Properties/Environment/Variables/ENTRY_TTL_DAYS",
        "18",
        0,
    ),
    (
        "receives are counted by queue and consumer alike",
        "Queue/Properties/RedrivePolicy/maxReceiveCount",
        "1",
        0,
    ),
    (
        "receives are counted by queue and consumer alike",
        "Queue/Properties/RedrivePolicy/deadLetterTargetArn",
        "\"x\"",
        0,
    ),
    (
        "the longest waits end before the queue drops a message",
        "Consumer/Properties/Environment/Variables/BACKOFF_CAP_SECONDS",
        "39600",
        2,
    ),
    ("receiving waits for messages", "Queue/Properties/ReceiveMessageWaitTimeSeconds", "0", 0),
    (
        "messages are encrypted at rest",
        "DeadLetterQueue/Properties/SqsManagedSseEnabled",
        "false",
        0,
    ),
    (
        "messages are encrypted on their way",
        "QueuePolicy/Properties/PolicyDocument/Statement/0/Effect",
        "\"Allow\"",
        0,
    ),
    ("messages are encrypted on their way", "DeadLetterQueuePolicy/Properties/Queues", "[]", 0),
    (
        "only the queue's dead letters go to the dead-letter queue",
        "Queue/Properties/QueueName",
        "\"renamed\"",
        0,
    ),
    (
        "the producer knows how much the queue takes",
        "Queue/Properties/MaximumMessageSize",
        "262144",
        0,
    ),
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
    (
        "the table grows by itself and forgets by itself",
        "Table/Properties/TimeToLiveSpecification/AttributeName",
        "\"ttl\"",
        0,
    ),
    (
        "the table can be put back to any second of the last month",
        "Table/Properties/PointInTimeRecoverySpecification",
        "{}",
        0,
    ),
    (
        "an update loses nothing, and a deletion only what may be lost",
        "Table/DeletionPolicy",
        "\"Delete\"",
        0,
    ),
];

#[test]
fn every_rule_holds_for_every_set_of_parameters() {
    let template = template();
    for (set, parameters) in PARAMETER_SETS {
        let expansion = Expansion::new(&template, parameters);
        assert_eq!(broken(&expansion), [""; 0], "{set}");
    }
}

#[test]
fn each_rule_fails_when_the_template_is_broken() {
    let template = template();
    for (rule, path, value, set) in BREAKS {
        let mut broken_template = template.clone();
        let pointer = format!("/Resources/{path}");
        let place = broken_template.pointer_mut(&pointer).unwrap_or_else(|| panic!("no {path}"));
        *place = serde_json::from_str(value).unwrap();
        let expansion = Expansion::new(&broken_template, PARAMETER_SETS[set].1);
        assert!(broken(&expansion).contains(&rule), "{path} = {value} does not break: {rule}");
    }
    for (rule, _) in RULES {
        let last = "no role may do everything with something";
        assert!(rule == last || BREAKS.iter().any(|(name, ..)| *name == rule), "untried: {rule}");
    }
}

#[test]
fn a_role_that_may_do_everything_is_noticed() {
    for (pointer, value) in [("Action", "sqs:*"), ("Resource", "*")] {
        let mut template = template();
        template["Resources"]["ConsumerRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
            [0][pointer] = json!(value);
        let expansion = Expansion::new(&template, &[]);
        assert_eq!(broken(&expansion), ["no role may do everything with something"]);
    }
}

fn broken(expansion: &Expansion) -> Vec<&'static str> {
    RULES.iter().filter(|(_, holds)| !holds(expansion)).map(|(rule, _)| *rule).collect()
}

fn retention(it: &Expansion, queue: &str) -> i64 {
    number(&it.properties(queue)["MessageRetentionPeriod"])
}

fn variable(it: &Expansion, function: &str, name: &str) -> i64 {
    number(&it.properties(function)["Environment"]["Variables"][name])
}

fn attribute(resource: &str, name: &str) -> Value {
    json!({ "Fn::GetAtt": [resource, name] })
}

fn refuses_plain_http(it: &Expansion, queue: &str) -> bool {
    it.all("AWS::SQS::QueuePolicy").iter().any(|(_, policy)| {
        let policy = &policy["Properties"];
        let statement = &policy["PolicyDocument"]["Statement"][0];
        policy["Queues"] == json!([{ "Ref": queue }])
            && statement["Effect"] == "Deny"
            && statement["Principal"] == "*"
            && statement["Action"] == "sqs:*"
            && statement["Resource"] == attribute(queue, "Arn")
            && statement["Condition"] == json!({ "Bool": { "aws:SecureTransport": "false" } })
    })
}

fn keeps_logs_as_told(it: &Expansion, group: &str) -> bool {
    text(&it.properties(group)["RetentionInDays"]) == it.parameter("LogRetentionDays")
}
