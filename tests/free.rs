//! Ports and subnets that no other test has, for test programs that run side by side.

use std::sync::atomic::{AtomicU16, Ordering};

/// The first of three ports of this host that nobody has, one after the other.
pub(crate) fn free_ports() -> u16 {
    let free = |port: &u16| {
        let taken = |port: u16| std::net::TcpListener::bind(("0.0.0.0", port)).is_err();
        !(*port..=port + 2).any(taken)
    };
    let first =
        20_000 + u16::try_from(std::process::id() % 1000).expect("it is below 1000") * 10 + own_number();
    (first..32_000).step_by(10).find(free).expect("three free ports")
}

/// The first three parts of addresses in a network of 256 that no other test has.
pub(crate) fn own_subnet() -> String {
    let number = std::process::id().wrapping_mul(7).wrapping_add(own_number().into());
    format!("10.{}.{}", 64 + number / 256 % 64, number % 256)
}

/// Another one for each call in this process.
fn own_number() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    NEXT.fetch_add(3, Ordering::Relaxed)
}
