//! Asks the person at the terminal.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Context, Result, ensure};
use tokio::sync::oneshot;

/// The line that somebody types; `None` where there is nobody to type one.
///
/// # Errors
///
/// It could not be read.
pub(super) async fn ask(question: &str) -> Result<Option<String>> {
    if !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut stderr = std::io::stderr();
    write!(stderr, "{question} ").and_then(|()| stderr.flush()).context("could not ask")?;
    let (tell, told) = oneshot::channel();
    // Of its own, not the runtime's, which would wait for it when we are stopped.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line).map(|_| line);
        // Nobody wants to know any more.
        let _ = tell.send(read);
    });
    let line = told.await.context("nobody answered")?.context("could not read the answer")?;
    ensure!(!line.is_empty(), "nobody answered");
    Ok(Some(line.trim().to_owned()))
}
