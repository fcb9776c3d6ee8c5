//! `cargo ops completions`: makes a shell complete the commands.

use anyhow::{Context, Result};
use clap::{Command, ValueEnum};

use crate::output;

/// How to use them.
pub const HELP: &str = "\
Examples:
  cargo ops completions bash > ~/.cargo-ops.bash
  cargo ops completions zsh > ~/.cargo-ops.zsh
  cargo ops completions fish > ~/.config/fish/conf.d/cargo-ops.fish

For bash, put `source ~/.cargo-ops.bash` at the end of ~/.bashrc; for zsh, put
`source ~/.cargo-ops.zsh` at the end of ~/.zshrc, behind `compinit`; fish reads that
folder by itself. Then `cargo ops` completes in new shells; cargo's own completions, if
there are any, go on to work.";

/// Bash completes by the first word, which is cargo's.
const BASH: &str = r#"
_cargo_and_ops() {
    if [[ ${COMP_WORDS[1]} == ops && $COMP_CWORD -gt 1 ]]; then
        COMP_WORDS=(cargo_ops "${COMP_WORDS[@]:2}")
        COMP_CWORD=$((COMP_CWORD - 1))
        _cargo_ops cargo_ops "$2" "$3"
    elif [[ -n $_cargo_before_ops ]]; then
        "$_cargo_before_ops" "$@"
    fi
}
if ! complete -p cargo >/dev/null 2>&1 && declare -F _completion_loader >/dev/null; then
    _completion_loader cargo
fi
_cargo_found=$(complete -p cargo 2>/dev/null | sed -n 's/.*-F \([^ ]*\).*/\1/p')
[[ $_cargo_found == _cargo_and_ops ]] || _cargo_before_ops=$_cargo_found
unset _cargo_found
complete -o bashdefault -o default -F _cargo_and_ops cargo
"#;

/// Zsh completes by the first word, too. (Cargo's own completions for zsh would find
/// ours by their name, but many have not got these.)
const ZSH: &str = r"
_cargo_and_ops() {
    if [[ ${words[2]} == ops ]] && (( CURRENT > 2 )); then
        shift words
        (( CURRENT-- ))
        words[1]=cargo-ops
        _cargo-ops
    elif [[ -n $_cargo_before_ops ]]; then
        $_cargo_before_ops
    else
        _default
    fi
}
[[ ${_comps[cargo]} == _cargo_and_ops ]] || typeset -g _cargo_before_ops=${_comps[cargo]}
compdef _cargo_and_ops cargo
";

/// Fish lets one command complete as another. (The generator leaves out what
/// arguments without a name may be.)
const FISH: &str = r"
complete -c cargo-ops -n '__fish_seen_subcommand_from completions' -f -a 'bash zsh fish'
function __cargo_ops_complete
    complete -C (string replace -r '^\s*cargo\s+ops' cargo-ops -- (commandline -cp))
end
complete -c cargo -n '__fish_seen_subcommand_from ops' -f -a '(__cargo_ops_complete)'
";

/// Shells that can complete `cargo ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

/// Writes the shell's script to stdout.
///
/// # Errors
///
/// Nobody reads it.
pub fn print(shell: Shell, command: Command) -> Result<()> {
    let (generator, name, rest) = match shell {
        // Not with a dash: the generator would call one command by two names.
        Shell::Bash => (clap_complete::Shell::Bash, "cargo_ops", BASH),
        Shell::Zsh => (clap_complete::Shell::Zsh, "cargo-ops", ZSH),
        Shell::Fish => (clap_complete::Shell::Fish, "cargo-ops", FISH),
    };
    let mut script = Vec::new();
    // Its own name has a blank, which would part it from its subcommands.
    clap_complete::generate(generator, &mut command.name(name), name, &mut script);
    let script = String::from_utf8(script).context("the completions are no text")?;
    output::print(&format!("{script}{rest}"))
}
