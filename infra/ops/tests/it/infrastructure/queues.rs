//! The queues, and what a message goes through between them.

use serde_json::json;

use super::{Break, FUNCTIONS, Rule, attribute, variable};
use crate::expansion::{Expansion, number, text};

const QUEUES: [&str; 2] = ["Queue", "DeadLetterQueue"];

/// SQS's longest retention, 14 days.
const LONGEST_RETENTION: i64 = 1_209_600;

pub(super) const RULES: &[Rule] = &[
    ("a message stays hidden for six timeouts and the window", |it| {
        let window = number(&it.properties("QueueToConsumer")["MaximumBatchingWindowInSeconds"]);
        let timeout = number(&it.properties("Consumer")["Timeout"]);
        number(&it.properties("Queue")["VisibilityTimeout"]) == 6 * timeout + window
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
];

pub(super) const BREAKS: &[Break] = &[
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
];

fn retention(it: &Expansion, queue: &str) -> i64 {
    number(&it.properties(queue)["MessageRetentionPeriod"])
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
