//! A person who sends dead letters again.

use std::sync::Arc;
use std::time::Duration;

use shared::fake_sqs::Queue;
use shared::message::Message;

use super::faults::Fault;
use super::world::World;

/// Sends most dead letters again, unchanged. What is held is set back to
/// `queued` for some, as the command line does; the AWS console does not.
pub(crate) fn redrive(world: &Arc<World>) {
    let letters: Vec<_> =
        world.sqs().messages(Queue::DeadLetters).iter().map(|letter| letter.id.clone()).collect();
    for id in letters {
        if world.random().u8(0..4) == 0 {
            continue;
        }
        let Some(letter) = world.sqs().take_dead_letter(&id) else { continue };
        if let Ok(message) = Message::decode(&letter.content.body) {
            world.ledger().redriven(message.id);
            if world.random().bool() {
                world.entries.unhold(message.id);
            }
        }
        world.count(Fault::Redriven);
        world.log(|| format!("a person sends {id} again"));
        world.send(letter.content, Duration::ZERO);
    }
}
