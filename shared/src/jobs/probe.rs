//! The payload of `probe`: what a handler does, attempt by attempt.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::job::{Interrupted, Payload, Scope};
use crate::validation::{Invalid, read};

/// Asks for a handler that does as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// What the first, second, … attempt does; the last one is repeated.
    pub attempts: Vec<Step>,
    /// Whether an interrupted probe is held.
    #[serde(default)]
    pub hold: bool,
    /// An intent key with deployment scope.
    #[serde(default)]
    pub intent: Option<String>,
}

/// What one attempt does.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Answers at once.
    Succeed,
    /// Answers after so many milliseconds.
    SucceedAfterMs(u64),
    /// Answers with a result of so many bytes.
    SucceedWithBytes(usize),
    /// Says that nothing happened, and that it may be tried again.
    Fail,
    /// Says so after so many milliseconds.
    FailAfterMs(u64),
    /// Says so, and not before this moment in epoch milliseconds.
    FailUntil(u64),
    /// Says that no retry can help.
    FailPermanently,
    /// Says so while this file does not exist, then answers: a cause that
    /// somebody mends before a redrive, which begins with the first attempt.
    FailPermanentlyWithout(String),
    /// Says so after so many milliseconds.
    FailPermanentlyAfterMs(u64),
    /// Fails without saying what happened.
    Err,
    /// Panics.
    Panic,
    /// Panics in a task that it spawned and waits for.
    PanicInTask,
    /// Never ends by itself.
    Hang,
    /// Waits for a task that never ends by itself.
    SpawnAndHang,
    /// Blocks a thread for so many milliseconds, and waits for it.
    BlockForMs(u64),
    /// Works on in a thread until so long after the handler was stopped.
    OutliveStopByMs(u64),
    /// Ends the process.
    Exit,
}

impl Payload for Probe {
    const KIND: &'static str = "probe";
    const INTENT_SCOPE: Scope = Scope::Deployment;

    #[cfg(feature = "openapi")]
    fn schema() -> crate::schema::Schemas {
        crate::schema::Schemas::of::<Self>()
    }

    fn parse(payload: &RawValue) -> Result<Self, Invalid> {
        let probe: Self = read(payload)?;
        if probe.attempts.is_empty() {
            return Err(Invalid::one("/attempts", "must name at least one step"));
        }
        Ok(probe)
    }

    fn intent_key(&self) -> Option<String> {
        self.intent.clone()
    }

    fn interrupted(&self) -> Interrupted {
        if self.hold { Interrupted::Hold } else { Interrupted::Retry }
    }
}
