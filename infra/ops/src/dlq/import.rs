//! `cargo ops dlq import`: puts exported letters into the dead-letter queue.
//!
//! The whole file is read twice: once to see that every line is a letter, and
//! only then to send them. Neither needs more memory than a few letters do.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::batch::cut;
use super::line::{self, Content, MOST_BYTES};
use super::{Desk, Office, dead_letters};
use crate::ending::Ending;
use crate::messages::MOST_ENTRIES;
use crate::output::{Format, Style, print, print_json, say};
use crate::target::Target;

pub(super) const EXAMPLES: &str = "\
Examples:
  cargo ops dlq import letters.ndjson
  jq -c 'select(.attributes.kind.value == \"webhook\")' letters.ndjson | cargo ops dlq import -

Nothing is sent unless every line is a letter. A letter that is there already is
there twice then, which the claim makes harmless.";

/// Bytes of a line. JSON writes a byte of a body as six at most (`\u0001`).
const LONGEST_LINE: usize = 7 * MOST_BYTES;

/// What to read, and for whom.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The file, as `dlq export` writes it; `-` for stdin.
    file: PathBuf,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

pub(super) async fn run(desk: &Desk<'_>, args: Args) -> Result<Ending> {
    let mut file = open(&args.file)?;
    let count = Lines::of(&mut file)?.try_fold(0_usize, |count, line| line.map(|_| count + 1))?;
    let (_, office) = desk.open(&args.target).await?;
    let step = office.progress.step("Dead letters, put back");
    let mut sent = Sent::default();
    let mut lines = Lines::of(&mut file)?;
    let stopped = loop {
        let some: Result<Vec<_>> = lines.by_ref().take(MOST_ENTRIES).collect();
        let some = some?;
        if some.is_empty() {
            break false;
        }
        let stopped = tokio::select! {
            biased;
            () = office.stop.clone() => true,
            put = put(&office, some, &mut sent) => {
                put.with_context(|| sent.so_far())?;
                false
            }
        };
        if stopped {
            say(&sent.so_far());
            break true;
        }
        step.at(format!("{} of {count}", sent.count));
    };
    step.ended(sent.count == count, &format!("{} of {count}", sent.count));
    show(&sent, args.format.style())?;
    let refused: Vec<_> = sent.refused.iter().map(|(line, why)| format!("{line}: {why}")).collect();
    ensure!(refused.is_empty(), "the queue did not take the lines {}", refused.join("; "));
    Ok(if stopped { Ending::Interrupted } else { Ending::Done })
}

/// What has been sent so far.
#[derive(Debug, Default)]
struct Sent {
    count: usize,
    last_line: usize,
    refused: Vec<(usize, String)>,
}

impl Sent {
    fn so_far(&self) -> String {
        format!(
            "the lines up to {} are done; of those behind it, ten at most may have been sent",
            self.last_line
        )
    }
}

async fn put(office: &Office, lines: Vec<(usize, Content)>, sent: &mut Sent) -> Result<()> {
    let queues = &office.queues;
    for batch in cut(lines, |(_, content)| content) {
        let contents: Vec<_> = batch.iter().map(|(_, content)| content).collect();
        let answers = queues.send(&queues.dead_letters, &contents).await?;
        for ((line, _), answer) in batch.iter().zip(answers) {
            match answer {
                Ok(_) => sent.count += 1,
                Err(why) => sent.refused.push((*line, why.0)),
            }
            sent.last_line = *line;
        }
    }
    Ok(())
}

fn show(sent: &Sent, style: Style) -> Result<()> {
    match style {
        Style::Json => print_json(&json!({ "sent": sent.count, "refused": sent.refused.len() })),
        Style::Colored | Style::Plain => {
            print(&format!("{} put into the queue", dead_letters(sent.count)))
        }
    }
}

/// The file; what comes from stdin is kept in one, to be read twice.
fn open(path: &Path) -> Result<File> {
    if path != Path::new("-") {
        return File::open(path).with_context(|| format!("could not open {}", path.display()));
    }
    let mut file = tempfile::tempfile().context("could not create a file for what is read")?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file).context("could not read stdin")?;
    Ok(file)
}

/// The letters of a file, with the numbers of their lines. Empty lines are none.
struct Lines<'a> {
    reader: BufReader<&'a mut File>,
    number: usize,
}

impl<'a> Lines<'a> {
    fn of(file: &'a mut File) -> Result<Self> {
        file.rewind().context("could not read the file from its start")?;
        Ok(Self { reader: BufReader::new(file), number: 0 })
    }

    /// The next line that is not empty.
    fn read(&mut self) -> Result<Option<String>> {
        loop {
            self.number += 1;
            let mut line = Vec::new();
            // One byte more than is allowed, to see whether there is one.
            let mut bounded = self.reader.by_ref().take(LONGEST_LINE as u64 + 1);
            bounded.read_until(b'\n', &mut line).context("could not read the file")?;
            if line.is_empty() {
                return Ok(None);
            }
            if line.len() > LONGEST_LINE {
                bail!("line {}: longer than any letter", self.number);
            }
            let Ok(line) = String::from_utf8(line) else {
                bail!("line {}: not UTF-8", self.number);
            };
            if !line.trim().is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

impl Iterator for Lines<'_> {
    type Item = Result<(usize, Content)>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.read() {
            Ok(line) => line?,
            Err(error) => return Some(Err(error)),
        };
        let number = self.number;
        Some(
            line::parse(line.trim_end())
                .map(|content| (number, content))
                .with_context(|| format!("line {number} is no dead letter, and nothing was sent")),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(text: &[u8]) -> Result<Vec<(usize, String)>, String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        let lines: Result<Vec<_>> = Lines::of(&mut file).unwrap().collect();
        let lines = lines.map_err(|error| format!("{error:#}"))?;
        Ok(lines.into_iter().map(|(number, content)| (number, content.body)).collect())
    }

    #[test]
    fn lines_are_numbered_as_an_editor_numbers_them() {
        let text =
            b"{\"v\":1,\"body\":\"a\"}\n\n{\"v\":1,\"body\":\"b\"}\r\n{\"v\":1,\"body\":\"c\"}";
        let expected = [(1, "a"), (3, "b"), (4, "c")].map(|(line, body)| (line, body.to_owned()));
        assert_eq!(read(text).unwrap(), expected);
        assert_eq!(read(b"").unwrap(), []);
        assert_eq!(
            read(b"{\"v\":1,\"body\":\"a\"}\n\n{\"v\":1}").unwrap_err(),
            "line 3 is no dead letter, and nothing was sent: missing field `body` at column 7"
        );
        assert_eq!(read(b"\xff").unwrap_err(), "line 1: not UTF-8");
    }

    #[test]
    fn a_line_without_an_end_does_not_fill_the_memory() {
        let text = vec![b' '; LONGEST_LINE + 10];
        assert_eq!(read(&text).unwrap_err(), "line 1: longer than any letter");
    }
}
