//! A fleet on this machine: a certificate authority, `plumb controller` and `plumb agent` processes as an operator would
//! start them, each with its own folder, and a proxy before the engine that counts what an agent asks of it.
//!
//! What goes out is the operator's view: `fleet.plumb(["plan", "web"])` and what it said. Whether that is true is for the
//! tests to ask `docker`. Names that [`Fleet::module`] gives are this fleet's alone; whatever bears one is removed in the
//! end, also when the test fails.

mod certificates;
mod engine;
mod engine_proxy;
mod fleet;
mod process;
mod said;

pub(crate) use certificates::{Authority, Certificate};
pub(crate) use engine::{docker, identity};
pub(crate) use fleet::{Agent, Fleet};
pub(crate) use process::within;
pub(crate) use said::{Running, Said, plumb};
