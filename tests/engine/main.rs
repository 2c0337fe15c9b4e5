//! The agent's library on a real engine: what an apply does, and what is left when it fails.
//!
//! The answer is never taken for the truth: every test asks the engine itself afterwards.

mod broad;
mod cases;
mod changed_networks;
mod data;
mod defaults;
mod dependants;
mod engine_restart;
mod every_call;
mod failures;
mod faults;
#[path = "../free.rs"]
mod free;
mod guard;
mod guard_kinds;
mod half_way;
mod health;
mod image_changes;
mod in_place;
mod interrupted;
mod kill;
mod kill_harness;
mod left_behind;
mod modules;
mod mounts;
mod moved;
mod moved_kill;
mod one_agent;
mod one_change;
mod operations;
mod own_engine;
mod proxy;
mod pulls;
mod recreation;
mod registry;
mod remembering;
mod removal;
mod residue;
mod rolled_back;
mod served;
mod site;
mod stranded;
mod streams;
mod strict;
mod taken;
mod too_old;
mod tree;
mod update_lock;
mod wrong_answer;
