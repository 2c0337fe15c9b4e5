//! Numbers as people write them: `64m`, `1m30s`, `0700`. Sizes are powers of 1024, as Docker means them.

const KIB: i128 = 1024;
const NANOS: i128 = 1_000_000_000;

/// Why a text is not a number of its unit.
pub(super) struct NotOne {
    pub(super) expected: &'static str,
    pub(super) remedy: String,
}

fn not_one<T>(expected: &'static str, remedy: impl Into<String>) -> Result<T, NotOne> {
    Err(NotOne { expected, remedy: remedy.into() })
}

/// A whole number without a unit. A leading zero would be octal to some readers of YAML and decimal to others.
pub(super) fn integer(text: &str) -> Result<i128, NotOne> {
    const EXPECTED: &str = "a whole number";
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || digits.len() > 30 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return not_one(EXPECTED, "");
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return not_one(
            EXPECTED,
            format!("write it without the leading zero: {}", digits.trim_start_matches('0')),
        );
    }
    text.parse().or_else(|_| not_one(EXPECTED, ""))
}

/// `512`, `512k`, `64mb`, `1.5g`, `1GiB`: bytes.
pub(super) fn size(text: &str) -> Result<i128, NotOne> {
    const EXPECTED: &str = "a size";
    const REMEDY: &str = "write bytes, or a unit as in 512k, 64m, 1.5g";
    let bare = text.strip_prefix(['-', '+']).unwrap_or(text);
    if bare.bytes().all(|byte| byte.is_ascii_digit()) {
        return integer(text).or_else(|problem| not_one(EXPECTED, problem.remedy));
    }
    let split =
        text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = unit.trim_start().to_ascii_lowercase();
    let factor = match unit.as_str() {
        "b" => 1,
        "k" | "kb" | "kib" => KIB,
        "m" | "mb" | "mib" => KIB.pow(2),
        "g" | "gb" | "gib" => KIB.pow(3),
        "t" | "tb" | "tib" => KIB.pow(4),
        "p" | "pb" | "pib" => KIB.pow(5),
        _ => return not_one(EXPECTED, REMEDY),
    };
    let Some((numerator, denominator)) = decimal(number) else { return not_one(EXPECTED, REMEDY) };
    Ok(numerator * factor / denominator)
}

/// A decimal number as a fraction.
fn decimal(text: &str) -> Option<(i128, i128)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let sane = !whole.is_empty() && whole.len() <= 18 && part.len() <= 9 && !text.ends_with('.');
    if !sane || !digits(whole) || !digits(part) {
        return None;
    }
    let denominator = 10_i128.pow(u32::try_from(part.len()).ok()?);
    format!("{whole}{part}").parse().ok().map(|numerator: i128| (numerator, denominator))
}

/// The shortest text that [`size`] reads as this many bytes.
pub(super) fn size_text(bytes: i128) -> String {
    for (unit, factor) in [("g", KIB.pow(3)), ("m", KIB.pow(2)), ("k", KIB)] {
        if bytes > 0 && bytes % factor == 0 {
            return format!("{}{unit}", bytes / factor);
        }
    }
    bytes.to_string()
}

/// `1m30s`, `500ms`, `1.5s`, `-1s`: nanoseconds.
pub(super) fn duration(text: &str) -> Result<i128, NotOne> {
    const EXPECTED: &str = "a duration";
    let wrong = || not_one(EXPECTED, "write it with units, as 10s, 500ms or 1m30s");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return not_one(EXPECTED, format!("a number needs its unit: \"{text}s\""));
    }
    let (mut total, mut last) = (0, i128::MAX);
    if rest.is_empty() {
        return wrong();
    }
    while !rest.is_empty() {
        let end = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|character: char| character.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let factor = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => NANOS,
            "m" => 60 * NANOS,
            "h" => 3_600 * NANOS,
            _ => return wrong(),
        };
        let Some((numerator, denominator)) = decimal(number) else { return wrong() };
        let nanos = numerator * factor;
        if factor >= last || nanos % denominator != 0 {
            return wrong();
        }
        (total, last, rest) = (total + nanos / denominator, factor, tail);
    }
    Ok(if negative { -total } else { total })
}

/// A text that [`duration`] reads as this many nanoseconds.
pub(super) fn duration_text(nanos: i128) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.abs();
    let body = match nanos {
        0 => "0s".to_owned(),
        nanos if nanos < NANOS => {
            let (unit, factor) = [("ms", 1_000_000), ("us", 1_000), ("ns", 1)]
                .into_iter()
                .find(|(_, factor)| nanos % factor == 0)
                .unwrap_or(("ns", 1));
            format!("{}{unit}", nanos / factor)
        }
        nanos => {
            let (seconds, part) = (nanos / NANOS, nanos % NANOS);
            let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
            let part = format!("{part:09}");
            let part = part.trim_end_matches('0');
            let unit =
                |number: i128, unit: &str| if number > 0 { format!("{number}{unit}") } else { String::new() };
            let seconds = if part.is_empty() { unit(seconds, "s") } else { format!("{seconds}.{part}s") };
            unit(hours, "h") + &unit(minutes, "m") + &seconds
        }
    };
    format!("{sign}{body}")
}

/// `0700`, `700`, `0o700`: a file mode is octal, however it is written.
pub(super) fn mode(text: &str) -> Result<i128, NotOne> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if mode <= 0o7777 && !digits.starts_with('+') => Ok(mode.into()),
        _ => not_one("a file mode in octal", "write it as \"0755\""),
    }
}

/// A text that [`mode`] reads as this file mode.
pub(super) fn mode_text(mode: u32) -> String {
    format!("{mode:04o}")
}

/// `1.5`: a decimal number.
pub(super) fn number(text: &str) -> Result<f64, NotOne> {
    let looks = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    match text.parse::<f64>() {
        Ok(number) if looks && number.is_finite() => Ok(number),
        _ => not_one("a number", "write it as 1.5"),
    }
}
