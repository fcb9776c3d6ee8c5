//! What the template promises, read from the stack that was made of it.

use ops::local::Local;
use ops::stack::Stack;
use serde_json::{Value, json};

use crate::support::{accepted, end_to_end, ended, report};

/// AWS asks for six times the function's timeout, so that Lambda can retry a
/// throttled batch while it stays hidden.
const VISIBILITY_FACTOR: i64 = 6;

#[test]
fn the_mapping_asks_for_the_list_of_failed_records() {
    end_to_end(async |local| {
        let mapping = mapping(&local.stack).await;
        assert_eq!(mapping["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
    });
}

#[test]
fn a_message_stays_hidden_six_times_as_long_as_its_batch_may_take() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let consumer = function(stack, &stack.outputs.consumer).await;
        let timeout = consumer["Timeout"].as_i64().unwrap();
        let window = integer(&mapping(stack).await["MaximumBatchingWindowInSeconds"]);
        let queue = attributes(stack, &stack.outputs.queue_url).await;
        let visibility = integer(&queue["VisibilityTimeout"]);
        assert!(
            visibility >= VISIBILITY_FACTOR * timeout + window,
            "{visibility} s for a timeout of {timeout} s and a window of {window} s"
        );
        let told = integer(&consumer["Environment"]["Variables"]["FUNCTION_TIMEOUT_SECONDS"]);
        assert_eq!(told, timeout);
    });
}

#[test]
fn every_timeout_that_can_be_chosen_has_its_visibility() {
    end_to_end(async |local| {
        let template = template(local);
        let allowed = template["Parameters"]["ConsumerTimeout"]["AllowedValues"].as_array();
        let windows = template["Parameters"]["BatchWindowSeconds"]["AllowedValues"].as_array();
        let rows = template["Mappings"]["VisibilityTimeouts"].as_object().unwrap();
        let timeouts: Vec<_> = allowed.unwrap().iter().map(integer).collect();
        let windows: Vec<_> = windows.unwrap().iter().map(integer).collect();
        assert_eq!(timeouts.len(), rows.len());
        for timeout in timeouts {
            let row = rows[&timeout.to_string()].as_object().unwrap();
            assert_eq!(row.len(), windows.len());
            for window in &windows {
                let visibility = integer(&row[&window.to_string()]);
                assert_eq!(visibility, VISIBILITY_FACTOR * timeout + window, "timeout {timeout}");
            }
        }
    });
}

/// Read from the template: the emulator keeps the stage's settings under names
/// that its API does not tell.
#[test]
fn the_stage_lets_no_more_through_than_its_parameters_say() {
    end_to_end(async |local| {
        let template = template(local);
        let settings = &template["Resources"]["Stage"]["Properties"]["DefaultRouteSettings"];
        for (setting, parameter) in
            [("ThrottlingRateLimit", "ThrottleRate"), ("ThrottlingBurstLimit", "ThrottleBurst")]
        {
            assert_eq!(settings[setting], json!({ "Ref": parameter }));
            assert!(integer(&template["Parameters"][parameter]["Default"]) > 0);
        }
    });
}

#[test]
fn a_dead_letter_outlives_the_queue_and_the_entry_outlives_both() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let queue = attributes(stack, &stack.outputs.queue_url).await;
        let letters = attributes(stack, &stack.outputs.dead_letter_queue_url).await;
        let queue_keeps = integer(&queue["MessageRetentionPeriod"]);
        let letters_keep = integer(&letters["MessageRetentionPeriod"]);
        assert!(letters_keep > queue_keeps, "{letters_keep} s, the queue {queue_keeps} s");
        for name in [&stack.outputs.producer, &stack.outputs.consumer] {
            let function = function(stack, name).await;
            let days = integer(&function["Environment"]["Variables"]["ENTRY_TTL_DAYS"]);
            assert!(days * 86_400 > queue_keeps + letters_keep, "{name}: {days} days");
        }
        let consumer = function(stack, &stack.outputs.consumer).await;
        let told = integer(&consumer["Environment"]["Variables"]["QUEUE_RETENTION_SECONDS"]);
        assert_eq!(told, queue_keeps);
    });
}

#[test]
fn the_producer_knows_how_much_the_queue_takes() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let producer = function(stack, &stack.outputs.producer).await;
        let told = integer(&producer["Environment"]["Variables"]["MAX_MESSAGE_BYTES"]);
        for url in [&stack.outputs.queue_url, &stack.outputs.dead_letter_queue_url] {
            let queue = attributes(stack, url).await;
            assert_eq!(integer(&queue["MaximumMessageSize"]), told);
        }
    });
}

#[test]
fn the_queue_gives_up_after_as_many_receives_as_the_consumer_counts() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let queue = attributes(stack, &stack.outputs.queue_url).await;
        let letters = attributes(stack, &stack.outputs.dead_letter_queue_url).await;
        let redrive: Value =
            serde_json::from_str(queue["RedrivePolicy"].as_str().unwrap()).unwrap();
        assert_eq!(redrive["deadLetterTargetArn"], letters["QueueArn"]);
        let consumer = function(stack, &stack.outputs.consumer).await;
        let told = integer(&consumer["Environment"]["Variables"]["MAX_RECEIVE_COUNT"]);
        assert_eq!(integer(&redrive["maxReceiveCount"]), told);
        assert!(told >= 3, "{told} receives");
    });
}

/// The emulator leaves a template's `TimeToLiveSpecification` aside, so this
/// reads the template itself and an entry that the functions wrote.
#[test]
fn entries_expire_by_the_attribute_that_the_functions_write() {
    end_to_end(async |local| {
        let template = template(local);
        let ttl = &template["Resources"]["Table"]["Properties"]["TimeToLiveSpecification"];
        assert_eq!(ttl["Enabled"], true);
        let id = accepted(&local.stack, &report("Expires"), None).await;
        ended(&local.stack, &id).await;
        let entry = local.stack.entry(&id).await.unwrap().unwrap();
        let written = &entry[ttl["AttributeName"].as_str().unwrap()];
        let seconds: u64 = written.as_n().unwrap().parse().unwrap();
        // DynamoDB deletes by whole seconds; milliseconds would be millennia off.
        assert!((1_700_000_000..10_000_000_000).contains(&seconds), "{seconds}");
    });
}

/// The template as it was deployed.
fn template(local: &Local) -> Value {
    let template = std::fs::read(local.emulator.state().join("relevo.json")).unwrap();
    serde_json::from_slice(&template).unwrap()
}

async fn mapping(stack: &Stack) -> Value {
    let arguments = [
        "lambda",
        "list-event-source-mappings",
        "--function-name",
        &stack.outputs.consumer,
        "--query",
        "EventSourceMappings",
    ];
    let mappings = stack.aws.json(&arguments).await.unwrap();
    let [mapping] = &mappings.as_array().unwrap()[..] else { panic!("{mappings}") };
    mapping.clone()
}

async fn function(stack: &Stack, name: &str) -> Value {
    let arguments = ["lambda", "get-function-configuration", "--function-name", name];
    stack.aws.json(&arguments).await.unwrap()
}

async fn attributes(stack: &Stack, queue_url: &str) -> Value {
    let arguments = ["sqs", "get-queue-attributes", "--attribute-names", "All", "--queue-url"];
    let arguments = [&arguments[..], &[queue_url]].concat();
    stack.aws.json(&arguments).await.unwrap()["Attributes"].clone()
}

/// A number that may be written as text.
fn integer(value: &Value) -> i64 {
    let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
    number.unwrap_or_else(|| panic!("{value} is no whole number"))
}
