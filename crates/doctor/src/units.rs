//! Formatting and conversion of times.

pub use eigentime_measure::clocks::{nanos, of};

/// A duration in a suitable unit: `96 ns`, `66.2 µs`, `4 ms`, `2.5 s`.
pub fn length(nanos: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    let fits = UNITS.iter().find(|(unit, _)| nanos.abs() >= *unit);
    let (unit, name) = fits.unwrap_or(&UNITS[3]);
    let number = nanos / unit;
    // Three significant digits suffice.
    let digits = match number.abs() {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    let number = format!("{number:.digits$}");
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => &number,
    };
    format!("{number} {name}")
}

/// `1 pair`, `2 pairs`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_a_unit_that_suits_them() {
        let said = [0.0, 0.25, 96.0, 66_212.0, 4e6, 2.5e9, -1500.0, 123_456.0].map(length);
        let expected =
            ["0 ns", "0.25 ns", "96 ns", "66.2 µs", "4 ms", "2.5 s", "-1.5 µs", "123 µs"];
        assert_eq!(said, expected);
        assert_eq!(count(1, "pair", "pairs") + &count(0, "pair", "pairs"), "1 pair0 pairs");
    }
}
