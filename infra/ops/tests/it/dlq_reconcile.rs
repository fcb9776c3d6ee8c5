//! `cargo ops dlq reconcile`: entries that SQS left behind.

use std::time::Duration;

use ops::dlq::reconcile::reconcile;
use shared::{JobEntry, State};

use crate::command_line::{ops, stdout};
use crate::dead_letters::{
    assert_shows, depth, entry, message, now, office, put_entry, put_letter, read_entry,
    with_own_dead_letters,
};
use crate::support::{PARAMETERS, end_to_end, new_id, report};

#[test]
fn jobs_that_sqs_gave_up_behind_their_entries_backs_have_failed() {
    end_to_end(async |local| {
        let stack = local.another_stack("dlq-reconcile", &PARAMETERS).await.unwrap();
        let (queued, interrupted, missing) = (new_id(), new_id(), new_id());
        put_entry(&stack, &entry(&queued, "report", State::Queued)).await;
        let over = Some(now() - Duration::from_mins(6));
        let killed =
            JobEntry { lease_until: over, ..entry(&interrupted, "report", State::Running) };
        put_entry(&stack, &killed).await;
        for id in [&queued, &interrupted, &missing] {
            put_letter(&stack, &message(id, &report("Sales")), &[("kind", "report")]).await;
        }
        // In the order in which they are found, which is no order.
        let json = stdout(ops(local, &stack, &["dlq", "reconcile", "--json"])).await;
        let mut lines: Vec<_> =
            json.lines().map(|line| line.split_once("\"was\"").unwrap().1).collect();
        lines.sort_unstable();
        assert_shows("dlq_reconcile_json", &lines.join("\n"));
        for id in [&queued, &interrupted, &missing] {
            let job = stack.api.job(id).await.unwrap().body;
            assert_eq!(job["state"], "failed", "{job}");
        }
        let again = stdout(ops(local, &stack, &["dlq", "reconcile"])).await;
        assert_shows("dlq_reconcile_again", &again);
        assert_eq!(depth(&stack).await, (3, 0), "(visible, hidden)");
    });
}

#[test]
fn a_job_that_somebody_may_be_running_is_left_alone() {
    end_to_end(async |local| {
        let stack = with_own_dead_letters(&local.stack, "dlq-running").await;
        let id = new_id();
        let running = JobEntry {
            lease_until: Some(now() - Duration::from_secs(1)),
            ..entry(&id, "report", State::Running)
        };
        put_entry(&stack, &running).await;
        put_letter(&stack, &message(&id, &report("Sales")), &[]).await;
        let changes = reconcile(&office(&stack), Duration::from_hours(24)).await.unwrap();
        assert_eq!(changes, []);
        assert_eq!(read_entry(&stack, &id).await.unwrap().state, State::Running);
    });
}
