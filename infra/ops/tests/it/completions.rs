//! What makes shells complete `cargo ops`.

use crate::command_line::{bare, stdout};
use crate::support::run;

/// What bash offers for the last of these words.
async fn completed(words: &[&str]) -> String {
    let script = stdout(bare(&["completions", "bash"])).await;
    // `complete` stands for an interactive shell's; cargo has completions already.
    let before = "_cargo() { COMPREPLY=(of-cargo); }; complete -F _cargo cargo";
    let call = format!(
        "COMP_WORDS=({}); COMP_CWORD={}; _cargo_and_ops cargo {} ops; echo ${{COMPREPLY[@]}}",
        words.join(" "),
        words.len() - 1,
        words.last().unwrap(),
    );
    // In a file, since it is longer than an argument may be.
    let file = tempfile::NamedTempFile::new().unwrap();
    // Twice, as where a shell starts another.
    std::fs::write(&file, format!("{before}\n{script}\n{script}\n{call}")).unwrap();
    let output =
        tokio::process::Command::new("bash").arg("--norc").arg(file.path()).output().await.unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn bash_completes_commands_and_options_and_leaves_cargos_own_alone() {
    run(async {
        assert_eq!(completed(&["cargo", "ops", "subm"]).await, "submit");
        assert_eq!(completed(&["cargo", "ops", "submit", "--wa"]).await, "--wait");
        assert_eq!(completed(&["cargo", "ops", "completions", "f"]).await, "fish");
        assert_eq!(completed(&["cargo", "bu"]).await, "of-cargo");
    });
}

#[test]
fn every_shell_gets_a_script_that_names_all_commands() {
    run(async {
        for shell in ["bash", "zsh", "fish"] {
            let script = stdout(bare(&["completions", shell])).await;
            for command in ["submit", "status", "watch", "cancel", "queue", "completions"] {
                assert!(script.contains(command), "{shell}: {command}");
            }
        }
    });
}
