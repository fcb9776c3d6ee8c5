//! The real producer and consumer in a world of its own time, where everything
//! goes wrong that SQS, Lambda and DynamoDB may legally do.
//!
//! A seed makes a world (`world`): its weather (`faults`), its jobs (`jobs`),
//! clients that ask for them (`clients`), and Lambda's pollers (`lambda`).
//! Every call of the functions (`table`, `queue`) goes over a network that may
//! lose it, and every invocation may be killed wherever it awaits something
//! (`fate`). All of it is booked (`ledger`) and held against the promises, also
//! after everything has come to rest. The same seed makes the same world, but for
//! threads of handlers, which know only real time.

mod clients;
mod entries;
mod fate;
mod faults;
mod jobs;
mod lambda;
mod ledger;
mod operator;
mod queue;
mod table;
mod verdict;
mod world;

use std::sync::Arc;
use std::time::Duration;

use consumer::jobs::probe::forget_runs;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

use self::clients::Client;
use self::entries::Entries;
pub(crate) use self::entries::TableKind;
pub(crate) use self::faults::Counts;
use self::faults::{Fault, Weather};
use self::jobs::{Spec, stray};
use self::world::World;

/// What a seed is run with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Jobs of each world.
    pub(crate) jobs: usize,
    /// Where entries are.
    pub(crate) table: TableKind,
    /// Whether everything that happens is written down.
    pub(crate) keeps_history: bool,
}

/// What happened in a world.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) jobs: u64,
    pub(crate) deliveries: u64,
    pub(crate) faults: Counts,
    pub(crate) checks: u64,
    pub(crate) violations: Vec<String>,
    pub(crate) history: Vec<String>,
}

/// Lives through the world of `seed`.
pub(crate) fn run(seed: u64, options: Options) -> anyhow::Result<Report> {
    forget_runs();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let report = LocalSet::new().block_on(&runtime, live(seed, options))?;
    // Threads of handlers wait in a time that has ended.
    runtime.shutdown_background();
    Ok(report)
}

async fn live(seed: u64, options: Options) -> anyhow::Result<Report> {
    let world = World::new(seed, Entries::new(options.table)?, options.keeps_history);
    let time = spawn_local(fate::pass_time_for_threads(Arc::clone(&world)));
    ask(&world, seed, options.jobs);
    come_to_rest(&world).await;
    verdict::check(&world).await;
    if world.climate.weather == Weather::Storm {
        operator::redrive(&world);
        come_to_rest(&world).await;
        verdict::check(&world).await;
    }
    world.end_the_storm();
    if seed.is_multiple_of(8) {
        verdict::check_expiry(&world).await;
    }
    time.abort();
    Ok(report(&world))
}

/// Sends clients, and strangers with messages that no job is in.
fn ask(world: &Arc<World>, seed: u64, jobs: usize) {
    let weather = world.climate.weather;
    let mut specs: Vec<_> = (0..jobs)
        .map(|number| Spec::draw(&mut world.random(), weather, &format!("{seed}-{number}")))
        .collect();
    let mut number = 0;
    while !specs.is_empty() {
        let together = if world.random().bool() { 1 } else { world.random().usize(1..6) };
        let rest = specs.split_off(together.min(specs.len()));
        spawn_local(Client::new(world, number).ask(std::mem::replace(&mut specs, rest)));
        number += 1;
    }
    for _ in 0..jobs {
        if world.strikes(Fault::Stray, world.climate.stray) {
            spawn_local(send_stray(Arc::clone(world), world.client()));
        }
    }
}

async fn send_stray(world: Arc<World>, _busy: world::Busy) {
    sleep(world.millis(0..clients::LATEST_START * 2)).await;
    let known = world.ledger().any_body();
    let body = stray(&mut world.random(), known.as_deref(), world.now());
    world.log(|| format!("a stranger sends {body}"));
    world.ledger().strays.push(body.clone());
    let content = shared::fake_sqs::Content { body, ..Default::default() };
    world.send(content, Duration::ZERO);
}

/// Lets pollers work until nothing can happen any more.
async fn come_to_rest(world: &Arc<World>) {
    let pollers = world.random().usize(1..5);
    let pollers: Vec<_> =
        (0..pollers).map(|slot| spawn_local(lambda::poll(Arc::clone(world), slot))).collect();
    for poller in pollers {
        if let Err(error) = poller.await {
            world.ledger().check(false, || format!("the consumer panicked: {error}"));
        }
    }
    // A claim whose caller had given up may have been put last. Its lease ends.
    sleep(world::TIMEOUT * 2).await;
}

fn report(world: &World) -> Report {
    let mut ledger = world.ledger();
    Report {
        jobs: ledger.jobs.len() as u64,
        deliveries: ledger.deliveries,
        faults: std::mem::take(&mut ledger.faults),
        checks: ledger.checks,
        violations: std::mem::take(&mut ledger.violations),
        history: std::mem::take(&mut ledger.history),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_world_each_time() {
        crate::simulate::hide_expected_panics();
        let options = Options { jobs: 8, table: TableKind::Memory, keeps_history: true };
        for seed in 0..20 {
            let [first, second] = [0, 1].map(|_| run(seed, options).unwrap().history);
            if !first.iter().any(|line| line.contains(fate::A_THREAD)) {
                assert_eq!(first, second, "seed {seed}");
            }
        }
    }
}
