//! JSON documents from a file or stdin, read ahead by a thread of its own.
//!
//! A first line that is a whole document means one on each line (NDJSON), and
//! one that is bad costs the others nothing. A first line that is only the
//! beginning of a document means that the whole input is one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::error::Category;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::problem::Problem;

/// Twice what fits any queue: whatever is longer is no job.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// Documents that are read before somebody wants them.
const AHEAD: usize = 16;

const NOT_JSON: &str = "Not JSON";

/// One document, or what is wrong with it.
#[derive(Debug)]
pub(super) struct Document {
    /// The line that it begins on.
    pub(super) line: u64,
    /// Bytes of the input up to its end.
    pub(super) end: u64,
    pub(super) text: Result<Box<RawValue>, Problem>,
}

/// Documents as they are read.
#[derive(Debug)]
pub(super) struct Input {
    documents: mpsc::Receiver<Result<Document>>,
    /// Bytes of all, where that is known.
    pub(super) size: Option<u64>,
}

impl Input {
    /// Begins to read a file, or stdin where its name is `-`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let (input, size): (Box<dyn Read + Send>, _) = if path == "-" {
            (Box::new(io::stdin()), None)
        } else {
            let what = || format!("could not read {}", path.display());
            let file = File::open(path).with_context(what)?;
            let metadata = file.metadata().with_context(what)?;
            let size = metadata.is_file().then_some(metadata.len());
            (Box::new(file), size)
        };
        let (sender, documents) = mpsc::channel(AHEAD);
        // Not one of the runtime's: that would wait for it at our end, and so for
        // whoever writes to stdin.
        std::thread::spawn(move || {
            for document in Documents::new(BufReader::new(input)) {
                if sender.blocking_send(document).is_err() {
                    break;
                }
            }
        });
        Ok(Self { documents, size })
    }

    /// The next document, if there is one.
    ///
    /// # Errors
    ///
    /// The input cannot be read, or is one document that is none.
    pub(super) async fn next(&mut self) -> Result<Option<Document>> {
        self.documents.recv().await.transpose()
    }
}

/// Documents of an input.
struct Documents<R> {
    reader: R,
    line: u64,
    end: u64,
    began: bool,
    is_over: bool,
}

impl<R: BufRead> Documents<R> {
    const fn new(reader: R) -> Self {
        Self { reader, line: 0, end: 0, began: false, is_over: false }
    }

    fn read(&mut self) -> Result<Option<Document>> {
        while let Some(line) = self.read_line().context("could not read the input")? {
            let is_first = !std::mem::replace(&mut self.began, true);
            let line = match &line[..] {
                [0xef, 0xbb, 0xbf, rest @ ..] if is_first => rest.to_vec(),
                _ => line,
            };
            if line.trim_ascii().is_empty() {
                // What comes after it may still be the first.
                self.began = !is_first;
                continue;
            }
            let text = match parse(line.trim_ascii_end()) {
                Err(Flaw::Unfinished(_)) if is_first => return self.read_whole(line).map(Some),
                Err(flaw) => Err(flaw.problem()),
                Ok(text) => Ok(text),
            };
            return Ok(Some(Document { line: self.line, end: self.end, text }));
        }
        Ok(None)
    }

    /// The document that begins on the line and takes the rest of the input.
    fn read_whole(&mut self, mut text: Vec<u8>) -> Result<Document> {
        let line = self.line;
        let most = MAX_BYTES.saturating_sub(text.len());
        let mut rest = (&mut self.reader).take(most as u64);
        self.end += rest.read_to_end(&mut text).context("could not read the input")? as u64;
        match parse(&text) {
            Ok(text) => Ok(Document { line, end: self.end, text: Ok(text) }),
            Err(Flaw::Unfinished(_)) if text.len() >= MAX_BYTES => {
                bail!("the input is one JSON document that is too long for a job")
            }
            Err(Flaw::NoText) => bail!("the input is not UTF-8 text"),
            Err(Flaw::TooLong) => bail!("the input is too long for a job"),
            Err(Flaw::Unfinished(error) | Flaw::Syntax(error)) => {
                let at = line + error.line() as u64 - 1;
                let what = what(&error);
                bail!(
                    "the input is no JSON: {what} at line {at}, column {} (many jobs must stand \
                     one a line, as `jq -c` writes them)",
                    error.column()
                )
            }
        }
    }

    /// The next line; what is left of one that is too long is its beginning.
    fn read_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let most = MAX_BYTES as u64 + 1;
        let mut read = (&mut self.reader).take(most).read_until(b'\n', &mut line)? as u64;
        if read == 0 {
            return Ok(None);
        }
        if read == most && line.last() != Some(&b'\n') {
            read += self.reader.skip_until(b'\n')? as u64;
        }
        self.line += 1;
        self.end += read;
        Ok(Some(line))
    }
}

