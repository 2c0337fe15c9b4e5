//! The whole system: real `plumb controller` and `plumb agent` processes, a real engine, real clients of other people.

mod certificates;
mod contract;
mod grpcurl;
mod harness;
mod incident;
mod live;
mod live_who;
mod losing;
mod malformed;
mod manifests;
mod outages;
mod push;
mod python;
mod reflection;
mod remove;
mod take;
mod tools;
mod up;
mod usage;
