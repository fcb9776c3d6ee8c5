//! The jobs of a world: what their handlers do, and what must come of it.

use serde::Serialize;
use serde_json::{Value, json};
use shared::{State, Timestamp};

use super::faults::Weather;

/// A job as a client asks for it.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// What its handler does, attempt by attempt; the last goes on for ever.
    pub(crate) steps: Vec<Value>,
    /// Whether it is held when it is interrupted.
    pub(crate) hold: bool,
    /// Its `Idempotency-Key`, if it has one.
    pub(crate) key: Option<String>,
    /// Its intent, if it has one.
    pub(crate) intent: Option<String>,
}

/// What one attempt comes to, if nothing disturbs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    Retryable,
    Permanent,
    /// Nobody knows what happened: retried, or held.
    Unknown,
}

/// Names of steps and what they come to. Waiting steps take milliseconds.
const STEPS: [(&str, Option<u64>, End); 10] = [
    ("succeed", None, End::Done),
    ("succeed_after_ms", Some(20_000), End::Done),
    ("fail", None, End::Retryable),
    ("fail_after_ms", Some(20_000), End::Retryable),
    ("fail_permanently", None, End::Permanent),
    ("fail_permanently_after_ms", Some(10_000), End::Permanent),
    ("err", None, End::Unknown),
    ("panic", None, End::Unknown),
    ("panic_in_task", None, End::Unknown),
    ("hang", None, End::Unknown),
];

impl Spec {
    pub(crate) fn draw(random: &mut fastrand::Rng, weather: Weather, name: &str) -> Self {
        let steps = (0..random.usize(1..5)).map(|_| step(random, weather)).collect();
        let name = |yes: bool| yes.then(|| name.to_owned());
        let naming = random.u8(0..6);
        Self {
            steps,
            hold: weather != Weather::Outage && random.u8(0..3) == 0,
            key: name(naming < 2),
            intent: name(naming == 2),
        }
    }

    /// Whether asking again cannot make another job.
    pub(crate) const fn is_named(&self) -> bool {
        self.key.is_some() || self.intent.is_some()
    }

    /// The `payload` of a request.
    pub(crate) fn payload(&self) -> Value {
        json!(Payload { attempts: &self.steps, hold: self.hold, intent: self.intent.as_deref() })
    }

    /// How often the job runs and what it becomes where nothing but its
    /// handler goes wrong.
    pub(crate) fn undisturbed(&self, max_receive_count: u32) -> (usize, State) {
        let mut runs = 0;
        for attempt in 0..max_receive_count as usize {
            runs += 1;
            let step = self.steps.get(attempt).or(self.steps.last());
            match step.map_or(End::Done, end_of) {
                End::Done => return (runs, State::Succeeded),
                End::Permanent => return (runs, State::Failed),
                End::Unknown if self.hold => return (runs, State::Held),
                End::Retryable | End::Unknown => {}
            }
        }
        (runs, State::Failed)
    }
}

#[derive(Serialize)]
struct Payload<'a> {
    attempts: &'a [Value],
    hold: bool,
    intent: Option<&'a str>,
}

fn step(random: &mut fastrand::Rng, weather: Weather) -> Value {
    let names = match weather {
        Weather::Outage => 2,
        Weather::Calm | Weather::Storm => STEPS.len(),
    };
    if weather == Weather::Storm {
        match random.u16(0..200) {
            // A thread cannot be killed with its process here, so it must end
            // while the lease holds even for the fastest clock.
            0 => return json!({ "outlive_stop_by_ms": random.u64(0..6_500) }),
            1..10 => return json!("spawn_and_hang"),
            10..20 => {
                let until =
                    super::world::START + std::time::Duration::from_secs(random.u64(0..4_000));
                return json!({ "fail_until": until });
            }
            _ => {}
        }
    }
    // Half of all steps succeed, so that most jobs do in the end.
    let position = if random.bool() { random.usize(0..2) } else { random.usize(0..names) };
    let Some((name, longest, _)) = STEPS.get(position) else { return json!("succeed") };
    match longest {
        Some(longest) => json!({ *name: random.u64(0..*longest) }),
        None => json!(name),
    }
}

fn end_of(step: &Value) -> End {
    let name = step.as_str().or_else(|| step.as_object()?.keys().next().map(String::as_str));
    let found = STEPS.iter().find(|(known, ..)| Some(*known) == name);
    found.map_or(End::Unknown, |(.., end)| *end)
}

/// A body that a stranger puts on the queue, and that no job is in.
pub(crate) fn stray(random: &mut fastrand::Rng, known: Option<&str>, now: Timestamp) -> String {
    let number = random.u32(..);
    match random.u8(0..5) {
        0 => format!("no JSON {number}"),
        1 => json!({"v": 1, "kind": "probe", "payload": {"attempts": ["succeed"]}, "created_at": now})
            .to_string(),
        2 => json!({"v": 1, "kind": "probe", "payload": {"attempts": [number]}, "id": id(random)})
            .to_string(),
        3 => json!({"v": 1, "kind": "tomorrow", "payload": {}, "id": id(random)}).to_string(),
        // A job that is known, as a later version would write it.
        _ => match known.and_then(|body| serde_json::from_str::<Value>(body).ok()) {
            Some(Value::Object(mut message)) => {
                message.insert("v".to_owned(), json!(2));
                message.insert("note".to_owned(), json!(number));
                Value::Object(message).to_string()
            }
            _ => json!([number]).to_string(),
        },
    }
}

fn id(random: &mut fastrand::Rng) -> String {
    uuid::Builder::from_random_bytes(random.u128(..).to_be_bytes()).into_uuid().to_string()
}
