//! Relevo's command line, as a library: the end-to-end tests set up their stack
//! with the same code as `cargo ops up`.
//!
//! It talks to the functions only as everybody else does: over HTTP, SQS and
//! DynamoDB.

pub mod api;
pub mod aws;
pub mod bench;
pub mod cost;
pub mod demo;
pub mod emulator;
pub mod evidence;
pub mod functions;
pub mod lint;
pub mod living;
pub mod local;
pub mod log_line;
pub mod logs;
pub mod messages;
pub mod outputs;
pub mod parameter_sets;
pub mod prices;
pub mod process;
pub mod progress;
pub mod prove;
pub mod receivers;
pub mod role;
pub mod sign;
pub mod stack;
pub mod stories;
pub mod tools;
pub mod up;
pub mod workspace;
