//! Commands for jobs: they ask the API, as every client does.

mod calls;
pub mod cancel;
mod chunk;
mod draft;
#[cfg(test)]
mod fake;
mod follow;
pub(crate) mod ids;
mod input;
mod job;
mod next_try;
mod problem;
mod results;
mod send;
mod sending;
pub mod status;
pub mod submit;
mod waiting;
pub mod watch;
