//! What the jobs of a request are answered where the queue, the table or the
//! time fails some of them.

use crate::batches::{batch_of, check_promises, id, keyed, title_of, titled, titles};
use crate::fakes::{Entry, Fixture, WriteFault};

#[tokio::test(start_paused = true)]
async fn what_the_queue_did_not_take_is_sent_again_alone() {
    use Entry::{Missing, Taken, Throttled};
    let fixture = Fixture::new();
    fixture.producer.queue.replies.lock().unwrap().extend([
        Ok(vec![Taken, Throttled, Missing, Taken, Throttled]),
        Ok(vec![Throttled, Taken, Taken]),
    ]);
    let answer = fixture.send(&batch_of(&titles(5))).await;
    assert_eq!((answer.status, answer.statuses()), (202, vec![202; 5]));
    check_promises(&fixture, &answer);
    let calls = fixture.producer.queue.calls.lock().unwrap().clone();
    let sent: Vec<Vec<_>> = calls
        .iter()
        .map(|call| call.iter().map(|message| title_of(&message.body)).collect())
        .collect();
    assert_eq!(sent[1], ["job 1", "job 2", "job 4"]);
    assert_eq!(sent[2..], [["job 1"]]);
    assert_eq!(fixture.messages().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_the_queue_never_takes_is_answered_for() {
    use Entry::{Missing, Refused, Taken, Throttled};
    let fixture = Fixture::new();
    fixture.producer.queue.replies.lock().unwrap().extend([
        Ok(vec![Taken, Throttled, Refused, Missing]),
        Ok(vec![Throttled, Missing]),
        Ok(vec![Throttled, Missing]),
    ]);
    let answer = fixture.send(&batch_of(&titles(4))).await;
    assert_eq!((answer.status, answer.statuses()), (207, vec![202, 503, 500, 503]));
    assert_eq!(answer.header("retry-after"), Some("5"));
    check_promises(&fixture, &answer);
    assert_eq!(fixture.producer.queue.calls.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_call_that_fails_costs_the_other_calls_nothing() {
    let fixture = Fixture::new();
    fixture.producer.queue.replies.lock().unwrap().push_back(Err(()));
    let answer = fixture.send(&batch_of(&titles(25))).await;
    assert_eq!(answer.status, 207);
    assert_eq!(answer.statuses(), [vec![503; 10], vec![202; 15]].concat());
    check_promises(&fixture, &answer);
}

#[tokio::test]
async fn a_batch_of_which_nothing_could_be_sent_is_one_problem() {
    let fixture = Fixture::new();
    fixture.producer.queue.replies.lock().unwrap().extend([Err(()), Err(())]);
    let answer = fixture.send(&batch_of(&titles(20))).await;
    assert_eq!((answer.status, answer.problem()), (503, "unavailable"));
    assert_eq!(answer.header("retry-after"), Some("5"));

    fixture.producer.queue.replies.lock().unwrap().push_back(Ok(vec![Entry::Refused; 2]));
    assert_eq!(fixture.send(&batch_of(&titles(2))).await.problem(), "internal");

    // Where the client is to blame for some, it is told which.
    fixture.producer.queue.replies.lock().unwrap().push_back(Err(()));
    let jobs = [titled("a"), "{}".to_owned()];
    let answer = fixture.send(&batch_of(&jobs)).await;
    assert_eq!((answer.status, answer.statuses()), (207, vec![503, 422]));
}

#[tokio::test]
async fn a_named_job_is_not_sent_while_its_entry_is_in_doubt() {
    let fixture = Fixture::new();
    let faults = [WriteFault::Fails, WriteFault::LosesItsAnswer];
    fixture.producer.table.put_faults.lock().unwrap().extend(faults);
    let jobs = [keyed("a", "a"), keyed("b", "b"), keyed("c", "c"), titled("d")];
    let answer = fixture.send(&batch_of(&jobs)).await;
    let mut statuses = answer.statuses();
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 202, 503, 503]);
    check_promises(&fixture, &answer);
    let again = fixture.send(&batch_of(&jobs[..3])).await;
    assert_eq!((again.status, again.statuses()), (202, vec![202; 3]));
}

#[tokio::test]
async fn without_names_only_the_messages_decide() {
    let fixture = Fixture::new();
    let faults = vec![WriteFault::Fails; 3];
    fixture.producer.table.put_faults.lock().unwrap().extend(faults);
    let answer = fixture.send(&batch_of(&titles(3))).await;
    assert_eq!((answer.status, fixture.messages().len()), (202, 3));
    assert!(fixture.entry(id(&answer, 0)).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_in_time_is_said_in_time() {
    let fixture = Fixture::new();
    // The queue acknowledges the first three calls, and then no more.
    let _held_back = fixture.producer.queue.acknowledgements.acquire_many(997).await.unwrap();
    let started = tokio::time::Instant::now();
    let answer = fixture.send(&batch_of(&titles(500))).await;
    assert!(started.elapsed() < producer::ANSWER_WITHIN, "{:?}", started.elapsed());
    assert_eq!(answer.status, 207);
    let accepted = answer.statuses().into_iter().filter(|status| *status == 202).count();
    assert_eq!(accepted, 30);
    check_promises(&fixture, &answer);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_everything_ends_in_time() {
    let fixture = Fixture::new();
    let _held_back = fixture.producer.queue.acknowledgements.acquire_many(1_000).await.unwrap();
    let started = tokio::time::Instant::now();
    assert_eq!(fixture.send(&batch_of(&titles(25))).await.status, 503);
    assert!(started.elapsed() < producer::ANSWER_WITHIN, "{:?}", started.elapsed());
}
