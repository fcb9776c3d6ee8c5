//! `cargo ops prove soak`: thousands of jobs through the deployed template,
//! while calls go wrong and processes die; then the promises are looked at from
//! outside.

mod fault;
mod kills;
mod load;
mod outside;
mod promises;
mod proxy;
mod report;
mod runs;
mod wanted;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::kills::go_on_killing;
use self::outside::{entries, letters, states};
use self::promises::{Seen, check};
use self::proxy::Proxy;
use self::report::Report;
use self::wanted::Maker;
use crate::emulator;
use crate::functions::Profile;
use crate::local::{Local, Options};
use crate::messages::send_all;
use crate::output::print;
use crate::progress::{Progress, Step};
use crate::stack::Stack;
use crate::workspace::Workspace;

/// Short leases and backoffs, so that what comes back does so soon.
const PARAMETERS: [(&str, &str); 3] =
    [("ConsumerTimeout", "10"), ("BackoffBaseSeconds", "1"), ("BackoffCapSeconds", "2")];

/// Ten thousand jobs take a quarter of an hour on two idle cores.
const PATIENCE: Duration = Duration::from_mins(80);

/// The queue counts as empty when it was found so that many times in a row: a
/// delayed message is in no count.
const TIMES_EMPTY: u32 = 5;
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What a soak differs in.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Jobs that are asked for.
    pub jobs: usize,
    /// Chooses jobs, faults and kills. What the functions make of them depends
    /// on the machine as well.
    pub seed: u64,
    /// Whether processes are killed, or end themselves.
    pub with_crashes: bool,
}

/// A set-up whose functions reach AWS through the proxy.
struct Soak {
    plan: Plan,
    proxy: Proxy,
    local: Local,
    cause: PathBuf,
    killed: AtomicU64,
    began: Instant,
}

/// Sets up, soaks, prints the table.
///
/// # Errors
///
/// The set-up failed, or a promise does not hold: the error has the history of
/// the jobs concerned.
pub async fn run(workspace: &Workspace, plan: Plan, progress: Progress) -> Result<()> {
    let report = soak(workspace, plan, progress).await?;
    print(&format!("\n{}\n", report.table()))?;
    ensure!(report.violations().is_empty(), "{}", report.violations().join("\n\n"));
    Ok(())
}

/// Sets up and soaks.
///
/// # Errors
///
/// The set-up failed, or the jobs did not come to rest.
pub async fn soak(workspace: &Workspace, plan: Plan, progress: Progress) -> Result<Report> {
    let port = emulator::choose(None)?;
    let proxy = Proxy::start(emulator::endpoint(port), plan.seed).await?;
    let options = Options {
        profile: Profile::EndToEnd,
        port: Some(port),
        parameters: &PARAMETERS,
        functions_endpoint: Some(&proxy.endpoint()),
    };
    let local = Local::start(workspace, options, progress).await?;
    let cause = local.emulator.state().join("mended");
    let began = Instant::now();
    let soak = Soak { plan, proxy, local, cause, killed: AtomicU64::default(), began };
    let mut seen = Seen::default();
    let step = progress.step("Jobs, while calls fail and processes die");
    soak.ask_and_wait(&mut seen, &step).await?;
    soak.look(&mut seen, &step).await?;
    step.done(&format!("{} asked for", seen.asked.len()));
    let before = check(&seen);
    let step = progress.step("Redrive of the dead letters");
    let redriven = soak.redrive(&mut seen, &step).await?;
    step.done(&format!("{redriven} letters"));
    let verdict = before.and(check(&seen));
    Ok(Report::new(&soak, &seen, verdict, redriven))
}

impl Soak {
    const fn stack(&self) -> &Stack {
        &self.local.stack
    }

