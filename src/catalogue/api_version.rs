//! Versions of the Docker Engine API.

use std::fmt;
use std::str::FromStr;

/// A version of the Docker Engine API, as 1.41.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiVersion {
    /// Always 1 up to now.
    pub major: u16,
    /// 41 in 1.41.
    pub minor: u16,
}

impl ApiVersion {
    /// The newest version this build was made for. A newer engine is asked in this version.
    pub const NEWEST: Self = Self { major: 1, minor: 51 };
    /// The oldest version this build works with (engine 20.10, where multiple facts of the catalogue were measured).
    pub const OLDEST: Self = Self { major: 1, minor: 41 };
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for ApiVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("`{text}` is not an engine API version such as 1.41");
        let (major, minor) = text.split_once('.').ok_or_else(malformed)?;
        Ok(Self {
            major: major.parse().map_err(|_| malformed())?,
            minor: minor.parse().map_err(|_| malformed())?,
        })
    }
}
