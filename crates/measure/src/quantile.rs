//! Medians and other quantiles.

/// The values in ascending order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The median, which is the mean of the two middle values if there are two; None for no values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    interpolated(&sorted(values), 0.5)
}

/// The quantile of values in ascending order, interpolated between the two nearest (type 7 of
/// Hyndman and Fan 1996, the default of R and NumPy); None for no values.
pub fn interpolated(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = part * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

/// The smallest of values in ascending order that this part of all does not exceed: a measured
/// value (type 1, nearest rank); None for no values.
pub fn nearest_rank<T: Copy>(sorted: &[T], part: f64) -> Option<T> {
    /// 0.99 of 300 is 297, and slightly more in 53-bit arithmetic.
    const ROUNDING: f64 = 1e-6;
    let rank = (sorted.len() as f64 * part - ROUNDING).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_r() {
        // quantile(c(1, 2, 4, 8), c(0, .25, .5, .9, 1))
        let of = |part| interpolated(&[1.0, 2.0, 4.0, 8.0], part).unwrap();
        let found = [0.0, 0.25, 0.5, 0.9, 1.0].map(of);
        for (found, expected) in found.iter().zip([1.0, 1.75, 3.0, 6.8, 8.0]) {
            assert!((found - expected).abs() < 1e-12, "{found} and {expected}");
        }
        assert_eq!(median([8.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median([]), None);
    }

    #[test]
    fn nearest_ranks_are_values() {
        let hundred: Vec<u32> = (1..=100).collect();
        let of = |part| nearest_rank(&hundred, part);
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(of), [1, 50, 99, 100].map(Some));
        for count in 1..2_000_u32 {
            let all: Vec<u32> = (1..=count).collect();
            assert_eq!(nearest_rank(&all, 0.99), Some((count * 99).div_ceil(100)), "of {count}");
        }
        assert_eq!(nearest_rank::<u32>(&[], 0.5), None);
    }
}
