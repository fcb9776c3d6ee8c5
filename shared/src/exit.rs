//! How the process of a function ends.

use std::error::Error;
use std::process::ExitCode;

use crate::telemetry::{self, LogLevel, causes};

/// Why a function ends whose runtime does: there is nobody to take events from.
#[must_use]
pub fn connection_lost(error: &(dyn Error + 'static)) -> Box<dyn Error + Send + Sync> {
    format!("the connection to Lambda is lost: {}", causes(error)).into()
}

/// The exit code of a function that has `ended`. Where it ended badly, this logs
/// why.
#[must_use]
pub fn exit_code(function: &str, ended: Result<(), Box<dyn Error + Send + Sync>>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody has done it yet where the configuration is bad.
            telemetry::init(LogLevel::DEFAULT);
            tracing::error!(error = causes(&*error), "the {function} cannot run");
            ExitCode::FAILURE
        }
    }
}