impl<R: BufRead> Iterator for Documents<R> {
    type Item = Result<Document>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let document = self.read().transpose();
        self.is_over = !matches!(document, Some(Ok(_)));
        document
    }
}

/// Why a text is no document.
enum Flaw {
    TooLong,
    NoText,
    /// It is only the beginning of one.
    Unfinished(serde_json::Error),
    Syntax(serde_json::Error),
}

impl Flaw {
    fn problem(&self) -> Problem {
        match self {
            Self::TooLong => Problem::found("Too long", "no job may have 2 MiB"),
            Self::NoText => Problem::found(NOT_JSON, "the line is not UTF-8 text"),
            Self::Unfinished(error) | Self::Syntax(error) => {
                let detail = format!("{} at column {}", what(error), error.column());
                Problem::found(NOT_JSON, detail)
            }
        }
    }
}

fn parse(text: &[u8]) -> Result<Box<RawValue>, Flaw> {
    if text.len() > MAX_BYTES {
        return Err(Flaw::TooLong);
    }
    let text = str::from_utf8(text).map_err(|_| Flaw::NoText)?;
    serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Eof => Flaw::Unfinished(error),
        Category::Io | Category::Syntax | Category::Data => Flaw::Syntax(error),
    })
}

/// What a parser says, without the place, which it counts from elsewhere.
fn what(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line and text, or line and what is wrong.
    fn documents(input: &[u8]) -> Vec<(u64, String)> {
        let all = Documents::new(input).map(|document| match document {
            Ok(Document { line, text: Ok(text), .. }) => (line, text.get().to_owned()),
            Ok(Document { line, text: Err(problem), .. }) => (line, problem.to_string()),
            Err(error) => (0, format!("{error:#}")),
        });
        all.collect()
    }

    fn check(input: &str, expected: &[(u64, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
        assert_eq!(documents(input.as_bytes()), expected, "{input}");
    }

    #[test]
    fn a_document_that_is_written_over_lines_is_one() {
        check("{\n  \"a\": 1.0\n}\n", &[(1, "{\n  \"a\": 1.0\n}")]);
        check("\n\n[\n1e400]", &[(3, "[\n1e400]")]);
    }

    #[test]
    fn each_line_is_one_where_the_first_is() {
        check("{\"a\":1.0}\r\n\n [2] \n3", &[(1, "{\"a\":1.0}"), (3, "[2]"), (4, "3")]);
        check("\u{feff}{}\n{}", &[(1, "{}"), (2, "{}")]);
        check(" \n", &[]);
        check("", &[]);
    }

    #[test]
    fn a_bad_line_costs_the_others_nothing() {
        let eof = "Not JSON: EOF while parsing an object at column 1";
        check("{}\n{\n{}", &[(1, "{}"), (2, eof), (3, "{}")]);
        check("no\n{}", &[(1, "Not JSON: expected ident at column 2"), (2, "{}")]);
        let all = documents(b"{}\n\xff\n{}");
        assert_eq!(all[1], (2, "Not JSON: the line is not UTF-8 text".to_owned()));
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn a_line_that_is_longer_than_any_job_is_not_kept() {
        let long = "7".repeat(3 * MAX_BYTES);
        check(
            &format!("{{}}\n{long}\n{{}}"),
            &[(1, "{}"), (2, "Too long: no job may have 2 MiB"), (3, "{}")],
        );
        let whole = documents(format!("[\n{long}").as_bytes());
        assert!(whole[0].1.contains("too long for a job"), "{whole:?}");
    }

    #[test]
    fn one_document_that_is_none_says_where() {
        let hint = "(many jobs must stand one a line, as `jq -c` writes them)";
        check(
            "\n{\n\"a\": nil}",
            &[(0, &format!("the input is no JSON: expected ident at line 3, column 7 {hint}"))],
        );
        check(
            "{\n}\n{\n}",
            &[(
                0,
                &format!("the input is no JSON: trailing characters at line 3, column 1 {hint}"),
            )],
        );
    }

    #[test]
    fn what_was_read_is_counted() {
        let ends: Vec<_> = Documents::new(&b"{}\n\n[1]\n"[..]).map(|d| d.unwrap().end).collect();
        assert_eq!(ends, [3, 8]);
        let ends: Vec<_> = Documents::new(&b"[\n1]\n"[..]).map(|d| d.unwrap().end).collect();
        assert_eq!(ends, [5]);
    }
}
