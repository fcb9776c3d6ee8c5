//! The figures in `infra/README.md` are those that the command computes.

use clap::Parser;
use ops::cost::{Load, Report};
use ops::workspace::Workspace;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    load: Load,
}

#[test]
fn the_cost_of_a_job_is_computed_and_not_typed() {
    let readme = std::fs::read_to_string(Workspace::here().path("infra/README.md")).unwrap();
    let mut blocks = 0;
    for block in readme.split("```console\n$ cargo ops cost ").skip(1) {
        let (command, rest) = block.split_once('\n').unwrap();
        let (shown, _) = rest.split_once("```").unwrap();
        let words = std::iter::once("cost").chain(command.split_whitespace());
        let load = Command::try_parse_from(words).unwrap().load;
        assert_eq!(shown, Report::of(load).text(), "cargo ops cost {command}");
        blocks += 1;
    }
    assert!(blocks >= 1, "there are no figures");
}
