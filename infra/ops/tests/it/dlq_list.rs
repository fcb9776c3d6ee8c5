//! `cargo ops dlq list` and `show`: they tell why, and change nothing.

use std::cell::RefCell;

use ops::dlq::Office;
use ops::dlq::scan::{Bounds, End};
use ops::messages;
use ops::stack::Stack;
use rustix::process::{Pid, Signal, kill_process};
use shared::{JobEntry, State};

use crate::command_line::{ops, refusal, stdout};
use crate::dead_letters::{
    assert_shows, depth, entry, message, office, put_entry, put_letter, wait_for_depth,
    with_own_dead_letters, written,
};
use crate::support::{PARAMETERS, end_to_end, new_id, report};

/// Four letters: two that failed alike, one that SQS moved, one that is no job.
async fn four_letters(stack: &Stack) -> [String; 4] {
    let (first, second, moved) = (new_id(), new_id(), new_id());
    let with_kind = |reason, error| {
        let mut all = written(reason, error).to_vec();
        all.push(("kind", "report"));
        all
    };
    let failed = JobEntry {
        reason: Some("retries-exhausted".to_owned()),
        error: Some("the receiver answered 503".to_owned()),
        ..entry(&moved, "report", State::Failed)
    };
    put_entry(stack, &failed).await;
    let request = report("Sales");
    let letter = async |id: &str, attributes: &[(&str, &str)]| {
        put_letter(stack, &message(id, &request), attributes).await
    };
    [
        letter(&first, &with_kind("permanent", "row 7 is odd")).await,
        letter(&second, &with_kind("permanent", "row 12 is odd")).await,
        letter(&moved, &[("kind", "report")]).await,
        put_letter(stack, "no job at all", &written("undecodable", "no job id")).await,
    ]
}

#[test]
fn list_and_show_tell_why_and_give_every_letter_back() {
    end_to_end(async |local| {
        let stack = local.another_stack("dlq-list", &PARAMETERS).await.unwrap();
        let show = async |arguments: &[&str]| stdout(ops(local, &stack, arguments)).await;
        assert_shows("dlq_list_empty", &show(&["dlq", "list"]).await);

        let letters = four_letters(&stack).await;
        assert_shows("dlq_list", &show(&["dlq", "list"]).await);
        assert_shows("dlq_list_json", &show(&["dlq", "list", "--json"]).await);
        assert_shows("dlq_list_group", &show(&["dlq", "list", "--group"]).await);
        assert_shows("dlq_list_group_json", &show(&["dlq", "list", "--group", "--json"]).await);
        assert_shows("dlq_show", &show(&["dlq", "show", &letters[2]]).await);
        assert_shows("dlq_show_poison_json", &show(&["dlq", "show", &letters[3], "--json"]).await);
        assert_eq!(depth(&stack).await, (4, 0), "(visible, hidden)");

        let unknown = ops(local, &stack, &["dlq", "show", "nobody"]);
        let (code, told) = refusal(unknown).await;
        assert_eq!(code, 1);
        assert!(told.contains("error: there is no dead letter called nobody"), "{told}");
        assert_eq!(depth(&stack).await, (4, 0), "(visible, hidden)");

        // An answer that finds nothing is waited for, for a second: in it, all
        // letters are hidden.
        let mut list = ops(local, &stack, &["dlq", "list"]).spawn().unwrap();
        wait_for_depth(&stack, (0, 4)).await;
        let process = Pid::from_raw(list.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(process, Signal::INT).unwrap();
        assert_eq!(list.wait().await.unwrap().code(), Some(130));
        assert_eq!(depth(&stack).await, (4, 0), "(visible, hidden)");
    });
}

#[test]
fn a_scan_ends_before_more_is_in_flight_than_sqs_lets_be() {
    end_to_end(async |local| {
        let stack = with_own_dead_letters(&local.stack, "dlq-full").await;
        let mut as_source = stack.clone();
        as_source.outputs.queue_url.clone_from(&stack.outputs.dead_letter_queue_url);
        messages::send_all(&as_source, &vec!["letter".to_owned(); 150]).await.unwrap();

        let mut office = office(&stack);
        let walk = async |office: &Office| {
            let seen = RefCell::new(0);
            let end = office.scan(async |scan| {
                scan.walk(async |letters| {
                    *seen.borrow_mut() += letters.len();
                    Ok(())
                })
                .await
            });
            (end.await.unwrap(), seen.into_inner())
        };
        office.bounds = Bounds { in_flight: 120, ..Bounds::DEFAULT };
        let (end, seen) = walk(&office).await;
        assert_eq!(end, End::Full);
        assert!((1..=120).contains(&seen), "{seen} letters");
        assert_eq!(depth(&stack).await, (150, 0), "(visible, hidden)");

        office.bounds = Bounds::DEFAULT;
        assert_eq!(walk(&office).await, (End::Complete, 150));
        assert_eq!(depth(&stack).await, (150, 0), "(visible, hidden)");
    });
}
