//! The generated messages and services of `proto/plumbline/v1`, and the descriptors they were made from.

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

/// The encoded descriptors, with their options and comments, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The decoded descriptors. The catalogue of fields is read from their options.
pub static DESCRIPTOR_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(DESCRIPTORS).expect("build.rs wrote descriptors that it had checked")
});

/// Version 1 of the contract.
#[allow(
    missing_docs,
    clippy::pedantic,
    unreachable_pub,
    reason = "generated; its comments are those of the proto files"
)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/plumbline.v1.rs"));
}
