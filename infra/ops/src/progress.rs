//! What is being done, shown on stderr while it is done.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::say;

const SPINNER: &str = "  {spinner} {prefix} {elapsed} {wide_msg:.dim}";
const BAR: &str = "  {spinner} {prefix} {elapsed} {bar:30} {percent} % {wide_msg:.dim}";

/// Where steps are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A spinner with what is going on right now.
    Spinner,
    /// A line when a step begins and one when it ended, for logs and tests.
    Lines,
}

impl Progress {
    /// A spinner for people, lines for everything else.
    #[must_use]
    pub fn detect() -> Self {
        if std::io::stderr().is_terminal() { Self::Spinner } else { Self::Lines }
    }

    /// Begins a step.
    #[must_use]
    pub fn step(self, what: &str) -> Step {
        let bar = match self {
            Self::Spinner => spinner(what),
            Self::Lines => ProgressBar::hidden(),
        };
        if self == Self::Lines {
            say(&format!("     {what} …"));
        }
        Step { what: what.to_owned(), bar, since: Instant::now() }
    }

    /// Begins a step whose amount of work is known.
    #[must_use]
    pub fn step_of(self, what: &str, amount: u64) -> Step {
        let step = self.step(what);
        if self == Self::Spinner {
            step.bar.set_style(style(BAR));
            step.bar.set_length(amount);
        }
        step
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn spinner(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_style(style(SPINNER)).with_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// A step that is under way. Dropped without [`Step::done`], it just disappears:
/// the error says what happened.
#[derive(Debug)]
pub struct Step {
    what: String,
    bar: ProgressBar,
    since: Instant,
}

impl Step {
    /// Says what the step is at.
    pub fn at(&self, detail: impl Into<String>) {
        self.bar.set_message(detail.into());
    }

    /// Says how much of its work is done.
    pub fn reached(&self, amount: u64) {
        self.bar.set_position(amount);
    }

    /// Makes room on the screen while something else is written there.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// Ends the step, which did what it was for.
    pub fn done(self, result: &str) {
        self.ended(true, result);
    }

    /// Ends the step, which did what it was for only if `is_well`.
    pub fn ended(self, is_well: bool, result: &str) {
        let took = self.since.elapsed().as_secs_f64();
        self.bar.finish_and_clear();
        say(&format!("  {}  {}: {result} ({took:.1} s)", sign(is_well), self.what));
    }
}

/// A tick is for what succeeded, and for nothing else.
const fn sign(is_well: bool) -> char {
    if is_well { '✓' } else { '✗' }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
