//! A small soak, so that the large one keeps working.

use ops::progress::Progress;
use ops::prove::soak::{Plan, soak};
use ops::workspace::Workspace;

use crate::support::run;

#[test]
fn a_few_jobs_come_to_a_promised_end_while_calls_to_aws_fail() {
    run(async {
        let plan = Plan { jobs: 60, seed: 1, with_crashes: false };
        let report = soak(&Workspace::here(), plan, Progress::Lines).await.unwrap();
        assert!(report.violations().is_empty(), "{}", report.violations().join("\n\n"));
    });
}
