//! The engine, in two handles: [`EngineReader`] has no call that could change anything, [`Engine`] has them all.
//!
//! A plan gets the reader (promise P4). Everything goes through one small HTTP client over the Unix socket, in the
//! newest API version that both sides know.

mod error;
mod files;
mod http;
mod inspect;
mod pull;
mod read;
mod write;

use std::fmt::Write as _;

pub use error::EngineError;
pub use files::Presence;
pub use inspect::Inspect;
pub use pull::PullProgress;
pub use read::{End, EngineReader, Version};
pub use write::Engine;

/// Percent-encodes a name or reference as one part of a path or query.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            byte => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}
