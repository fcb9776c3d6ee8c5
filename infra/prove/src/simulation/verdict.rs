//! What must be true of a world that has come to rest.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use consumer::jobs::probe::runs;
use shared::config::EntryTtl;
use shared::fake_sqs::Queue;
use shared::{JobEntry, JobId, State};
use tokio::time::sleep;

use super::clients::Client;
use super::come_to_rest;
use super::faults::Weather;
use super::jobs::Spec;
use super::world::{MAX_RECEIVE_COUNT, World};

/// Holds every job and every stray message against the promises.
pub(crate) async fn check(world: &Arc<World>) {
    world.ledger().check_runs();
    let dead: HashSet<String> = world
        .sqs()
        .messages(Queue::DeadLetters)
        .iter()
        .map(|letter| letter.content.body.clone())
        .collect();
    let ids: Vec<_> = world.ledger().jobs.keys().copied().collect();
    for id in ids {
        let entry = world.entry(id).await;
        check_end(world, id, entry.as_ref(), &dead);
        check_undisturbed(world, id, entry.as_ref());
    }
    let strays = world.ledger().strays.clone();
    for stray in strays {
        let is_dead = dead.contains(&stray);
        world.ledger().check(is_dead, || format!("lost, or changed: {stray}"));
    }
}

/// A job has succeeded or is cancelled, or a person finds its message, byte for
/// byte, among the dead letters.
fn check_end(world: &World, id: JobId, entry: Option<&JobEntry>, dead: &HashSet<String>) {
    let mut ledger = world.ledger();
    let Some(known) = ledger.known(id) else { return };
    if known.bodies.is_empty() {
        return;
    }
    let is_dead = known.bodies.iter().any(|body| dead.contains(body));
    let state = entry.map(|entry| entry.state);
    let is_over = matches!(state, Some(State::Succeeded | State::Cancelled));
    ledger.check(is_over || is_dead, || {
        format!("{id}: lost, its entry is {state:?} and it is no dead letter")
    });
    let is_running =
        state == Some(State::Running) && entry.is_some_and(|entry| entry.is_leased(world.now()));
    ledger.check(!is_running, || format!("{id}: nobody is at work, but its lease goes on"));
}

/// Where nothing but handlers went wrong, each job ran exactly as often as it
/// had to. Where the table was away for a while, each job has succeeded.
fn check_undisturbed(world: &World, id: JobId, entry: Option<&JobEntry>) {
    let mut ledger = world.ledger();
    let Some(spec) = ledger.known(id).and_then(|known| known.accepted.clone()) else { return };
    let state = entry.map(|entry| entry.state);
    match world.climate.weather {
        Weather::Storm => {}
        Weather::Outage => ledger.check(state == Some(State::Succeeded), || {
            format!("{id}: an outage of the table was no reason to become {state:?}")
        }),
        Weather::Calm => {
            let (runs, (expected_runs, expected)) =
                (runs(id).started, spec.undisturbed(MAX_RECEIVE_COUNT));
            ledger.check(runs == expected_runs && state == Some(expected), || {
                let steps = &spec.steps;
                format!("{id}: ran {runs} times of {expected_runs} and is {state:?}, not {expected}: {steps:?}")
            });
        }
    }
}

/// After its entry's life, a key names a new job, which is done.
pub(crate) async fn check_expiry(world: &Arc<World>) {
    let named: Vec<(JobId, Spec)> = world.ledger().named().into_iter().take(3).collect();
    sleep(EntryTtl::DEFAULT.as_duration() + Duration::from_hours(1)).await;
    let mut before = Vec::new();
    for (id, spec) in &named {
        world.log(|| format!("the entry of {id} has expired"));
        world.ledger().expired(*id);
        before.push(runs(*id).started);
        let again = Client::new(world, usize::MAX).ask_for(spec).await;
        world.ledger().check(again == Some(*id), || {
            format!("{id}: its name was not free again after its entry had expired")
        });
    }
    come_to_rest(world).await;
    for ((id, _), before) in named.iter().zip(before) {
        let runs = runs(*id).started;
        world.ledger().check(runs > before, || {
            format!("{id}: asked for again after its entry had expired, and not done")
        });
    }
    world.ledger().check_runs();
}
