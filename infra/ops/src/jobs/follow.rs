//! Follows jobs until they have ended.

use std::time::Duration;

use anyhow::Result;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::calls::Calls;
use super::job::Known;
use super::next_try::Entries;

/// Requests under way at the same time.
pub(super) const AT_ONCE: usize = 8;

/// Where the API does not say when there may be news.
const PAUSE: Duration = Duration::from_secs(1);

/// What each unfinished job adds to the pause, so that thousands of them make
/// no more than 50 requests a second: a tenth of what the API lets through.
const PAUSE_PER_JOB: Duration = Duration::from_millis(20);

/// Asks for jobs, as often as the API wants to be asked, and tells each change
/// of one: its position, and what is known now, with what `entries` add. Returns
/// what was known last, which is nothing where `until` came before the first
/// answer.
///
/// # Errors
///
/// The API did not answer, or a change could not be told.
pub(super) async fn follow(
    calls: &Calls,
    entries: Option<&Entries>,
    ids: &[Uuid],
    until: Option<Instant>,
    mut changed: impl FnMut(usize, &Known) -> Result<()>,
) -> Result<Vec<Option<Known>>> {
    let turns = &Semaphore::new(AT_ONCE);
    let look = |position: usize, id: Uuid, pause: Duration| async move {
        tokio::time::sleep(pause).await;
        let _turn = turns.acquire().await;
        let answer = calls.job(id).await?;
        anyhow::Ok((position, id, answer.retry_after, Known::of(&answer)?))
    };
    let begin = |(position, id): (usize, &Uuid)| look(position, *id, Duration::ZERO);
    let mut looks: FuturesUnordered<_> = ids.iter().enumerate().map(begin).collect();
    let mut all = vec![None; ids.len()];
    while let Some(seen) = next(&mut looks, until).await {
        let (position, id, retry_after, known) = seen?;
        if !known.is_final() {
            let unfinished = u32::try_from(looks.len()).unwrap_or(u32::MAX);
            let pause = retry_after.unwrap_or(PAUSE).max(PAUSE_PER_JOB.saturating_mul(unfinished));
            looks.push(look(position, id, pause));
        }
        let Some(last) = all.get_mut(position) else { continue };
        let is_news = last.as_ref().is_none_or(|last| is_news(last, &known));
        let known = match entries {
            Some(entries) if is_news => entries.explain(id, known).await,
            Some(_) | None => known,
        };
        if is_news {
            changed(position, &known)?;
        }
        *last = Some(known);
    }
    Ok(all)
}

/// The next answer; none when all jobs have ended or the time is over.
async fn next<F: Future>(
    looks: &mut FuturesUnordered<F>,
    until: Option<Instant>,
) -> Option<F::Output> {
    match until {
        Some(until) => timeout_at(until, looks.next()).await.ok().flatten(),
        None => looks.next().await,
    }
}

fn is_news(before: &Known, now: &Known) -> bool {
    match (before, now) {
        (Known::Job(before), Known::Job(now)) => {
            (before.state, before.attempt) != (now.state, now.attempt)
        }
        (Known::Job(_), Known::Nothing(_)) | (Known::Nothing(_), _) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fake::{self, Reply, api, problem};
    use super::super::job::State;
    use super::*;

    fn job(state: &str, attempt: u32) -> Reply {
        fake::json(
            200,
            &json!({ "id": Uuid::nil(), "kind": "k", "state": state, "attempt": attempt, "updated_at": "t" }),
        )
    }

    #[tokio::test]
    async fn each_change_is_told_once_until_the_end() {
        let replies = vec![
            job("queued", 0),
            job("queued", 0),
            problem(503, "unavailable"),
            job("queued", 1),
            job("succeeded", 2),
        ];
        let (calls, _) = api(replies).await;
        let mut told = Vec::new();
        let ids = [Uuid::nil()];
        let jobs = follow(&calls, None, &ids, None, |position, known| {
            let Known::Job(job) = known else { panic!("{known:?}") };
            told.push((position, job.state, job.attempt));
            Ok(())
        });
        let jobs = jobs.await.unwrap();
        let changes = [(0, State::Queued, 0), (0, State::Queued, 1), (0, State::Succeeded, 2)];
        assert_eq!(told, changes);
        assert!(jobs[0].as_ref().unwrap().succeeded());
    }

    #[tokio::test]
    async fn what_has_not_ended_in_time_is_as_it_was_seen_last() {
        let (calls, _) = api(vec![job("running", 1)]).await;
        let until = Instant::now() + Duration::from_millis(500);
        let jobs = follow(&calls, None, &[Uuid::nil()], Some(until), |_, _| Ok(())).await.unwrap();
        assert!(matches!(&jobs[0], Some(Known::Job(job)) if job.state == State::Running));
    }

    #[tokio::test]
    async fn an_id_that_names_nothing_is_not_followed() {
        let (calls, seen) = api(vec![problem(404, "job-not-found")]).await;
        let jobs = follow(&calls, None, &[Uuid::nil()], None, |_, _| Ok(())).await.unwrap();
        assert!(matches!(&jobs[0], Some(Known::Nothing(_))));
        assert_eq!(seen.lock().unwrap().len(), 1);
    }
}
