//! The actions in the policies are the calls in the code, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ops::workspace::Workspace;

use crate::expansion::{Expansion, template, text};

/// The call of a group, in `shared`. Its action is that of the group's statements:
/// the producer's groups are new entries, the consumer's claims and settlements.
const GROUP: &str = "a group";

/// What only the command line does, though the code for it is in `shared`.
const OPERATORS: &str = "operator.rs";

/// The SDK's name of each call that could be made, and the action that it needs.
const CALLS: [(&str, &str); 23] = [
    (".batch_execute_statement()", GROUP),
    (".batch_get_item()", "dynamodb:BatchGetItem"),
    (".batch_write_item()", "dynamodb:BatchWriteItem"),
    (".delete_item()", "dynamodb:DeleteItem"),
    (".describe_table()", "dynamodb:DescribeTable"),
    (".execute_statement()", "dynamodb:PartiQLSelect"),
    (".get_item()", "dynamodb:GetItem"),
    (".put_item()", "dynamodb:PutItem"),
    (".query().table_name(", "dynamodb:Query"),
    (".scan()", "dynamodb:Scan"),
    (".transact_get_items()", "dynamodb:GetItem"),
    (".transact_write_items()", "dynamodb:PutItem"),
    (".update_item()", "dynamodb:UpdateItem"),
    (".change_message_visibility()", "sqs:ChangeMessageVisibility"),
    (".change_message_visibility_batch()", "sqs:ChangeMessageVisibility"),
    (".delete_message()", "sqs:DeleteMessage"),
    (".delete_message_batch()", "sqs:DeleteMessage"),
    (".get_queue_attributes()", "sqs:GetQueueAttributes"),
    (".purge_queue()", "sqs:PurgeQueue"),
    (".receive_message()", "sqs:ReceiveMessage"),
    (".send_message()", "sqs:SendMessage"),
    (".send_message_batch()", "sqs:SendMessage"),
    (".start_message_move_task()", "sqs:StartMessageMoveTask"),
];

/// What AWS's poller does in the consumer's name.
const POLLER: [&str; 3] = ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"];

#[test]
fn the_producer_may_do_what_its_code_does() {
    let mut expected = called(&["producer/src", "shared/src"]);
    assert!(expected.remove(GROUP) && expected.insert("dynamodb:PartiQLInsert".to_owned()));
    assert_eq!(granted("ProducerRole"), expected);
}

#[test]
fn the_consumer_may_do_what_its_code_and_its_poller_do() {
    let mut expected = called(&["consumer/src", "shared/src"]);
    assert!(expected.remove(GROUP) && expected.insert("dynamodb:PartiQLUpdate".to_owned()));
    expected.extend(POLLER.map(str::to_owned));
    assert_eq!(granted("ConsumerRole"), expected);
}

/// The actions of a role on queues and tables; logs and traces are Lambda's.
fn granted(role: &str) -> BTreeSet<String> {
    let role = Expansion::new(&template(), &[]).properties(role);
    let mut actions = BTreeSet::new();
    for policy in role["Policies"].as_array().unwrap() {
        for statement in policy["PolicyDocument"]["Statement"].as_array().unwrap() {
            let action = &statement["Action"];
            let all = action.as_array().cloned().unwrap_or_else(|| vec![action.clone()]);
            actions.extend(all.iter().map(text));
        }
    }
    actions.retain(|action| !action.starts_with("logs:") && !action.starts_with("xray:"));
    // One action for AWS; the emulator has a second one for batches.
    actions.into_iter().map(|action| action.trim_end_matches('*').to_owned()).collect()
}

/// The actions that the calls in these folders need.
fn called(folders: &[&str]) -> BTreeSet<String> {
    let source = source(folders);
    let found = CALLS.iter().filter(|(call, _)| source.contains(call));
    found.map(|(_, action)| (*action).to_owned()).collect()
}

/// The code in these folders, without white space.
fn source(folders: &[&str]) -> String {
    let mut source = String::new();
    for folder in folders {
        read(&Workspace::here().path(folder), &mut source);
    }
    source.split_whitespace().collect()
}

fn read(folder: &Path, source: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, source);
        } else if path.file_name().is_none_or(|name| name != OPERATORS) {
            source.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}
