//! The deployed API is what its own description says, whatever is sent to it.
//!
//! `infra/ops/schemathesis.toml` has what is not checked, and why.

use ops::process;
use ops::workspace::Workspace;

use crate::support::{PARAMETERS, end_to_end};

/// For each operation and phase.
const EXAMPLES: &str = "20";

#[test]
fn the_api_is_as_it_describes_itself_and_no_request_is_its_fault() {
    end_to_end(async |local| {
        // Its jobs are many, and nobody else's.
        let stack = local.another_stack("contract", &PARAMETERS).await.unwrap();
        let base = stack.api.base();
        let mut command = local.tools.command("schemathesis");
        command
            .current_dir(local.emulator.state())
            .arg("--config-file")
            .arg(Workspace::here().path("infra/ops/schemathesis.toml"))
            .args(["run", &format!("{base}/openapi.json"), "--url", base, "--no-color"])
            .args(["--max-examples", EXAMPLES])
            // The same requests each time: a failure can be met again, and a
            // change that is none does not fail by chance.
            .args(["--generation-deterministic"]);
        let finished = process::run(command, |_| ()).await.unwrap();
        assert!(finished.status.success(), "{}", finished.output());
    });
}