    /// Asks for all jobs, kills meanwhile, and waits until the queue is empty.
    async fn ask_and_wait(&self, seen: &mut Seen, step: &Step) -> Result<()> {
        self.proxy.be_calm(false);
        let groups =
            Maker::new(self.plan.seed, &self.cause, self.plan.with_crashes).groups(self.plan.jobs);
        let (accepted, is_asked) = (AtomicUsize::default(), AtomicBool::default());
        let ask = async {
            let asked = load::ask_for_all(&self.stack().api, groups, &accepted);
            let asked = self.while_killing(asked).await;
            is_asked.store(true, Ordering::Relaxed);
            asked
        };
        let show =
            || format!("{} of {} accepted", accepted.load(Ordering::Relaxed), self.plan.jobs);
        let wait = self.wait(seen, step, || is_asked.load(Ordering::Relaxed), show);
        let (asked, ()) = tokio::try_join!(ask, wait)?;
        seen.asked = asked;
        Ok(())
    }

    /// Kills processes until `work` is done.
    async fn while_killing<T>(&self, work: impl Future<Output = T>) -> T {
        let outputs = &self.stack().outputs;
        let functions = [&*outputs.consumer, &outputs.consumer, &outputs.producer];
        let endpoint = self.proxy.endpoint();
        let kills = async {
            if self.plan.with_crashes {
                go_on_killing(&functions, &endpoint, self.plan.seed, &self.killed).await
            } else {
                std::future::pending().await
            }
        };
        tokio::select! {
            done = work => done,
            never = kills => match never {},
        }
    }

    /// Reads the log until nobody asks any more and the queue stays empty.
    async fn wait(
        &self,
        seen: &mut Seen,
        step: &Step,
        is_asked: impl Fn() -> bool,
        show: impl Fn() -> String,
    ) -> Result<()> {
        let stack = self.stack();
        let (since, mut times_empty) = (Instant::now(), 0);
        while times_empty < TIMES_EMPTY {
            ensure!(since.elapsed() < PATIENCE, "the queue is not empty after {PATIENCE:?}");
            tokio::time::sleep(LOOK_AGAIN).await;
            seen.stories.follow(&stack.logs, &stack.outputs.consumer).await?;
            let depth = stack.queue_depth().await?;
            let is_empty = is_asked() && depth.visible + depth.in_flight == 0;
            times_empty = if is_empty { times_empty + 1 } else { 0 };
            step.at(format!(
                "{}, {} in the queue, {} in flight, {} faults in {} calls, {} kills",
                show(),
                depth.visible,
                depth.in_flight,
                self.proxy.faults().values().sum::<u64>(),
                self.proxy.calls(),
                self.killed.load(Ordering::Relaxed),
            ));
        }
        Ok(())
    }

    /// Looks at everything that can be seen from outside, with no fault in the
    /// way.
    async fn look(&self, seen: &mut Seen, step: &Step) -> Result<()> {
        step.at("looking at what came of them");
        self.proxy.be_calm(true);
        seen.entries = entries(self.stack()).await?;
        seen.letters = letters(self.stack()).await?;
        seen.sent = self.proxy.sent();
        seen.sent.retain(|queue, _| *queue == self.stack().outputs.queue_url);
        let ids: Vec<_> = seen.asked.iter().flat_map(|asked| asked.ids.clone()).collect();
        seen.states = states(self.stack(), ids).await?;
        Ok(())
    }

    /// Mends what can be mended, puts all dead letters back on the queue, and
    /// looks again. How many there were.
    async fn redrive(&self, seen: &mut Seen, step: &Step) -> Result<usize> {
        fs::write(&self.cause, "").context("could not mend the cause")?;
        let letters: Vec<_> = std::mem::take(&mut seen.letters).into_values().flatten().collect();
        self.proxy.be_calm(false);
        send_all(self.stack(), &letters).await?;
        self.wait(seen, step, || true, String::new).await?;
        self.look(seen, step).await?;
        seen.is_redriven = true;
        Ok(letters.len())
    }
}
