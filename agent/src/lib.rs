//! The agent: one engine's containers, kept true to their declarations.
//!
//! ```text
//! gRPC --service--> operations (one worker a module) --apply--> gather --> decide --> execute --> engine
//!                                                                 ^                      |
//!                                                                 +------ read back -----+
//! ```
//!
//! * [`service`]: requests in, answers out; nothing is decided there.
//! * [`operations`]: who owns the work. A caller that leaves changes nothing.
//! * [`claim`]: one agent for one engine.
//! * [`apply`]: one apply, from spec to result; plan and adoption use its first half.
//! * [`removal`]: a module's containers and networks go, its volumes stay.
//! * [`container`]: one container in its four forms: declared, desired, observed, and the body that creates it.
//! * [`guard`]: what stands behind the mounts, as far as the host's files tell.
//! * [`pasted`]: a plan from the text of `docker inspect`, without an engine.
//! * [`take`]: from a running container to its declaration.
//! * [`engine`]: the engine, in a handle that only looks and one that acts.
//! * [`state`]: what the agent remembers.
//! * [`secrets`]: keeps the module's secret values out of every text.
//! * [`serve`], [`server`]: gRPC over mutual TLS, and the agent as a process.
//!
//! Always true: a plan has no handle that could mutate; a refused module has had no mutating call; after every
//! mutation the engine is asked what it holds now.

pub mod apply;
pub mod claim;
pub mod container;
pub mod engine;
pub mod guard;
pub mod journal;
pub mod moving;
pub mod operations;
pub mod pasted;
pub mod removal;
pub mod secrets;
pub mod serve;
pub mod server;
pub mod service;
pub mod state;
pub mod take;
