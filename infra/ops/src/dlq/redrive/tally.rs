//! What came of a redrive.

use anyhow::{Result, bail};
use serde_json::json;

use crate::dlq::dead_letters;
use crate::dlq::found::Summary;
use crate::output::{Style, print, print_json, table, with_ids};

/// Counts, and the letters that have to be named.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Letters that were looked at.
    pub(super) seen: usize,
    /// Those that the command is about.
    pub(super) matched: Vec<Summary>,
    /// Those that a dry run would have sent.
    pub(super) would_be_sent: Vec<Summary>,
    /// Jobs whose entries were set back to `queued`.
    pub(super) set_back: usize,
    /// Messages that were sent.
    pub(super) sent: usize,
    /// Letters that were deleted then.
    pub(super) deleted: usize,
    /// Messages that were sent, failed, and are dead letters again.
    pub(super) came_back: usize,
    /// Letters that stay, and why.
    pub(super) refused: Vec<(Summary, String)>,
}

impl Tally {
    /// Shows the counts, and what was refused.
    pub(super) fn show(&self, style: Style) -> Result<()> {
        if style == Style::Json {
            let refused: Vec<_> = self
                .refused
                .iter()
                .map(|(letter, why)| {
                    json!({ "message_id": letter.message_id, "job_id": letter.job_id, "why": why })
                })
                .collect();
            return print_json(&json!({
                "seen": self.seen,
                "matched": self.matched.len(),
                "set_back": self.set_back,
                "sent": self.sent,
                "deleted": self.deleted,
                "came_back": self.came_back,
                "refused": refused,
            }));
        }
        let mut rows = table(["Dead letters that", "Count"]);
        let mut say = |what: &str, count: usize| {
            rows.add_row([what, &count.to_string()]);
        };
        say("were looked at", self.seen);
        say("fit the options", self.matched.len());
        say("were sent back to the queue, then deleted here", self.deleted);
        if self.set_back > 0 {
            say("needed their job's entry set back to \"queued\"", self.set_back);
        }
        if self.came_back > 0 {
            say("failed again at once, and are back", self.came_back);
        }
        print(&rows.to_string())?;
        self.show_refused(style)
    }

    /// Shows what was, or would be, refused.
    pub(super) fn show_refused(&self, style: Style) -> Result<()> {
        if self.refused.is_empty() || style == Style::Json {
            return Ok(());
        }
        let mut rows = with_ids(0, table(["Not sent back: job, message", "Why"]));
        for (letter, why) in &self.refused {
            let job = letter.job_id.as_deref().unwrap_or("no job");
            rows.add_row([&format!("{job}\n{}", letter.message_id), why]);
        }
        print(&rows.to_string())
    }

    /// Whether everything was done.
    ///
    /// # Errors
    ///
    /// A letter had to stay.
    pub(super) fn check(&self) -> Result<()> {
        match self.refused.len() {
            0 => Ok(()),
            count => {
                let matched = self.matched.len();
                bail!("{count} of {} still here: it is said above why", dead_letters(matched))
            }
        }
    }
}
