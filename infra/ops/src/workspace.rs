//! Where things lie on this machine.
//!
//! The only module that reads the environment.

use std::env;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use crate::output::Style;

/// The repository that this binary was built from.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The repository around this crate, which lies in `infra/ops`.
    #[must_use]
    pub fn here() -> Self {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self { root: manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf() }
    }

    /// A copy of it, elsewhere.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// A file or folder of the repository.
    #[must_use]
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// The template that is deployed.
    #[must_use]
    pub fn template(&self) -> PathBuf {
        self.path("infra/template.yaml")
    }

    /// The Python environment that holds the tools.
    #[must_use]
    pub fn venv(&self) -> PathBuf {
        self.path(".venv")
    }

    /// Logs of the tools and what the end-to-end tests deploy. Not in the folder
    /// that `CARGO_TARGET_DIR` may name: that one can be shared by repositories.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.path("target/ops")
    }
}

/// The search path with `first` in front, for tools that call other tools.
#[must_use]
pub fn search_path(first: &Path) -> OsString {
    let rest = env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(first.to_path_buf()).chain(env::split_paths(&rest));
    env::join_paths(all).unwrap_or(rest)
}

/// Colours only for a terminal, and for none where `NO_COLOR` asks for that.
#[must_use]
pub fn style_of_stdout() -> Style {
    let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if std::io::stdout().is_terminal() && !unwanted { Style::Colored } else { Style::Plain }
}
