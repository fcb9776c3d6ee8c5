//! What a command shows on stdout: for people, or for machines.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use serde::Serialize;

use crate::workspace::style_of_stdout;

/// Where there is no terminal to ask.
const WIDTH_OF_A_LOG: u16 = 110;

/// In less than this, ids and sentences would be columns of letters. A terminal that
/// is narrower breaks the lines.
const NARROWEST: u16 = 80;

/// Who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A person at a terminal.
    Colored,
    /// A person, later: files and pipes.
    Plain,
    /// Tools such as jq: one JSON document a line.
    Json,
}

/// The option that all commands have which show something.
#[derive(Args, Clone, Copy, Debug)]
pub struct Format {
    /// Shows JSON, one document a line, for tools such as jq.
    #[arg(long)]
    json: bool,
}

impl Format {
    /// What was asked for, or else what suits where stdout goes.
    #[must_use]
    pub fn style(self) -> Style {
        if self.json { Style::Json } else { style_of_stdout() }
    }
}

/// Colours by their ANSI codes (SGR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// What matters less.
    Dim,
    /// What is as it should be.
    Green,
    /// What is not, but may become so by itself.
    Yellow,
    /// What somebody has to look at.
    Red,
}

impl Style {
    /// Text in a colour, where colours are shown.
    #[must_use]
    pub fn paint(self, color: Color, text: &str) -> Cow<'_, str> {
        let code = match color {
            Color::Dim => 2,
            Color::Green => 32,
            Color::Yellow => 33,
            Color::Red => 31,
        };
        match self {
            Self::Colored => Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m")),
            Self::Plain | Self::Json => Cow::Borrowed(text),
        }
    }
}

/// Writes a line to stdout.
///
/// Not `println!`, which panics when whoever read it has gone, such as `head`.
///
/// # Errors
///
/// [`NobodyReads`] it any more, or it could not be written.
pub fn print(line: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{}", harmless(line)) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(NobodyReads.into()),
        written => written.context("could not write to stdout"),
    }
}

/// Whoever read stdout has gone, such as `head`. Nothing went wrong.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("nobody reads stdout any more")]
pub struct NobodyReads;

/// Writes a line to stderr. If nobody reads that, there is nobody to be told.
///
/// Not `eprintln!`, which panics then; and what a test says by that is not seen until
/// it has ended, which makes a build of minutes look like a test that hangs.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", harmless(line));
}

/// The text with all control characters escaped, except colour codes, line ends and
/// tabs: payloads, errors and messages are written by whoever sends jobs, and must
/// not command a terminal. They are escaped as in JSON, so that JSON stays what it is.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_command = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(command) = rest.find(is_command) {
        let (before, from) = rest.split_at(command);
        shown.push_str(before);
        rest = if let Some((color, behind)) = color(from) {
            shown.push_str(color);
            behind
        } else {
            let mut behind = from.chars();
            let code = behind.next().map_or(0, u32::from);
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\u{code:04x}");
            behind.as_str()
        };
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// The ANSI code (SGR) of a colour or style that the text begins with, and the rest.
fn color(text: &str) -> Option<(&str, &str)> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
    let behind = end.strip_prefix('m')?;
    Some(text.split_at(text.len() - behind.len()))
}

/// Writes one JSON document as a line.
///
/// # Errors
///
/// Nobody reads it any more.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(&serde_json::to_string(value).context("could not write JSON")?)
}

/// The table with a column that is wide enough for ids, which people copy.
#[must_use]
pub fn with_ids(column: usize, mut table: Table) -> Table {
    // A UUID, and the blanks around it.
    const WIDTH: u16 = 36 + 2;
    if let Some(column) = table.column_mut(column) {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(WIDTH)));
    }
    table
}

/// An empty table that fits the terminal.
#[must_use]
pub fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    match table.width() {
        _ if !table.is_tty() => table.set_width(WIDTH_OF_A_LOG),
        Some(width) if width < NARROWEST => table.set_width(NARROWEST),
        Some(_) | None => &mut table,
    };
    table
        .load_style(presets::UTF8_FULL)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_elses_text_commands_the_terminal() {
        for (text, expected) in [
            ("plain \u{e9}\n\ttext", "plain \u{e9}\n\ttext"),
            ("\u{1b}[31mred\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m"),
            ("\u{1b}[38;5;9mred", "\u{1b}[38;5;9mred"),
            // Clears the screen, sets the title, goes back to the line's start.
            ("a\u{1b}[2Jb", r"a\u001b[2Jb"),
            ("\u{1b}]0;title\u{7}", r"\u001b]0;title\u0007"),
            ("ok\rno", r"ok\u000dno"),
            ("\u{9b}2J\u{7f}", r"\u009b2J\u007f"),
            ("\u{1b}", r"\u001b"),
            ("\u{1b}[1", r"\u001b[1"),
        ] {
            assert_eq!(harmless(text), expected);
        }
    }

    #[test]
    fn json_means_the_same_without_commands() {
        let text = serde_json::to_string("\u{9b}2J\u{1b}[31m\u{7f}").unwrap();
        let shown: String = serde_json::from_str(&harmless(&text)).unwrap();
        assert_eq!(shown, "\u{9b}2J\u{1b}[31m\u{7f}");
    }
}
