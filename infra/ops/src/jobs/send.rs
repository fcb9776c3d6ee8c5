//! Sends jobs in one request, and again those that only met trouble.

use anyhow::{Context, Error, Result, anyhow, ensure};
use serde::Deserialize;
use uuid::Uuid;

use super::calls::{Calls, admitted, pauses, wait};
use super::job::State;
use super::problem::Problem;
use crate::api::Answer;

/// A job that is safe.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Accepted {
    pub(super) id: Uuid,
    pub(super) kind: String,
    pub(super) state: State,
}

/// Why nothing more can be sent.
#[derive(Debug)]
pub(super) enum Stopped {
    /// None of the jobs was accepted.
    Refused(Error),
    /// Some may have been.
    Unclear(Error),
}

/// What became of each job, in their order. All must have keys.
pub(super) async fn send(
    calls: &Calls,
    jobs: &[&str],
) -> Result<Vec<Result<Accepted, Problem>>, Stopped> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let mut outcomes: Vec<Option<Result<Accepted, Problem>>> = vec![None; jobs.len()];
    let mut tries = pauses();
    loop {
        // Those that have no outcome, or one that may pass.
        let left: Vec<_> = std::iter::zip(jobs, &mut outcomes)
            .filter(|(_, outcome)| match &**outcome {
                Some(outcome) => may_pass(outcome),
                None => true,
            })
            .collect();
        let body: Vec<_> = left.iter().map(|(job, _)| **job).collect();
        let body = format!(r#"{{"jobs":[{}]}}"#, body.join(","));
        let answer = calls.batch(&body).await.map_err(Stopped::Unclear)?;
        let retry_after = answer.retry_after;
        let answers = read(answer, left.len())?;
        if answers.iter().any(Result::is_ok) {
            // Slow, but it goes on.
            tries = pauses();
        }
        for ((_, outcome), answer) in left.into_iter().zip(answers) {
            *outcome = Some(answer);
        }
        let is_done = !outcomes.iter().flatten().any(may_pass);
        let Some(pause) = tries.next().filter(|_| !is_done) else { break };
        wait(pause, retry_after).await;
    }
    Ok(outcomes.into_iter().flatten().collect())
}

fn may_pass(outcome: &Result<Accepted, Problem>) -> bool {
    outcome.as_ref().is_err_and(|problem| problem.status == Some(503))
}

#[derive(Deserialize)]
struct BatchAnswer {
    jobs: Vec<JobAnswer>,
}

#[derive(Deserialize)]
struct JobAnswer {
    job: Option<Accepted>,
    problem: Option<Problem>,
}

fn read(answer: Answer, count: usize) -> Result<Vec<Result<Accepted, Problem>>, Stopped> {
    let answer = admitted(answer).map_err(Stopped::Refused)?;
    match answer.status {
        202 | 207 => read_jobs(&answer, count).map_err(Stopped::Unclear),
        400..500 => Err(Stopped::Refused(anyhow!("the API answered {}", Problem::of(&answer)))),
        _ => Err(Stopped::Unclear(anyhow!("the API answered {}", Problem::of(&answer)))),
    }
}

