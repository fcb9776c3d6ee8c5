//! The whole set-up on this machine: tools, functions, emulator, stack.
//!
//! `cargo ops up`, `cargo ops demo` and the end-to-end tests all start here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::emulator::{self, Emulator};
use crate::functions::{self, FUNCTIONS, Profile};
use crate::progress::Progress;
use crate::receivers::Receivers;
use crate::stack::Stack;
use crate::tools::Tools;
use crate::workspace::Workspace;

/// The stack's name on this machine.
const STACK: &str = "relevo";

/// A machine that is set up; everything ends when this is dropped.
#[derive(Debug)]
pub struct Local {
    /// The deployed template.
    pub stack: Stack,
    /// What it is deployed in.
    pub emulator: Emulator,
    /// The tools that did it.
    pub tools: Tools,
    /// Who gets what the jobs send.
    pub receivers: Receivers,
    template: PathBuf,
}

/// What a set-up differs in.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// How the functions are built.
    pub profile: Profile,
    /// The emulator's port; a free one if there is none.
    pub port: Option<u16>,
    /// Parameters of the template, besides those that a laptop needs.
    pub parameters: &'a [(&'a str, &'a str)],
    /// Where the functions find AWS, if something stands in between.
    pub functions_endpoint: Option<&'a str>,
}

impl Local {
    /// Prepares the tools, builds the functions, starts the emulator, and
    /// deploys the template into it.
    ///
    /// # Errors
    ///
    /// One of these did not work. What was started has been ended.
    pub async fn start(
        workspace: &Workspace,
        options: Options<'_>,
        progress: Progress,
    ) -> Result<Self> {
        // Said now rather than after a build of minutes.
        emulator::choose(options.port)?;
        let tools = Tools::prepare(workspace, progress).await?;
        let template = stage(workspace, options.profile)?;
        // Where the template says that the functions lie, seen from itself.
        let folder = template.with_file_name("").join("../target/lambda");
        functions::build(workspace, &tools, options.profile, &folder, progress).await?;

        let step = progress.step("Emulator");
        let receivers = Receivers::start(&tools)?;
        // Tests send e-mails over TLS. Who tries things out may want to reach the
        // rest of the world, and needs the system's authorities for that.
        let authority = (options.profile == Profile::EndToEnd).then(|| receivers.authority());
        let emulator =
            Emulator::start(&tools, options.port, options.functions_endpoint, authority).await?;
        step.done(&emulator.endpoint());
        let step = progress.step("Stack, from infra/template.yaml");
        let theirs = receivers.parameters();
        let stack =
            deploy(&emulator, &tools, &template, STACK, &theirs, options.parameters).await?;
        step.done("deployed");
        Ok(Self { stack, emulator, tools, receivers, template })
    }

    /// The template that was deployed, next to the functions that it names.
    #[must_use]
    pub fn template(&self) -> &Path {
        &self.template
    }

    /// Deploys the same template and functions once more, under another name.
    ///
    /// # Errors
    ///
    /// The emulator refused.
    pub async fn another_stack(&self, name: &str, parameters: &[(&str, &str)]) -> Result<Stack> {
        let theirs = self.receivers.parameters();
        deploy(&self.emulator, &self.tools, &self.template, name, &theirs, parameters).await
    }
}

async fn deploy(
    emulator: &Emulator,
    tools: &Tools,
    template: &Path,
    name: &str,
    of_the_receivers: &[(&'static str, String)],
    parameters: &[(&str, &str)],
) -> Result<Stack> {
    let mut all = vec![
        ("Architecture", functions::architecture()?),
        ("AuthMode", "NONE"),
        // For these the emulator wants an action that AWS's policies do not know,
        // and refuses; the consumer would say so in its log.
        ("GroupWrites", "false"),
        // Nobody who tries something out wants to wait for minutes.
        ("BackoffBaseSeconds", "2"),
    ];
    all.extend(of_the_receivers.iter().map(|(name, value)| (*name, value.as_str())));
    all.retain(|(name, _)| parameters.iter().all(|(theirs, _)| theirs != name));
    all.extend(parameters);
    Stack::deploy(emulator, tools, template, name, &all).await
}

/// The template to deploy. What is not built for AWS must not lie where a
/// deployment would look: it gets a copy of the template with a `target/lambda`
/// of its own.
fn stage(workspace: &Workspace, profile: Profile) -> Result<PathBuf> {
    let stage = match profile {
        Profile::Release => return Ok(workspace.template()),
        Profile::EndToEnd => workspace.scratch().join("e2e"),
        Profile::Watched => workspace.scratch().join("dev"),
    };
    let template = stage.join("infra/template.yaml");
    let lambda = FUNCTIONS.map(|function| stage.join("target/lambda").join(function));
    for folder in [stage.join("infra")].iter().chain(&lambda) {
        fs::create_dir_all(folder)
            .with_context(|| format!("could not create {}", folder.display()))?;
    }
    fs::copy(workspace.template(), &template).context("could not copy the template")?;
    Ok(template)
}
