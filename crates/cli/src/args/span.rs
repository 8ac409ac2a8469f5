//! Lengths of time.

use std::time::Duration;

use eigentime_timeline::text::parse_offset;

/// A length of time that is longer than nothing.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let nanos = parse_offset(text).map_err(|error| error.to_string())?;
    let span = u64::try_from(nanos.0).ok().filter(|span| *span > 0);
    span.map(Duration::from_nanos).ok_or_else(|| "it must be longer than nothing".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_longer_than_nothing() {
        assert_eq!(parse_span("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_span("0.5"), Ok(Duration::from_millis(500)));
        assert!(parse_span("0").is_err() && parse_span("-1s").is_err());
        assert!(parse_span("long").is_err());
    }
}
