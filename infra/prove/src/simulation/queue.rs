//! The queues as one function reaches them: over a network.

use std::sync::Arc;
use std::time::Duration;

use consumer::queue::{DeadLetter, RetryQueue};
use producer::{JobQueue, Outgoing, SendError};
use shared::aws::CallError;
use shared::fake_sqs::{Content, Queue};

use super::world::{Service, World};

#[derive(Clone, Debug)]
pub(crate) struct SimulatedQueue {
    pub(crate) world: Arc<World>,
    /// How long a call may take, all attempts included.
    pub(crate) patience: Duration,
    /// Who calls.
    pub(crate) who: Arc<str>,
}

impl RetryQueue for SimulatedQueue {
    async fn change_visibility(
        &self,
        receipt_handle: &str,
        visible_in: Duration,
    ) -> Result<(), CallError> {
        let (queue, receipt) = (self.clone(), receipt_handle.to_owned());
        let effect = move || {
            let (queue, receipt) = (queue.clone(), receipt.clone());
            async move {
                let now = queue.world.now();
                queue.world.sqs().change_visibility(&receipt, visible_in, now)
            }
        };
        let operation = "ChangeMessageVisibility";
        let changed = self.world.call(Service::Queue, operation, self.patience, effect).await?;
        self.world.news.notify_waiters();
        changed.map_err(|_| CallError::for_tests(operation, Some("InvalidParameterValue")))
    }

    async fn dead_letter(&self, letter: &DeadLetter<'_>) -> Result<(), CallError> {
        let attributes = letter.attributes.iter();
        let content = Content {
            body: letter.body.to_owned(),
            attributes: attributes
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            group_id: letter.group_id.map(str::to_owned),
            trace_header: letter.trace_header.map(str::to_owned),
        };
        let queue = self.clone();
        let effect = move || {
            let (queue, content) = (queue.clone(), content.clone());
            async move { queue.bury(content) }
        };
        self.world.call(Service::Queue, "SendMessage", self.patience, effect).await
    }
}

impl SimulatedQueue {
    fn bury(&self, content: Content) {
        let attribute = |name: &str| {
            let found = content.attributes.iter().find(|(known, _)| known == name);
            found.map_or("?", |(_, value)| value.as_str()).to_owned()
        };
        let (source, reason) = (attribute("source_message_id"), attribute("reason"));
        self.world.log(|| format!("{}: {source} is a dead letter: {reason}", self.who));
        self.world.ledger().dead_letter(&source, &content.body);
        let now = self.world.now();
        self.world.sqs().send(Queue::DeadLetters, content, Duration::ZERO, now);
    }

    fn accept(&self, message: &Outgoing) {
        self.world.ledger().sent(&message.body);
        let content = Content {
            body: message.body.clone(),
            attributes: vec![("kind".to_owned(), message.kind.to_owned())],
            group_id: Some(message.group_id.clone()),
            trace_header: None,
        };
        self.world.send(content, Duration::from_secs(message.delay_seconds.into()));
    }
}

impl JobQueue for SimulatedQueue {
    async fn send(&self, message: Outgoing) -> Result<(), SendError> {
        let queue = self.clone();
        let effect = move || {
            let (queue, message) = (queue.clone(), message.clone());
            async move { queue.accept(&message) }
        };
        let sent = self.world.call(Service::Queue, "SendMessage", self.patience, effect).await;
        sent.map_err(SendError::Call)
    }

    async fn send_together(
        &self,
        messages: &[&Outgoing],
    ) -> Result<Vec<Result<(), SendError>>, SendError> {
        let messages: Vec<(Outgoing, bool)> = messages
            .iter()
            .map(|message| ((*message).clone(), !self.world.refuses_one_of_several()))
            .collect();
        let queue = self.clone();
        let effect = move || {
            let (queue, messages) = (queue.clone(), messages.clone());
            async move {
                let accept = |(message, is_taken): &(Outgoing, bool)| {
                    is_taken.then(|| queue.accept(message)).ok_or(SendError::Unacknowledged)
                };
                messages.iter().map(accept).collect()
            }
        };
        let sent = self.world.call(Service::Queue, "SendMessageBatch", self.patience, effect).await;
        sent.map_err(SendError::Call)
    }
}
