//! Plumbline's shared library: the contract, the field catalogue, the diff, the manifest, and mutual TLS.
//!
//! Everything here but [`tls`] is pure: values come in, values go out, nothing is read or sent. Data flows one way:
//!
//! ```text
//! manifest --parse--> spec --wire--> desired (spec + image + engine defaults)
//! engine inspect -----------------> observed (same type)
//! desired, observed --diff--> changes --plan(policy)--> steps --execute--> outcome --relay--> operator
//! ```
//!
//! * [`proto`]: the generated messages and services, and the descriptors they were made from.
//! * [`catalogue`]: the rule that every field of a spec carries, read from those descriptors.
//! * [`strict`]: the codec that refuses what this build does not know.
//! * [`normal`]: the one form of each value that means the same to the engine.
//! * [`diff`]: the one walker that compares two specs, field by field.
//! * [`engine_form`]: specs to and from the engine's JSON, by the engine paths of the catalogue.
//! * [`guard`]: what stands behind every mount, before a container is put on it.
//! * [`order`], [`plan`]: in which order a module is applied, and what is done with each object.
//! * [`contents`]: what a volume holds, in words;
//! * [`update_lock`]: why a container that asks to be left alone is left alone.
//! * [`manifest`]: YAML to specs and back, and what a valid spec must satisfy.
//! * [`tls`]: certificates and connections.

#[cfg(test)]
mod any_spec;
pub mod catalogue;
pub mod contents;
pub mod diff;
pub mod engine_form;
pub mod guard;
pub mod manifest;
pub mod normal;
pub mod order;
pub mod plan;
pub mod proto;
pub mod strict;
pub mod tls;
pub mod update_lock;
