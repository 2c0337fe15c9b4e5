//! What an agent's options say of how it works.

use std::time::Duration;

use crate::guard::HostFiles;

/// How long a started container must stay up where nothing else is said: as long as Docker's swarm monitors an update.
const MONITOR: Duration = Duration::from_secs(5);

/// How an agent works, whatever is asked of it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The host's files.
    pub files: HostFiles,
    /// How long a started container without a health check must stay up where its declaration does not say.
    pub monitor: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { files: HostFiles::default(), monitor: MONITOR }
    }
}

/// The option for [`Settings::monitor`], for every command that has an agent in it.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct MonitorOption {
    /// How long a started container must stay up where its declaration does not say (`update_config.monitor`).
    #[arg(long, default_value = "5s", env = "PLUMBLINE_MONITOR", value_name = "DURATION", value_parser = positive)]
    pub monitor: Duration,
}

fn positive(text: &str) -> Result<Duration, String> {
    match plumbline::manifest::duration(text)? {
        Duration::ZERO => Err("no container can be watched for 0s".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_takes_what_a_manifest_takes() {
        assert_eq!(positive("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(positive("5s"), Ok(MONITOR), "the default of the option is that of the library");
        for wrong in ["0s", "-1s", "10", "", "soon"] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
    }
}
