//! The jobs that a command is about.

use clap::Args;
use uuid::Uuid;

/// Jobs, by their ids.
#[derive(Args, Clone, Debug)]
pub(super) struct Ids {
    /// Ids of jobs, as `submit` shows them.
    #[arg(id = "id", required = true, value_name = "ID", value_parser = read)]
    all: Vec<Uuid>,
}

impl Ids {
    /// Each of them once, in their order.
    pub(super) fn distinct(&self) -> Vec<Uuid> {
        let mut distinct = Vec::new();
        for id in &self.all {
            if !distinct.contains(id) {
                distinct.push(*id);
            }
        }
        distinct
    }
}

/// Reads one id.
pub(crate) fn read(text: &str) -> Result<Uuid, &'static str> {
    let example = "ids of jobs are UUIDs, such as 01a22d88-5297-7c42-8d92-706a06211937";
    Uuid::try_parse(text).map_err(|_| example)
}
