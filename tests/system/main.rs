//! The whole system: real `plumb controller` and `plumb agent` processes, a real engine, real clients of other people.

mod contract;
mod tools;