fn read_jobs(answer: &Answer, count: usize) -> Result<Vec<Result<Accepted, Problem>>> {
    const WHAT: &str = "the API answered with something else than what became of each job";
    let BatchAnswer { jobs } = serde_json::from_str(&answer.raw).context(WHAT)?;
    ensure!(jobs.len() == count, WHAT);
    let read = |(position, answer)| match answer {
        JobAnswer { job: Some(job), .. } => Ok(Ok(job)),
        JobAnswer { problem: Some(problem), .. } => {
            Ok(Err(problem.seen_from(&format!("/jobs/{position}"))))
        }
        JobAnswer { .. } => Err(anyhow!(WHAT)),
    };
    jobs.into_iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::fake::{self, api, problem};
    use super::*;

    fn accepted(number: u128) -> Value {
        let id = Uuid::from_u128(number);
        json!({ "status": 202, "job": { "id": id, "kind": "k", "state": "queued" } })
    }

    fn refused(status: u16) -> Value {
        json!({ "status": status, "problem": { "title": "t", "status": status } })
    }

    fn ids(outcomes: &[Result<Accepted, Problem>]) -> Vec<Result<u128, Option<u16>>> {
        let id = |outcome: &Result<Accepted, Problem>| match outcome {
            Ok(accepted) => Ok(accepted.id.as_u128()),
            Err(problem) => Err(problem.status),
        };
        outcomes.iter().map(id).collect()
    }

    #[tokio::test]
    async fn only_what_met_trouble_is_sent_again() {
        let first = json!({ "jobs": [accepted(1), refused(503), refused(422), refused(503)] });
        let second = json!({ "jobs": [accepted(2), refused(503)] });
        let third = json!({ "jobs": [accepted(4)] });
        let replies =
            vec![fake::json(207, &first), fake::json(207, &second), fake::json(202, &third)];
        let (calls, seen) = api(replies).await;
        let outcomes = send(&calls, &["1.0", "2.0", "3.0", "4.0"]).await.unwrap();
        assert_eq!(ids(&outcomes), [Ok(1), Ok(2), Err(Some(422)), Ok(4)]);
        let bodies =
            [r#"{"jobs":[1.0,2.0,3.0,4.0]}"#, r#"{"jobs":[2.0,4.0]}"#, r#"{"jobs":[4.0]}"#];
        assert_eq!(*seen.lock().unwrap(), bodies);
    }

    #[tokio::test]
    async fn jobs_that_trouble_does_not_leave_are_given_up_after_four_more_tries() {
        let some = json!({ "jobs": [accepted(1), refused(503)] });
        let none = json!({ "jobs": [refused(503)] });
        let (calls, seen) = api(vec![fake::json(207, &some), fake::json(207, &none)]).await;
        let outcomes = send(&calls, &["{}", "{}"]).await.unwrap();
        assert_eq!(ids(&outcomes), [Ok(1), Err(Some(503))]);
        assert_eq!(seen.lock().unwrap().len(), 5);
    }

    #[tokio::test]
    async fn a_request_whose_answer_was_lost_is_made_again_as_it_was() {
        let answer = json!({ "jobs": [accepted(1)] });
        let replies = vec![None, problem(503, "unavailable"), fake::json(202, &answer)];
        let (calls, seen) = api(replies).await;
        assert_eq!(ids(&send(&calls, &["{}"]).await.unwrap()), [Ok(1)]);
        assert_eq!(*seen.lock().unwrap(), [r#"{"jobs":[{}]}"#; 3]);
    }

    #[tokio::test]
    async fn an_outage_that_lasts_leaves_it_unclear_what_was_accepted() {
        let (calls, seen) = api(vec![problem(503, "unavailable")]).await;
        let Err(Stopped::Unclear(error)) = send(&calls, &["{}"]).await else { panic!("it is") };
        assert_eq!(
            format!("{error:#}"),
            "the API answered 503 unavailable: d (`cargo ops logs` says why)"
        );
        assert_eq!(seen.lock().unwrap().len(), 5);
    }

    #[tokio::test]
    async fn who_may_not_call_is_told_what_to_do() {
        let gateway = |status| fake::json(status, &json!({ "message": "no" }));
        for (reply, words) in [
            (gateway(401), "with --token"),
            (gateway(403), "use credentials that may invoke it"),
            (problem(403, "caller-unknown"), "does not know who is calling (403): d"),
            (gateway(413), "the API answered 413 Payload Too Large: no"),
        ] {
            let (calls, seen) = api(vec![reply]).await;
            let Err(Stopped::Refused(error)) = send(&calls, &["{}"]).await else { panic!("it is") };
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(seen.lock().unwrap().len(), 1, "{words}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_leaves_a_job_out_is_none() {
        let answer = fake::json(202, &json!({ "jobs": [accepted(1)] }));
        let (calls, _) = api(vec![answer]).await;
        assert!(matches!(send(&calls, &["{}", "{}"]).await, Err(Stopped::Unclear(_))));
    }

    #[tokio::test]
    async fn an_api_that_is_not_there_is_said_to_be_so() {
        let calls = fake::client("http://127.0.0.1:1");
        let Err(Stopped::Unclear(error)) = send(&calls, &["{}"]).await else { panic!("it is") };
        let text = format!("{error:#}");
        assert!(text.contains("cannot be reached: is the stack still there?"), "{text}");
    }
}
