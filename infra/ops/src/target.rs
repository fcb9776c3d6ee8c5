//! Which stack a command is for.

use anyhow::{Context, Result};
use clap::Args;

use crate::api::Caller;
use crate::connection::Connection;
use crate::progress::Progress;
use crate::running::Running;
use crate::stack::Stack;
use crate::tools::Tools;
use crate::workspace::Workspace;

/// The stack that `cargo ops up` runs on this machine, or one on AWS.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Which stack")]
pub struct Target {
    /// A stack on AWS, by its name; without it, the one of `cargo ops up`.
    #[arg(long, value_name = "NAME")]
    stack: Option<String>,
    /// The AWS profile to use; else what the environment or the machine says.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The stack's region; else the profile's or `AWS_REGION`.
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// A JWT for the stack's API, if that is what it wants; without it, requests
    /// are signed with the AWS credentials.
    #[arg(long, value_name = "JWT", env = "RELEVO_TOKEN", hide_env_values = true,
          value_parser = read_token)]
    token: Option<String>,
}

/// What can be a header.
fn read_token(text: &str) -> Result<String, &'static str> {
    let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_token { Ok(text.to_owned()) } else { Err("no token has blanks or line ends") }
}

impl Target {
    /// Finds the stack.
    ///
    /// # Errors
    ///
    /// There is none, or nobody may see it; the error says what to do.
    pub async fn find(&self, workspace: &Workspace, progress: Progress) -> Result<Stack> {
        let mut stack = match &self.stack {
            Some(name) => {
                let connection =
                    Connection::account(self.profile.as_deref(), self.region.as_deref()).await?;
                let tools = Tools::prepare(workspace, progress).await?;
                Stack::open(&tools, connection, name).await?
            }
            None => self.running(workspace)?.ready()?.open(workspace)?,
        };
        if let Some(token) = &self.token {
            stack.api = stack.api.called_by(Caller::Token(token.clone()));
        }
        Ok(stack)
    }

    /// Whether it is one on AWS.
    #[must_use]
    pub const fn is_named(&self) -> bool {
        self.stack.is_some()
    }

    fn running(&self, workspace: &Workspace) -> Result<Running> {
        anyhow::ensure!(
            self.profile.is_none() && self.region.is_none(),
            "--profile and --region are for a stack on AWS: name it with --stack"
        );
        Running::find(workspace)?.context(
            "no stack is up on this machine: start one with `cargo ops up`, \
             or name one on AWS with --stack",
        )
    }
}
