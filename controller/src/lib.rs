//! The controller, and the operators' command `plumb`.
//!
//! ```text
//! plumb (cli) --gRPC over mutual TLS--> service --> store
//!                                         |
//!                                         +-- fleet --gRPC over mutual TLS--> agents
//! ```
//!
//! * [`service`]: `ModuleService` and `NodeService`.
//! * [`fleet`]: one channel and one apply stream to every agent.
//! * [`store`]: what the controller remembers, in one `SQLite` file.
//! * [`server`]: the controller as a process.
//! * [`cli`]: the commands, and the one printer.
//!
//! Always true: what an agent says is relayed unchanged; a build says what it will do before it does it.

pub mod cli;
pub mod fleet;
pub mod server;
pub mod service;
pub mod store;
