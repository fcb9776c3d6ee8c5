//! What a command shows on stdout: for people, or for machines.

use std::borrow::Cow;
use std::io::Write;

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::workspace::style_of_stdout;

/// Where there is no terminal to ask.
const WIDTH_OF_A_LOG: u16 = 110;

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

/// Writes a line.
///
/// Not `println!`, which panics when whoever read it has gone, such as `head`.
///
/// # Errors
///
/// Nobody reads it any more.
pub fn print(line: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{line}").context("could not write to stdout")
}

/// Writes one JSON document as a line.
///
/// # Errors
///
/// Nobody reads it any more.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(&serde_json::to_string(value).context("could not write JSON")?)
}

/// An empty table that fits the terminal.
#[must_use]
pub fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    if !table.is_tty() {
        table.set_width(WIDTH_OF_A_LOG);
    }
    table
        .load_style(presets::UTF8_FULL)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    table
}
