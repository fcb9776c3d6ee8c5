//! Random operations: SQS in memory answers what an engine over HTTP answers,
//! and holds as many messages after it.
//!
//! The engine is the emulator, or what answers at `PROVE_SQS_ENDPOINT`. A
//! standard queue may choose which messages it returns first: in this the queue
//! in memory follows the engine.

mod engine;
mod sequence;
mod timing;

use std::collections::BTreeMap;

use ops::emulator::Emulator;
use ops::progress::Progress;
use ops::tools::Tools;
use ops::workspace::Workspace;
use tokio::task::JoinSet;

use self::engine::{Engine, MINISTACK};
use self::sequence::{End, Sequence};

/// Sequences of operations, side by side and each on its own queues.
const SEQUENCES: u64 = 32;

/// How often a sequence is begun anew, because a message became visible in the
/// middle of a call: which of both happened first nobody can tell.
const TRIES: usize = 10;

/// What must have happened in one sequence or another.
const WANTED: [&str; 10] = [
    "deleted",
    "deleted nothing",
    "received",
    "received a dead letter",
    "received nothing",
    "received once more",
    "visibility changed",
    "visibility not changed: NotInFlight",
    "visibility not changed: Stale",
    "visibility not changed: TooLong",
];

#[tokio::test(flavor = "multi_thread")]
async fn random_operations_are_answered_as_an_engine_answers_them() {
    let (engine, _emulator) = engine().await;
    let mut sequences = JoinSet::new();
    for seed in 0..SEQUENCES {
        sequences.spawn(run(engine.clone(), seed));
    }
    let mut happened = BTreeMap::new();
    let mut differences = Vec::new();
    while let Some(ended) = sequences.join_next().await {
        match ended.unwrap() {
            Ok(these) => these
                .into_iter()
                .for_each(|(what, times)| *happened.entry(what).or_insert(0) += times),
            Err(difference) => differences.push(difference),
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    println!("{happened:?}");
    for what in WANTED {
        assert!(happened.contains_key(what), "never happened: {what}; but {happened:?}");
    }
}

async fn engine() -> (Engine, Option<Emulator>) {
    if let Some(endpoint) = std::env::var_os("PROVE_SQS_ENDPOINT") {
        return (Engine::new(endpoint.to_str().unwrap(), &[]), None);
    }
    let tools = Tools::prepare(&Workspace::here(), Progress::Lines).await.unwrap();
    let emulator = Emulator::start(&tools, None, None, None).await.unwrap();
    (Engine::new(&emulator.endpoint(), &MINISTACK), Some(emulator))
}

/// One sequence; what happened in it, or the difference with what led to it.
async fn run(engine: Engine, seed: u64) -> Result<BTreeMap<String, usize>, String> {
    for number in 0..TRIES {
        let name = format!("{seed}-{number}");
        let mut sequence = Sequence::new(engine.clone(), &name, seed).await;
        let mut history = Vec::new();
        match sequence.run(&mut history).await {
            Ok(()) => return Ok(sequence.happened),
            Err(End::Interrupted) => {}
            Err(End::Different(how)) => {
                return Err(format!("sequence {seed}: {how}, after {history:?}"));
            }
        }
    }
    Err(format!("sequence {seed} was interrupted {TRIES} times: is the machine too busy?"))
}
