//! The queue's retry controls, which remember what they were asked.

use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use consumer::queue::{DeadLetter, RetryQueue};
use shared::aws::CallError;

/// A message in the dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) body: String,
    pub(crate) attributes: Vec<(&'static str, String)>,
    pub(crate) group_id: Option<String>,
}

impl Letter {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(there, _)| *there == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Queues that remember what they were asked.
#[derive(Default)]
pub(crate) struct RecordingQueue {
    pub(super) letters: Mutex<Vec<Letter>>,
    pub(super) visible_in: Mutex<Vec<(String, u64)>>,
    pub(crate) is_down: AtomicBool,
    pub(crate) hangs: AtomicBool,
}

impl RecordingQueue {
    async fn check(&self, operation: &'static str) -> Result<(), CallError> {
        if self.hangs.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
        if self.is_down.load(Ordering::Relaxed) {
            return Err(CallError::for_tests(operation, None));
        }
        Ok(())
    }
}

impl RetryQueue for RecordingQueue {
    async fn change_visibility(
        &self,
        receipt_handle: &str,
        visible_in: Duration,
    ) -> Result<(), CallError> {
        // As a real call, it does not answer at once.
        tokio::task::yield_now().await;
        self.check("ChangeMessageVisibility").await?;
        let message_id = receipt_handle.trim_start_matches("receipt-").to_owned();
        self.visible_in.lock().unwrap().push((message_id, visible_in.as_secs()));
        Ok(())
    }

    async fn dead_letter(&self, letter: &DeadLetter<'_>) -> Result<(), CallError> {
        self.check("SendMessage").await?;
        self.letters.lock().unwrap().push(Letter {
            body: letter.body.to_owned(),
            attributes: letter.attributes.clone(),
            group_id: letter.group_id.map(str::to_owned),
        });
        Ok(())
    }
}
