//! How our types are held in columns: the only place that knows their text and number forms.

use std::str::FromStr;

use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use super::UpgradePolicy;

/// A point in time, as RFC 3339 text in UTC, so that a person can read it with the `sqlite3` shell.
pub(super) struct Instant(pub(super) Timestamp);

impl ToSql for Instant {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.to_string().into())
    }
}

impl FromSql for Instant {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Timestamp::from_str(value.as_str()?).map(Self).map_err(FromSqlError::other)
    }
}

/// A revision number. `SQLite` has signed integers only.
#[derive(Clone, Copy)]
pub(super) struct Number(pub(super) u64);

impl ToSql for Number {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        // A number this high was never given out, so it may stand for all that are higher still: it is not found.
        Ok(i64::try_from(self.0).unwrap_or(i64::MAX).into())
    }
}

impl FromSql for Number {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = value.as_i64()?;
        u64::try_from(number).map(Self).map_err(|_| FromSqlError::OutOfRange(number))
    }
}

impl ToSql for UpgradePolicy {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = match self {
            Self::Record => "record",
            Self::RollOut => "roll_out",
        };
        Ok(text.into())
    }
}

impl FromSql for UpgradePolicy {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "record" => Ok(Self::Record),
            "roll_out" => Ok(Self::RollOut),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}
