//! One container in its four forms: declared, desired, observed, and the body that creates it.
//!
//! ```text
//! spec --resolve--> declared --merge(image)--> desired
//!                   declared ------body------> POST /containers/create
//! inspect --reshape--> observed
//! ```
//!
//! Reshaping brings what engines write in a shape of their own (environment as a list, published ports as nested maps,
//! binds as text) to the engine paths of the catalogue; the generic half is `plumbline::engine_form`.

mod align;
mod binds;
mod body;
mod desired;
mod observed;
mod podman;
mod ports;
mod reference;
mod resolve;

pub use align::align;
pub use body::{Body, create_body, endpoint_body, update_body};
pub use desired::desired;
pub use observed::{Mounted, Observed, made_volumes, observe, observe_spec};
pub use podman::{container_in_docker_words, network_in_docker_words};
pub(crate) use reference::{same_reference, split_reference};
pub use resolve::{Names, resolve};

/// Labels with this prefix carry identity and are neither declared nor compared.
pub const LABEL_PREFIX: &str = "dev.plumbline.";
/// The installation (certificate authority) that a container belongs to.
pub const LABEL_INSTALLATION: &str = "dev.plumbline.installation";
/// The module.
pub const LABEL_MODULE: &str = "dev.plumbline.module";
/// The container's key in the module.
pub const LABEL_CONTAINER: &str = "dev.plumbline.container";
/// Label: which of several networks of one name this is. A random text, given when a network is made in the place of another.
pub const LABEL_MARK: &str = "dev.plumbline.mark";

/// Engines name anonymous volumes with 64 hex digits.
pub fn is_generated_name(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
