//! Which stack a command is for.

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::api::Caller;
use crate::connection::Connection;
use crate::emulator::{ACCESS_KEY, REGION, SECRET_KEY};
use crate::progress::Progress;
use crate::running::{Ready, Running};
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
    #[arg(long, value_name = "JWT", env = "RELEVO_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl Target {
    /// Finds the stack.
    ///
    /// # Errors
    ///
    /// There is none, or nobody may see it; the error says what to do.
    pub async fn find(&self, workspace: &Workspace, progress: Progress) -> Result<Stack> {
        let token = self.token()?;
        let mut stack = match &self.stack {
            Some(name) => {
                let connection =
                    Connection::account(self.profile.as_deref(), self.region.as_deref()).await?;
                let tools = Tools::prepare(workspace, progress).await?;
                Stack::open(&tools, connection, name).await?
            }
            None => self.running(workspace)?.ready()?.open(workspace)?,
        };
        if let Some(token) = token {
            stack.api = stack.api.called_by(Caller::Token(token.to_owned()));
        }
        Ok(stack)
    }

    /// Whether it is one on AWS.
    #[must_use]
    pub const fn is_named(&self) -> bool {
        self.stack.is_some()
    }

    /// What leads the AWS CLI to the same stack, as a line for a shell; empty where
    /// the machine's own settings do.
    #[must_use]
    pub fn exports(&self, workspace: &Workspace) -> String {
        if !self.is_named() {
            let running = Running::find(workspace).ok().flatten();
            return running.and_then(|it| it.ready).map_or_else(String::new, |it| local(&it));
        }
        let set = [("AWS_PROFILE", &self.profile), ("AWS_REGION", &self.region)];
        let set = set.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let set: Vec<_> = set.map(|(name, value)| format!("{name}={value}")).collect();
        if set.is_empty() { String::new() } else { format!("export {}", set.join(" ")) }
    }

    /// The token, if it can be a header. Not looked at by clap, which would print
    /// what it refuses.
    fn token(&self) -> Result<Option<&str>> {
        let token = self.token.as_deref().filter(|token| !token.is_empty());
        ensure!(
            token.is_none_or(|token| token.bytes().all(|byte| byte.is_ascii_graphic())),
            "the token (--token, RELEVO_TOKEN) has blanks or line ends"
        );
        Ok(token)
    }

    fn running(&self, workspace: &Workspace) -> Result<Running> {
        ensure!(
            self.profile.is_none() && self.region.is_none(),
            "--profile and --region are for a stack on AWS: name it with --stack"
        );
        Running::find(workspace)?.context(
            "no stack is up on this machine: start one with `cargo ops up`, \
             or name one on AWS with --stack",
        )
    }
}

/// The same for the stack on this machine, whose tools have the AWS CLI as well.
fn local(ready: &Ready) -> String {
    format!(
        r#"export PATH="$PWD/.venv/bin:$PATH" AWS_ENDPOINT_URL={} AWS_DEFAULT_REGION={REGION} AWS_ACCESS_KEY_ID={ACCESS_KEY} AWS_SECRET_ACCESS_KEY={SECRET_KEY}"#,
        ready.endpoint
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Result<Option<String>> {
        let token = Some(text.to_owned());
        let target = Target { stack: None, profile: None, region: None, token };
        target.token().map(|token| token.map(str::to_owned))
    }

    #[test]
    fn the_aws_cli_is_led_to_the_same_stack() {
        let of = |stack: Option<&str>, profile: Option<&str>, region: Option<&str>| {
            let [stack, profile, region] = [stack, profile, region].map(|it| it.map(str::to_owned));
            let nowhere = Workspace::at(std::path::Path::new("/nowhere"));
            Target { stack, profile, region, token: None }.exports(&nowhere)
        };
        assert_eq!(of(None, None, None), "");
        assert_eq!(of(Some("s"), None, None), "");
        assert_eq!(of(Some("s"), Some("p"), Some("r")), "export AWS_PROFILE=p AWS_REGION=r");
    }

    #[test]
    fn a_token_is_a_header_or_nothing() {
        assert_eq!(token("eyJ.a-b_c").unwrap().as_deref(), Some("eyJ.a-b_c"));
        assert_eq!(token("").unwrap(), None);
        assert!(token("eyJ\r").is_err());
    }
}
