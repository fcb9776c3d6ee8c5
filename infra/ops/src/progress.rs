//! What is being done, shown on stderr while it is done.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

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
}

/// Not `eprintln!`: a test's output is captured, and a build of minutes would
/// look like a test that hangs.
fn say(line: &str) {
    // Progress that cannot be shown is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn spinner(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("  {spinner} {prefix} {elapsed} {wide_msg:.dim}");
    let bar = ProgressBar::new_spinner()
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        .with_prefix(what.to_owned());
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

    /// Ends the step.
    pub fn done(self, result: &str) {
        let took = self.since.elapsed().as_secs_f64();
        self.bar.finish_and_clear();
        say(&format!("  ✓  {}: {result} ({took:.1} s)", self.what));
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
