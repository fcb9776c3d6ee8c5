//! Relevo's command line, as a library: the end-to-end tests set up their stack
//! with the same code as `cargo ops up`.
//!
//! It talks to the functions only as everybody else does: over HTTP, SQS and
//! DynamoDB.

pub mod api;
pub mod aws;
pub mod bench;
pub mod complaint;
pub mod completions;
pub mod connection;
pub mod cost;
pub mod demo;
pub mod detach;
pub mod dev;
pub mod dlq;
pub mod doctor;
pub mod down;
pub mod emulator;
pub mod ending;
pub mod evidence;
pub mod functions;
pub mod jobs;
pub mod journal;
pub mod lint;
pub mod living;
pub mod local;
pub mod log_line;
pub mod logs;
pub mod mapping;
pub mod messages;
pub mod output;
pub mod outputs;
pub mod parameter_sets;
pub mod poll;
pub mod prices;
pub mod process;
pub mod progress;
pub mod prove;
pub mod queue;
pub mod queue_attributes;
pub mod receivers;
pub mod role;
pub mod running;
pub mod sign;
pub mod stack;
pub mod stories;
pub mod target;
pub mod tools;
pub mod up;
pub mod watch;
pub mod workspace;
