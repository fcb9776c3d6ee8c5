//! The jobs of a soak: of every behaviour, asked for in every way.

use std::path::Path;

use serde_json::{Value, json};

/// A job that is going to be asked for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// `kind`, `payload`, and `delay_seconds` if there is one.
    pub(super) request: Value,
    /// Its idempotency key, if it has one.
    pub(super) key: Option<String>,
    /// Whether it is asked for twice.
    pub(super) twice: bool,
    /// Whether it is cancelled after it was accepted.
    pub(super) cancel: bool,
    /// What its handler can come to.
    pub(super) nature: Nature,
}

/// What a job's handler can come to, however often it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    /// It succeeds sooner or later.
    Succeeds,
    /// It never succeeds.
    Fails,
    /// It succeeds once its cause was mended, before the redrive.
    Mends,
    /// It is held when it is interrupted, and so never runs twice.
    Holds,
}

/// The steps of a behaviour; how many of a thousand jobs have it.
struct Behaviour {
    share: u32,
    nature: Nature,
    attempts: Value,
}

/// How the jobs of a soak come about.
#[derive(Debug)]
pub(super) struct Maker<'a> {
    dice: fastrand::Rng,
    /// What makes keys and intents of this soak its own.
    run: String,
    /// The file whose absence some jobs complain of.
    cause: &'a Path,
    /// Whether some jobs end their process.
    with_crashes: bool,
}

impl<'a> Maker<'a> {
    pub(super) fn new(seed: u64, cause: &'a Path, with_crashes: bool) -> Self {
        let dice = fastrand::Rng::with_seed(seed);
        Self { dice, run: format!("soak-{seed}"), cause, with_crashes }
    }

    /// The jobs, in groups that are asked for together; of one: alone.
    pub(super) fn groups(&mut self, count: usize) -> Vec<Vec<Wanted>> {
        let mut groups = Vec::new();
        let mut left: Vec<_> = (0..count).map(|number| self.job(number)).collect();
        while !left.is_empty() {
            let size = if self.dice.bool() { 1 } else { self.dice.usize(2..=40) };
            let rest = left.split_off(size.min(left.len()));
            groups.push(std::mem::replace(&mut left, rest));
        }
        groups
    }

    fn job(&mut self, number: usize) -> Wanted {
        let Behaviour { nature, attempts, .. } = self.behaviour();
        let mut payload = json!({ "attempts": attempts, "hold": nature == Nature::Holds });
        let key = format!("{}-{number}", self.run);
        let named = self.dice.u32(..100);
        if named < 5
            && let Some(fields) = payload.as_object_mut()
        {
            fields.insert("intent".to_owned(), json!(key));
        }
        let mut request = json!({ "kind": "probe", "payload": payload });
        if self.dice.u32(..100) < 10 && nature == Nature::Succeeds {
            let rows =
                json!([{ "group": key, "amount": "12.50" }, { "group": "b", "amount": "-1" }]);
            request = json!({ "kind": "report", "payload": { "title": key, "rows": rows } });
        }
        let cancel = self.dice.u32(..100) < 5;
        if let Some(fields) = request.as_object_mut().filter(|_| cancel && self.dice.bool()) {
            fields.insert("delay_seconds".to_owned(), json!(3));
        }
        let key = (named < 50).then_some(key);
        Wanted { twice: key.is_some() && self.dice.u32(..100) < 30, request, key, cancel, nature }
    }

    fn behaviour(&mut self) -> Behaviour {
        let all = self.behaviours();
        let mut throw = self.dice.u32(..all.iter().map(|behaviour| behaviour.share).sum::<u32>());
        let mut found =
            Behaviour { share: 0, nature: Nature::Succeeds, attempts: json!(["succeed"]) };
        for behaviour in all {
            if throw < behaviour.share {
                found = behaviour;
                break;
            }
            throw -= behaviour.share;
        }
        found
    }

    fn behaviours(&self) -> Vec<Behaviour> {
        let of = |share, nature, attempts| Behaviour { share, nature, attempts };
        let cause = self.cause.to_string_lossy();
        let mut all = vec![
            of(380, Nature::Succeeds, json!(["succeed"])),
            of(200, Nature::Succeeds, json!([{ "succeed_after_ms": 150 }])),
            of(90, Nature::Succeeds, json!(["fail", "succeed"])),
            of(30, Nature::Succeeds, json!([{ "fail_after_ms": 80 }, "err", "succeed"])),
            of(40, Nature::Succeeds, json!(["panic", "succeed"])),
            of(10, Nature::Succeeds, json!(["panic_in_task", "succeed"])),
            of(8, Nature::Succeeds, json!(["hang", "succeed"])),
            of(4, Nature::Succeeds, json!(["spawn_and_hang", "succeed"])),
            of(20, Nature::Succeeds, json!([{ "block_for_ms": 60 }])),
            of(8, Nature::Succeeds, json!([{ "succeed_with_bytes": 100_000 }])),
            of(60, Nature::Fails, json!(["fail_permanently"])),
            of(20, Nature::Fails, json!([{ "fail_permanently_after_ms": 90 }])),
            of(40, Nature::Fails, json!(["fail"])),
            of(10, Nature::Fails, json!(["panic"])),
            of(40, Nature::Mends, json!([{ "fail_permanently_without": cause }])),
            of(15, Nature::Holds, json!([{ "succeed_after_ms": 100 }])),
            of(8, Nature::Holds, json!(["err"])),
            of(4, Nature::Holds, json!(["panic"])),
            of(2, Nature::Holds, json!(["hang"])),
        ];
        if self.with_crashes {
            all.extend([
                of(4, Nature::Succeeds, json!(["exit", "succeed"])),
                of(2, Nature::Succeeds, json!([{ "block_for_ms": 60_000 }, "succeed"])),
                of(1, Nature::Holds, json!(["exit"])),
            ]);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_jobs_each_time() {
        let groups = |seed| {
            let groups = Maker::new(seed, Path::new("/cause"), true).groups(300);
            assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), 300);
            format!("{groups:?}")
        };
        assert_eq!(groups(7), groups(7));
        assert_ne!(groups(7), groups(8));
    }
}
