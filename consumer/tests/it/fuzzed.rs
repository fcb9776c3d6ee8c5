//! Whatever SQS may hand over, as a fuzzer makes it up.
//!
//! The fuzzer (`infra/fuzz`) calls this function with whatever it thinks of;
//! here it runs over what it has kept.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use consumer::event::{Record, records};
use serde_json::json;
use serde_json::value::RawValue;
use shared::jobs::Step;
use shared::message::Message;
use shared::{Job, State};

use crate::rig::{Fault, Rig, record};

/// A batch that is delivered twice.
///
/// An event as it is begins with a brace. Otherwise each line is a record: its
/// message id, its receive, its body. A line `! …` says what goes wrong with
/// the next calls to the table, one letter each, and `Q` that no queue answers.
pub(crate) fn sqs_event(data: &[u8]) {
    let rig = Rig::in_order();
    let text = String::from_utf8_lossy(data);
    let text = if text.starts_with('{') { text.into_owned() } else { event(&rig, &text) };
    let Ok(event) = RawValue::from_string(text) else { return };
    let records = records(&event).unwrap_or_default();
    if !records.iter().all(is_harmless) {
        return;
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
        deliver(&rig, &event, &records).await;
        let done: Vec<_> = records.iter().filter_map(|record| succeeded(&rig, record)).collect();
        let runs = |id| consumer::jobs::probe::runs(id).started;
        let before: Vec<_> = done.iter().map(|message| runs(message.id)).collect();
        deliver(&rig, &event, &records).await;
        let after: Vec<_> = done.iter().map(|message| runs(message.id)).collect();
        assert_eq!(before, after, "a job ran again that had succeeded");
    });
}

/// The event that the lines stand for.
fn event(rig: &Rig, lines: &str) -> String {
    let mut records = Vec::new();
    for line in lines.lines() {
        if let Some(faults) = line.strip_prefix("! ") {
            rig.faults(faults.chars().filter_map(fault));
            rig.consumer.queue.is_down.store(faults.contains('Q'), Ordering::Relaxed);
            continue;
        }
        let mut words = line.splitn(3, ' ');
        let (id, receive) = (words.next(), words.next());
        let receive = receive.and_then(|receive| receive.parse().ok()).unwrap_or(1);
        records.push(record(id.unwrap_or_default(), words.next().unwrap_or_default(), receive));
    }
    json!({ "Records": records }).to_string()
}

fn fault(letter: char) -> Option<Fault> {
    match letter {
        '.' => Some(Fault::None),
        'F' => Some(Fault::Fails),
        'H' => Some(Fault::Hangs),
        'L' => Some(Fault::AnswerLost),
        'T' => Some(Fault::SentTwice),
        'N' => Some(Fault::NoOldItem),
        _ => None,
    }
}

/// Not one that would end the fuzzer, keep it waiting, or fill its memory.
fn is_harmless(record: &Record) -> bool {
    let job =
        Message::decode(record.body.as_deref().unwrap_or_default()).map(|message| message.job);
    let Ok(Job::Probe(probe)) = job else { return true };
    probe.attempts.iter().all(|step| match step {
        Step::Exit | Step::Panic | Step::PanicInTask | Step::BlockForMs(_) => false,
        Step::SucceedWithBytes(bytes) => *bytes < 1_000_000,
        _ => true,
    })
}

/// One delivery; what is reported came in, and what is not is done or dead.
async fn deliver(rig: &Rig, event: &RawValue, records: &[Record]) {
    let Ok(failed) = rig.answer(event.get()).await else { return };
    let failed: serde_json::Value = serde_json::from_str(&failed).unwrap();
    let failed = failed["batchItemFailures"].as_array().unwrap().iter();
    let failed: Vec<_> =
        failed.map(|failure| failure["itemIdentifier"].as_str().unwrap()).collect();
    let distinct: HashSet<_> = failed.iter().collect();
    assert_eq!(distinct.len(), failed.len(), "reported twice: {failed:?}");
    let came_in: HashSet<_> =
        records.iter().filter_map(|record| record.message_id.as_deref()).collect();
    assert!(failed.iter().all(|id| came_in.contains(id)), "{failed:?} of {came_in:?}");
    for record in records {
        let is_reported = record.message_id.as_deref().is_some_and(|id| failed.contains(&id));
        let is_dead = rig.letters().iter().any(|letter| Some(&letter.body) == record.body.as_ref());
        let is_justified = is_reported || is_dead || succeeded(rig, record).is_some();
        assert!(is_justified, "acknowledged for no reason: {record:?}");
    }
}

/// The record's message, if its job is done.
fn succeeded(rig: &Rig, record: &Record) -> Option<Message> {
    let message = Message::decode(record.body.as_deref()?).ok()?;
    let entry = rig.table.entries.entry(message.id)?;
    let is_it = message.job.intent().is_some() || entry.fingerprint == message.fingerprint;
    (is_it && entry.state == State::Succeeded).then_some(message)
}

#[test]
fn what_the_fuzzer_kept_of_batches_is_handled_as_promised() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/fuzz/corpus/sqs_event");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(files.len() > 4, "there is no corpus");
    for file in files {
        sqs_event(&std::fs::read(file.unwrap().path()).unwrap());
    }
}
