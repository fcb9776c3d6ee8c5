//! What may go wrong in a world, and how often.

use std::collections::BTreeMap;
use std::fmt;

/// Something that was made to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A call was refused, without effect.
    Refused,
    /// A call did not arrive, and nobody answered.
    RequestLost,
    /// A call took effect, and its answer did not arrive.
    AnswerLost,
    /// A call took effect late, mostly after its caller gave up.
    Slow,
    /// A call took effect twice, as when a client library tries again.
    SentTwice,
    /// A refused condition did not tell the old item.
    OldItemMissing,
    /// An invocation was killed.
    Crash,
    /// A process got no CPU for a while.
    Freeze,
    /// A function that was out of time was killed late.
    LateKill,
    /// The queue has a message twice.
    Copy,
    /// A received message stayed visible.
    DeliveredTwice,
    /// Messages were received in another order.
    Reordered,
    /// Received messages reached no function.
    InvocationLost,
    /// A message stayed in the queue though it was acknowledged.
    DeletionLost,
    /// A handler failed, panicked, hung or blocked a thread.
    Handler,
    /// A client cancelled a job.
    Cancelled,
    /// A dead letter was sent again by a person.
    Redriven,
    /// A message that no job is in.
    Stray,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "call refused",
            Self::RequestLost => "request lost",
            Self::AnswerLost => "answer lost",
            Self::Slow => "call slow",
            Self::SentTwice => "call sent twice",
            Self::OldItemMissing => "old item not told",
            Self::Crash => "function killed",
            Self::Freeze => "process frozen",
            Self::LateKill => "killed after its deadline",
            Self::Copy => "message twice in the queue",
            Self::DeliveredTwice => "message delivered twice",
            Self::Reordered => "messages reordered",
            Self::InvocationLost => "invocation lost",
            Self::DeletionLost => "deletion lost",
            Self::Handler => "handler failed",
            Self::Cancelled => "cancelled by a client",
            Self::Redriven => "redriven by a person",
            Self::Stray => "message without a job",
        })
    }
}

/// How often each fault happened.
pub(crate) type Counts = BTreeMap<Fault, u64>;

/// The kind of world that a seed makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Only jobs go wrong. Each must run exactly as often as its payload says.
    Calm,
    /// The table is away for up to an hour, and nothing else goes wrong: every
    /// job must succeed.
    Outage,
    /// Everything goes wrong.
    Storm,
}

/// How often things go wrong, each as a probability.
#[derive(Clone, Debug)]
pub(crate) struct Climate {
    pub(crate) weather: Weather,
    /// Of a call to the table or a queue: one of the first six faults.
    pub(crate) call: f64,
    pub(crate) crash: f64,
    pub(crate) freeze: f64,
    pub(crate) late_kill: f64,
    pub(crate) copy: f64,
    pub(crate) delivered_twice: f64,
    pub(crate) invocation_lost: f64,
    pub(crate) deletion_lost: f64,
    pub(crate) cancel: f64,
    pub(crate) stray: f64,
}

impl Climate {
    /// A world in which nothing goes wrong but the jobs.
    pub(crate) const fn calm(weather: Weather) -> Self {
        Self {
            weather,
            call: 0.0,
            crash: 0.0,
            freeze: 0.0,
            late_kill: 0.0,
            copy: 0.0,
            delivered_twice: 0.0,
            invocation_lost: 0.0,
            deletion_lost: 0.0,
            cancel: 0.0,
            stray: 0.0,
        }
    }

    /// What a seed's world is like. Each storm leaves some faults out and has
    /// more of the others: what hides in a mixture of all shows in one of few.
    pub(crate) fn draw(random: &mut fastrand::Rng) -> Self {
        match random.u8(0..10) {
            0 => Self::calm(Weather::Calm),
            1 => Self::calm(Weather::Outage),
            _ => {
                let mut rate = |most: f64| if random.bool() { random.f64() * most } else { 0.0 };
                Self {
                    weather: Weather::Storm,
                    call: rate(0.6),
                    crash: rate(0.4),
                    freeze: rate(0.3),
                    late_kill: rate(1.0),
                    copy: rate(0.5),
                    delivered_twice: rate(0.4),
                    invocation_lost: rate(0.2),
                    deletion_lost: rate(0.4),
                    cancel: rate(0.4),
                    stray: rate(0.3),
                }
            }
        }
    }
}
