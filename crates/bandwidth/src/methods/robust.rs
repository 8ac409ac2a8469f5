//! Statistics that are robust against a few outliers.

pub(super) use eigentime_measure::quantile::{interpolated as quantile, median, sorted};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Scales a median absolute deviation to the standard deviation of a normal distribution.
const NORMAL: f64 = 1.4826;

/// The mean; NaN without values.
pub(super) fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// The standard deviation, from the median absolute deviation from the median.
pub(super) fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values.iter().copied())?;
    median(values.iter().map(|value| (value - middle).abs())).map(|mad| mad * NORMAL)
}

/// The difference in standard errors between an early part of values and the late part that shows a
/// change in between: a normal distribution does not reach it in a million series, wherever the
/// break is searched.
const BREAK: f64 = 6.0;

/// Whether the means of values with weights, in order of time, break somewhere by more than this,
/// with at least this many values on either side.
pub(super) fn breaks(values: &[(f64, f64)], fewest: usize, more_than: f64) -> bool {
    let weight = |of: &[(f64, f64)]| of.iter().map(|(_, weight)| weight).sum::<f64>();
    let mean = |of: &[(f64, f64)]| {
        of.iter().map(|(value, weight)| value * weight).sum::<f64>() / weight(of)
    };
    let square = |of: &[(f64, f64)], mean: f64| {
        of.iter().map(|(value, weight)| weight * (value - mean).powi(2)).sum::<f64>()
    };
    (fewest..(values.len() + 1).saturating_sub(fewest)).any(|at| {
        let (early, late) = values.split_at(at);
        let (before, after) = (mean(early), mean(late));
        let variance = (square(early, before) + square(late, after)) / (values.len() - 2) as f64;
        let error = (variance * (1.0 / weight(early) + 1.0 / weight(late))).sqrt();
        let by = (before - after).abs();
        by > BREAK * error && by > more_than
    })
}

/// The half width in standard errors of the 95 % interval of a mean of few values: the 97.5 %
/// quantile of Student's distribution with this many degrees of freedom.
pub(super) fn student(freedom: usize) -> f64 {
    // Zero degrees of freedom have no quantile and give no bound.
    StudentsT::new(0.0, 1.0, freedom as f64)
        .map_or(f64::INFINITY, |student| student.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_do_not_mind_bad_values() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0]), Some(2.0));
        assert_eq!(median([3.0, 1.0, 1e9]), Some(3.0));
        assert_eq!(spread(&[1.0, 2.0, 3.0, 4.0, 1e9]), Some(NORMAL));
    }

    #[test]
    fn a_break_is_where_two_parts_differ_by_more_than_they_vary() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut values: Vec<(f64, f64)> = (0..40).map(|_| (random.f64(), 1.0)).collect();
        assert!(!breaks(&values, 5, 0.1));
        values[25..].iter_mut().for_each(|it| it.0 += 1.0);
        assert!(breaks(&values, 5, 0.1));
        assert!(!breaks(&values, 5, 1.5), "by less than matters");
        assert!(!breaks(&values[..9], 5, 0.1), "too few");
    }

    #[test]
    fn student_s_quantiles_are_those_of_the_tables() {
        for (freedom, table) in
            [(1, 12.706), (4, 2.776), (5, 2.571), (6, 2.447), (10, 2.228), (30, 2.042)]
        {
            assert!((student(freedom) - table).abs() < 0.004, "{freedom}: {}", student(freedom));
        }
        assert_eq!(student(0), f64::INFINITY);
    }
}
