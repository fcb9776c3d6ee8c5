//! `cargo ops dev`: emulator, `cargo lambda watch` and poller together, so that a
//! change is what the next job runs.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use tokio::time::sleep;

use crate::emulator::{self, ACCESS_KEY, Emulator, REGION, SECRET_KEY};
use crate::ending::Ending;
use crate::functions::Profile;
use crate::local::{Local, Options};
use crate::output::{Color, Style, print};
use crate::poll::{self, Poller};
use crate::progress::Progress;
use crate::receivers::{PATHS, describe};
use crate::running::{Announcement, Ready};
use crate::up::variables;
use crate::watch::{self, Watch};
use crate::workspace::{Workspace, style_of_stdout};

/// How often it is looked what the emulator and the receivers have to say.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  cargo ops dev                       and in another terminal, for its stack:
  cargo ops submit --wait events/requests/report.json
  cargo ops dev --watch-port 9100 --port 4566";

/// What it is called with.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Dev {
    /// The emulator's port; a free one if it is left out.
    #[arg(long)]
    pub port: Option<u16>,
    /// The port that the functions answer at.
    #[arg(long, value_name = "PORT", default_value_t = 9000,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub watch_port: u16,
}

/// Runs all three until it is stopped (its future dropped).
///
/// # Errors
///
/// One of them could not be started, or has ended.
pub async fn run(workspace: &Workspace, dev: Dev, progress: Progress) -> Result<Ending> {
    let mut announcement = Announcement::reserve(workspace).await?;
    ensure!(
        emulator::choose(Some(dev.watch_port)).is_ok(),
        "the functions cannot answer at port {}, which is in use: name another one with \
         --watch-port",
        dev.watch_port
    );
    let style = style_of_stdout();
    let mut inner_loop = InnerLoop::start(workspace, dev, style, progress).await?;
    announcement.tell(&Ready::of(&inner_loop.local))?;
    print(&introduction(&inner_loop.local))?;
    inner_loop.follow(style).await?;
    Ok(Ending::Done)
}

/// All three; ended when dropped.
#[derive(Debug)]
pub struct InnerLoop {
    /// The first to end, as it calls the others.
    watch: Watch,
    poller: Poller,
    /// The emulator and its stack, called where the functions are watched.
    pub local: Local,
}

impl InnerLoop {
    /// Starts the emulator, deploys, and starts to watch.
    ///
    /// # Errors
    ///
    /// One of these did not work. What was started has been ended.
    pub async fn start(
        workspace: &Workspace,
        dev: Dev,
        style: Style,
        progress: Progress,
    ) -> Result<Self> {
        let options = Options {
            profile: Profile::Watched,
            port: dev.port,
            parameters: &[],
            functions_endpoint: None,
        };
        let mut local = Local::start(workspace, options, progress).await?;
        let step = progress.step("cargo lambda watch");
        let mut variables = variables(&local.stack).await?;
        for (name, value) in [
            ("AWS_ENDPOINT_URL", &*local.emulator.endpoint()),
            ("AWS_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ] {
            variables.insert(name.to_owned(), value.to_owned());
        }
        let watch =
            Watch::start(workspace, &local.tools, dev.watch_port, &variables, style).await?;
        step.done(&watch.url);
        let poller = Poller::new(&local.stack, &watch.url).await?;
        // The emulator ends with us, so nobody has to switch it on again.
        poller.mapping.switch_off(&local.stack).await?;
        local.stack.api = local.stack.api.at(format!("{}/lambda-url/producer", watch.url));
        Ok(Self { watch, poller, local })
    }

    /// Polls, and shows what all of them have to say.
    ///
    /// # Errors
    ///
    /// One of them has ended.
    pub async fn follow(&mut self, style: Style) -> Result<()> {
        let Self { watch, poller, local } = self;
        tokio::try_join!(
            poller.follow(|event| poll::show(style, event)),
            show_watched(watch, style),
            show_the_rest(local, style),
        )?;
        Ok(())
    }
}

async fn show_watched(watch: &mut Watch, style: Style) -> Result<()> {
    loop {
        if let Some(line) = watch::show(style, watch.next_line().await?) {
            print(&line)?;
        }
    }
}

/// What has arrived at the receivers, and what the emulator warns of.
async fn show_the_rest(local: &Local, style: Style) -> Result<()> {
    let (mut told, mut read) = (0, 0);
    loop {
        for event in local.receivers.seen().iter().skip(told) {
            print(&describe(event))?;
            told += 1;
        }
        for line in warnings(&local.emulator, &mut read) {
            print(&format!("{} {line}", style.paint(Color::Yellow, "emulator")))?;
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Of the emulator's log, what is new and no mere information.
fn warnings(emulator: &Emulator, read: &mut usize) -> Vec<String> {
    let log = emulator.log();
    let new = log.get(*read..).unwrap_or_default();
    // A line that is being written is for the next time.
    let new = new.rfind('\n').map_or("", |end| new.split_at(end + 1).0);
    *read += new.len();
    let tells = |line: &&str| [" WARNING ", " ERROR "].iter().any(|level| line.contains(level));
    new.lines().filter(tells).map(str::to_owned).collect()
}

/// What a person wants to copy from.
fn introduction(local: &Local) -> String {
    let api = local.stack.api.base();
    let receiver = local.receivers.url("/busy-twice");
    format!(
        r#"
  API    {api}

  Try, now and after a change (the first call compiles, for minutes the first time):
    curl -i {api}/jobs -H 'content-type: application/json' -d @events/requests/report.json
    curl -i {api}/jobs/<id>
    curl -i {api}/jobs -H 'content-type: application/json' \
      -d '{{"kind":"webhook","payload":{{"url":"{receiver}","body":{{"hello":"world"}}}}}}'
{PATHS}

  Ctrl-C ends it and leaves nothing running. What happens:
"#
    )
}
