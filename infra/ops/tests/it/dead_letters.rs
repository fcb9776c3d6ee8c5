//! Dead letters as tests put them there, and what the commands say of them.

use std::time::Duration;

use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName as Name};
use clap::Parser;
use futures::FutureExt;
use ops::dlq::Office;
use ops::dlq::filter::Filter;
use ops::dlq::redrive::{Plan, RATE};
use ops::progress::Progress;
use ops::stack::{Stack, eventually};
use serde_json::json;
use shared::table::PutIf;
use shared::{Clock, Fingerprint, JobEntry, JobTable, Principal, State, Timestamp};

/// What the consumer writes on a letter.
pub(crate) fn written<'a>(reason: &'a str, error: &'a str) -> [(&'a str, &'a str); 4] {
    [
        ("reason", reason),
        ("error", error),
        ("receive_count", "2"),
        ("failed_at", "2026-11-30T00:00:00.000Z"),
    ]
}

/// The same stack, as if its dead letters lay in another queue: scans of several
/// tests would hide letters from one another.
pub(crate) async fn with_own_dead_letters(stack: &Stack, queue: &str) -> Stack {
    let mut own = stack.clone();
    own.outputs.dead_letter_queue_url = new_queue(stack, queue).await;
    own
}

/// A queue that nobody consumes.
pub(crate) async fn new_queue(stack: &Stack, name: &str) -> String {
    stack.sqs.create_queue().queue_name(name).send().await.unwrap().queue_url.unwrap()
}

/// An office that nobody stops.
pub(crate) fn office(stack: &Stack) -> Office {
    Office::of(stack, Progress::Lines, futures::future::pending().boxed().shared())
}

/// The filter that these options make.
pub(crate) fn filter(options: &[&str]) -> Filter {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        filter: Filter,
    }
    Line::parse_from([&["dlq"], options].concat()).filter
}

/// What these options redrive, within the usual bounds.
pub(crate) fn plan(options: &[&str]) -> Plan {
    let entry_ttl = Duration::from_hours(24 * 30);
    Plan { filter: filter(options), rate: RATE, entry_ttl, force: false }
}

/// The message of a job, as the producer would send it.
pub(crate) fn message(id: &str, request: &serde_json::Value) -> String {
    let mut message = request.clone();
    message["v"] = json!(1);
    message["id"] = json!(id);
    message["principal"] = json!("anonymous");
    message["fingerprint"] = json!("f");
    message["created_at"] = json!(now().as_millis());
    message.to_string()
}

/// Sends a message to the dead-letter queue; SQS's name for it.
pub(crate) async fn put_letter(stack: &Stack, body: &str, attributes: &[(&str, &str)]) -> String {
    let mut send = stack.sqs.send_message().queue_url(&stack.outputs.dead_letter_queue_url);
    for (name, value) in attributes {
        let value = MessageAttributeValue::builder().data_type("String").string_value(*value);
        send = send.message_attributes(*name, value.build().unwrap());
    }
    send.message_body(body).send().await.unwrap().message_id.unwrap()
}

/// An entry of such a job, last written now.
pub(crate) fn entry(id: &str, kind: &str, state: State) -> JobEntry {
    let fingerprint = Fingerprint::from_text("f");
    let ttl = Duration::from_hours(24 * 30);
    let (id, principal) = (id.parse().unwrap(), Principal::anonymous());
    let queued = JobEntry::queued(id, kind, principal, fingerprint, now(), ttl);
    JobEntry { state, attempt: 5, last_attempt: true, ..queued }
}

pub(crate) fn now() -> Timestamp {
    Clock::system().now()
}

/// Puts an entry there, whatever was there before.
pub(crate) async fn put_entry(stack: &Stack, entry: &JobEntry) {
    let table = stack.connection.job_table(&stack.outputs.table_name);
    let long_after = Timestamp::from_millis(u64::MAX / 2);
    table.put(entry, &PutIf::Absent, long_after).await.unwrap();
}

/// A job's entry.
pub(crate) async fn read_entry(stack: &Stack, id: &str) -> Option<JobEntry> {
    let table = stack.connection.job_table(&stack.outputs.table_name);
    table.get(id.parse().unwrap()).await.unwrap()
}

/// How many dead letters are visible, and how many are hidden.
pub(crate) async fn depth(stack: &Stack) -> (usize, usize) {
    let (visible, hidden) =
        (Name::ApproximateNumberOfMessages, Name::ApproximateNumberOfMessagesNotVisible);
    let answer = stack
        .sqs
        .get_queue_attributes()
        .queue_url(&stack.outputs.dead_letter_queue_url)
        .attribute_names(visible.clone())
        .attribute_names(hidden.clone())
        .send()
        .await
        .unwrap();
    let count = |name| answer.attributes().unwrap()[&name].parse().unwrap();
    (count(visible), count(hidden))
}

/// Waits until so many dead letters are visible and hidden.
pub(crate) async fn wait_for_depth(stack: &Stack, expected: (usize, usize)) {
    let seen = eventually(Duration::from_mins(1), "that many letters are there", async || {
        Ok((depth(stack).await == expected).then_some(()))
    });
    seen.await.unwrap();
}

/// Compares what a command showed with what it showed before, but for what
/// differs from run to run.
pub(crate) fn assert_shows(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for (pattern, replacement) in [
        ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[id]"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ", "[time]"),
        (r"\b\d+ [smh]\b", "[age]"),
        ("\"(age_seconds|created_at)\":\\d+", "\"$1\":0"),
        ("[─═╌]+", "─"),
        (" {2,}", " "),
    ] {
        settings.add_filter(pattern, replacement);
    }
    settings.bind(|| insta::assert_snapshot!(name, text));
}
