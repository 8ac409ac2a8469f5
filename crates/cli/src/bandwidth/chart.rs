//! A series of estimates in a terminal: a line with a bar for each.

use eigentime_bandwidth::BitRate;

/// Eighths of a cell, from none to seven.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// The end of a scale is one of these, times a power of ten.
const STEPS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// A bar of this many cells for a rate on a scale, with a mark at another rate.
pub fn bar(rate: BitRate, mark: BitRate, full: BitRate, cells: usize) -> String {
    let share = |rate: BitRate| (rate.bits() / full.bits()).clamp(0.0, 1.0) * cells as f64;
    let eighths = (share(rate) * 8.0).round() as usize;
    let mut drawn = "█".repeat(eighths / 8);
    drawn.push_str(EIGHTHS[eighths % 8]);
    let length = drawn.chars().count();
    let mut row: Vec<char> =
        drawn.chars().chain(std::iter::repeat_n(' ', cells - length)).collect();
    let at = (share(mark) as usize).min(cells.saturating_sub(1));
    if let Some(cell) = row.get_mut(at).filter(|cell| **cell == ' ') {
        *cell = '│';
    }
    row.into_iter().collect()
}

/// The end of a scale that includes all of these rates.
pub fn full(rates: impl Iterator<Item = BitRate>) -> BitRate {
    let most = rates.map(BitRate::bits).fold(1.0, f64::max);
    let power = 10_f64.powf(most.log10().floor());
    let step = STEPS.iter().map(|step| step * power).find(|end| *end >= most);
    BitRate::per_second(step.unwrap_or(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_rate_and_has_its_mark() {
        let mega = BitRate::mega;
        assert_eq!(bar(mega(50.0), mega(80.0), mega(100.0), 10), "█████   │ ");
        assert_eq!(bar(mega(55.0), mega(10.0), mega(100.0), 10), "█████▌    ");
        assert_eq!(bar(mega(200.0), mega(0.0), mega(100.0), 4), "████");
        assert_eq!(bar(BitRate::ZERO, mega(100.0), mega(100.0), 4), "   │");
    }

    #[test]
    fn a_scale_ends_at_a_round_number_above() {
        for (most, end) in [(87.0, 100.0), (100.0, 100.0), (110.0, 200.0), (940.0, 1000.0)] {
            let rates = [BitRate::mega(1.0), BitRate::mega(most)];
            let full = full(rates.into_iter()).bits() / 1e6;
            assert!((full - end).abs() < 1e-6, "{most}: {full}");
        }
    }
}
