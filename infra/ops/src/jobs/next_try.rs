//! When a job that has failed is tried again: the API tells no client, and the job's
//! entry does.

use shared::table::DynamoJobTable;
use shared::{Clock, JobEntry, JobId, JobTable, State, Timestamp};
use uuid::Uuid;

use super::job::Known;
use crate::stack::Stack;

/// The entries of a stack's jobs.
#[derive(Debug)]
pub(super) struct Entries {
    table: DynamoJobTable,
    clock: Clock,
}

impl Entries {
    pub(super) fn of(stack: &Stack) -> Self {
        let table = stack.connection.job_table(&stack.outputs.table_name);
        Self { table, clock: Clock::system() }
    }

    /// The same, with what its entry adds if it waits for another attempt. Whoever may
    /// call the API and not read the table sees what the API shows.
    pub(super) async fn explain(&self, id: Uuid, mut known: Known) -> Known {
        if let Known::Job(job) = &mut known
            && job.is_tried_again()
        {
            job.next_try = self.next_try(id).await;
        }
        known
    }

    async fn next_try(&self, id: Uuid) -> Option<String> {
        let entry = self.table.get(JobId::new(id)).await.ok()??;
        next_try(&entry, self.clock.now())
    }
}

fn next_try(entry: &JobEntry, now: Timestamp) -> Option<String> {
    let not_before = entry.not_before.filter(|_| entry.state == State::Queued)?;
    let when = if not_before > now {
        format!("next try at {}", not_before.to_rfc3339())
    } else {
        "next try is due".to_owned()
    };
    Some(match &entry.error {
        Some(error) => format!("{when}, after: {error}"),
        None => when,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shared::{Fingerprint, Principal};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_123);

    fn entry(not_before: Option<Timestamp>, error: Option<&str>) -> JobEntry {
        let id = "abfc2f07-0372-443d-8266-36440aa5df13".parse().unwrap();
        let (principal, fingerprint) = (Principal::anonymous(), Fingerprint::from_text("f"));
        let ttl = Duration::from_hours(1);
        let queued = JobEntry::queued(id, "report", principal, fingerprint, NOW, ttl);
        JobEntry { not_before, error: error.map(str::to_owned), ..queued }
    }

    #[test]
    fn a_job_that_waits_says_until_when_and_why() {
        let later = Some(NOW + Duration::from_secs(30));
        let busy = Some("busy");
        assert_eq!(
            next_try(&entry(later, busy), NOW).unwrap(),
            "next try at 2023-11-14T22:13:50.123Z, after: busy"
        );
        assert_eq!(next_try(&entry(Some(NOW), None), NOW).unwrap(), "next try is due");
        assert_eq!(next_try(&entry(None, busy), NOW), None);
        let running = JobEntry { state: State::Running, ..entry(later, busy) };
        assert_eq!(next_try(&running, NOW), None);
    }
}
