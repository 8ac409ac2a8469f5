//! The line on which trains above the available bandwidth lie, and its beginning: at A, below which
//! trains arrive as sent.
//!
//! offered/received = (offered + X) / C (TOPP: Melander, Björkman, Gunningberg 2000). The slope is
//! 1/C, and A is where the ratio is 1.

use super::robust::{quantile, sorted, student};

/// The response of a train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// The offered rate, in bits per second.
    pub(super) rate: f64,
    /// The ratio of offered to received rate.
    pub(super) ratio: f64,
    /// Its weight, as the inverse of a variance: the length of the train.
    pub(super) weight: f64,
}

/// The result from points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TurningPoint {
    /// C, in bits per second.
    pub(super) capacity: f64,
    /// A.
    pub(super) available: f64,
    /// The standard deviation of A between single trains of maximum length.
    pub(super) spread: f64,
    /// The standard error of the slope, as a part of it.
    pub(super) slope_error: f64,
    /// The number of points on the line.
    pub(super) used: usize,
}

/// The minimum error of a ratio: timestamps of a tenth of a microsecond in a millisecond.
const FINEST: f64 = 1e-4;

/// The number of beginnings of the line that are tried.
const STEPS: u32 = 100;

/// How often the points above A are determined again, and the maximum ratio of a later line's
/// distance from all points to the nearest one's.
const ROUNDS: u32 = 8;
const NEAR: f64 = 1.02;

/// The ratio of the number of batches to the number of points in each.
const BATCHES: f64 = 1.5;

/// The widening of the interval beyond its components, because rates, lengths and numbers of trains
/// depend on earlier results: with this ratio simulated intervals with Poisson, periodic and on-off
/// traffic contain the truth in 95 of 100 cases instead of 92.
const WIDER: f64 = 1.1;

/// The number of bootstrap resamples of the line.
const RESAMPLED: usize = 300;

/// The limit of Student's quantile for many trains: the normal distribution's at 97.5 %.
const NORMAL_95: f64 = 1.959_964;

/// y = intercept + slope x.
#[derive(Clone, Copy, Debug)]
struct Line {
    slope: f64,
    intercept: f64,
}

impl Line {
    fn at(self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }

    fn away(self, point: &Point) -> f64 {
        point.ratio - self.at(point.rate)
    }

    /// The weighted least squares fit.
    fn through(points: &[Point], least: f64) -> Option<Self> {
        let Moments { x, y, square, both } = moments(points);
        let slope = both / square;
        let line = Self { slope, intercept: y - slope * x };
        (points.len() >= 2 && square > 0.0 && slope > 0.0).then(|| line.possible(points, least))
    }

    /// The same, but through the origin if the cross traffic would be negative (then A = C), or
    /// through the minimum beginning.
    fn possible(self, points: &[Point], least: f64) -> Self {
        let (x, y) = match self {
            line if line.intercept < 0.0 => (0.0, 0.0),
            line if line.begin() < least => (least, 1.0),
            line => return line,
        };
        let square: f64 = points.iter().map(|it| it.weight * (it.rate - x).powi(2)).sum();
        let both = |it: &Point| it.weight * (it.rate - x) * (it.ratio - y);
        let slope = points.iter().map(both).sum::<f64>() / square;
        Self { slope, intercept: y - slope * x }
    }

    /// The distance of all points, those below its beginning from 1.
    fn distance(self, points: &[Point]) -> f64 {
        let away = |it: &Point| (it.ratio - self.at(it.rate).max(1.0)).abs() * it.weight.sqrt();
        points.iter().map(away).sum()
    }

    /// Where the line is 1.
    fn begin(self) -> f64 {
        (1.0 - self.intercept) / self.slope
    }
}

/// The weighted means and variances of points.
struct Moments {
    x: f64,
    y: f64,
    square: f64,
    both: f64,
}

fn moments(points: &[Point]) -> Moments {
    let sum = |what: &dyn Fn(&Point) -> f64| -> f64 {
        points.iter().map(|it| it.weight * what(it)).sum()
    };
    let weight = sum(&|_| 1.0);
    let (x, y) = (sum(&|it| it.rate) / weight, sum(&|it| it.ratio) / weight);
    let square = sum(&|it| (it.rate - x).powi(2));
    let both = sum(&|it| (it.rate - x) * (it.ratio - y));
    Moments { x, y, square, both }
}

/// The beginning of the rise above 1 of a line that fits all points, including those below A: the
/// least sum of absolute distances, so that outliers are tolerated. None if nothing is stretched.
fn broken_line(points: &[Point]) -> Option<f64> {
    let rates = || points.iter().map(|it| it.rate);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let distance = |begin: f64| {
        // The median of the slopes from there, weighted by distance.
        let seen = points.iter().filter(|it| it.rate > begin).map(|it| {
            let far = it.rate - begin;
            ((it.ratio - 1.0) / far, far * it.weight.sqrt())
        });
        let slope = weighted_median(seen)?.clamp(0.0, 1.0 / begin);
        let off = |it: &Point| (it.ratio - 1.0 - slope * (it.rate - begin).max(0.0)).abs();
        Some((slope, points.iter().map(|it| it.weight.sqrt() * off(it)).sum::<f64>()))
    };
    let none = points.iter().map(|it| it.weight.sqrt() * (it.ratio - 1.0).abs()).sum::<f64>();
    let candidates = (0..STEPS).filter_map(|step| {
        let begin = least / 4.0 + (most - least / 4.0) * f64::from(step) / f64::from(STEPS);
        distance(begin).map(|(slope, distance)| (begin, slope, distance))
    });
    let best = candidates.min_by(|a, b| a.2.total_cmp(&b.2))?;
    (best.1 > 0.0 && best.2 < none).then_some(best.0)
}

/// The weighted median.
fn weighted_median(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let mut values: Vec<(f64, f64)> = values.collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    let reaches = |(_, weight): &&(f64, f64)| {
        below += weight;
        below >= half
    };
    values.iter().find(reaches).map(|(value, _)| *value)
}

/// Finds the beginning of the line; none if there is no line.
///
/// Only the rates, compared with the turning point, decide which points are above A: selecting by
/// the ratios would be biased towards confirmation. The line does not begin below `least`.
pub(super) fn turning_point(
    points: &[Point],
    least: f64,
    above: impl Fn(&TurningPoint) -> f64,
) -> Option<Fit> {
    let mut limit = broken_line(points)?.max(least);
    let mut fits: Vec<(f64, Fit)> = Vec::new();
    for _ in 0..ROUNDS {
        let over: Vec<Point> = points.iter().filter(|it| it.rate >= limit).copied().collect();
        if over.len() < 3 {
            break;
        }
        let Some(line) = Line::through(&over, least) else { break };
        let fit = Fit::new(line, over, least);
        let next = above(&fit.turning);
        fits.push((fit.line.distance(points), fit));
        if next == limit {
            break;
        }
        limit = next;
    }
    // The last, if it is as near to all points as any: the iteration may have cycled.
    let nearest = fits.iter().map(|(distance, _)| *distance).fold(f64::INFINITY, f64::min);
    fits.into_iter().rfind(|(distance, _)| *distance <= nearest * NEAR).map(|(_, fit)| fit)
}

/// A turning point and its points.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub(super) turning: TurningPoint,
    line: Line,
    /// In the order of measurement.
    points: Vec<Point>,
    /// The minimum beginning.
    least: f64,
}

impl Fit {
    fn new(line: Line, points: Vec<Point>, least: f64) -> Self {
        let freedom = points.len().saturating_sub(2).max(1) as f64;
        let square: f64 = points.iter().map(|it| it.weight * line.away(it).powi(2)).sum();
        let variance = square / freedom;
        let longest = points.iter().map(|it| it.weight).fold(0.0, f64::max);
        let turning = TurningPoint {
            capacity: 1.0 / line.slope,
            available: line.begin(),
            spread: (variance / longest).sqrt() / line.slope,
            slope_error: (variance / moments(&points).square).sqrt() / line.slope,
            used: points.len(),
        };
        Self { turning, line, points, least }
    }

    /// The 95 % interval of A.
    ///
    /// A wild bootstrap (Wu 1986, Liu 1988; random signs, HC3 residuals: MacKinnon and White 1985),
    /// since trains at some rates may vary more than at others. Consecutive points get the same
    /// sign, because their cross traffic may be correlated (Cameron, Gelbach and Miller 2008). The
    /// interval is widened by the ratio of Student's distribution to the normal one, since few
    /// batches say little about their variance (Hesterberg 2015).
    pub(super) fn interval(&self, random: &mut fastrand::Rng) -> (f64, f64) {
        let Self { turning, line, points, .. } = self;
        let weight = points.iter().map(|it| it.weight).sum::<f64>();
        let Moments { x, square, .. } = moments(points);
        let away = |it: &Point| {
            let leverage = it.weight * (1.0 / weight + (it.rate - x).powi(2) / square);
            line.away(it) / (1.0 - leverage.min(0.9))
        };
        let away: Vec<f64> = points.iter().map(away).collect();
        let batch = ((points.len() as f64).sqrt() / BATCHES).max(1.0) as usize;
        let mut begins = Vec::with_capacity(RESAMPLED);
        let mut other = points.clone();
        for _ in 0..RESAMPLED {
            for (others, away) in other.chunks_mut(batch).zip(away.chunks(batch)) {
                let sign = if random.bool() { 1.0 } else { -1.0 };
                for (point, away) in others.iter_mut().zip(away) {
                    point.ratio = line.at(point.rate) + sign * away;
                }
            }
            // A falling line means that A may be anywhere below.
            begins
                .push(Line::through(&other, self.least).map_or(0.0, |line| line.begin().max(0.0)));
        }
        let begins = sorted(begins);
        let wider = WIDER * student(points.len().div_ceil(batch).saturating_sub(2)) / NORMAL_95;
        let away = |part| {
            let end = quantile(&begins, part).unwrap_or(turning.available);
            (end - turning.available).abs() * wider
        };
        // If the beginning of the line was limited from below, it gives no lower bound.
        let held = self.least > 0.0 && turning.available <= self.least * (1.0 + FINEST);
        let low = if held { 0.0 } else { (turning.available - away(0.025)).max(0.0) };
        (low, turning.available + away(0.975))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(rates: &[f64], of: impl Fn(f64) -> f64) -> Vec<Point> {
        rates.iter().map(|&rate| Point { rate, ratio: of(rate), weight: 1.0 }).collect()
    }

    #[test]
    fn a_line_begins_where_nothing_is_stretched_any_more() {
        let rates: Vec<f64> = (0..20).map(|at| 50.0 + 10.0 * f64::from(at)).collect();
        for (capacity, cross) in [(200.0, 100.0), (200.0, 0.0), (400.0, 330.0)] {
            let ratio = |rate: f64| ((rate + cross) / capacity).max(1.0);
            let points = points(&rates, ratio);
            let fit = turning_point(&points, 0.0, |turning| turning.available * 1.02).unwrap();
            assert!((fit.turning.available - (capacity - cross)).abs() < 1e-6, "{fit:?}");
            assert!((fit.turning.capacity - capacity).abs() < 1e-6, "{fit:?}");
        }
    }

    #[test]
    fn there_is_no_cross_traffic_below_none() {
        // The received rate is the same at all rates, except for noise that would make the line
        // steeper.
        let points =
            points(&[110.0, 120.0, 130.0, 140.0], |rate| rate / 100.0 + (rate - 125.0) * 1e-4);
        let turning = turning_point(&points, 0.0, |_| 100.0).unwrap().turning;
        assert_eq!(turning.available, turning.capacity);
        assert!((turning.available - 100.0).abs() < 0.3, "{turning:?}");
    }

    #[test]
    fn intervals_have_what_they_promise() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        for trains in [8, 12, 30] {
            let mut inside = 0;
            for seed in 0..300 {
                let rates = (0..trains).map(|at| if at % 4 == 0 { 160.0 } else { 120.0 });
                let rates: Vec<f64> = rates.collect();
                let mut points = points(&rates, |rate| (rate + 100.0) / 200.0);
                points.iter_mut().for_each(|it| it.ratio += 0.02 * normal());
                let Some(fit) = turning_point(&points, 0.0, |_| 100.0) else { continue };
                let (low, high) = fit.interval(&mut fastrand::Rng::with_seed(seed));
                inside += u32::from(low <= 100.0 && 100.0 <= high);
            }
            assert!((273..=299).contains(&inside), "{trains} trains: {inside} of 300");
        }
    }
}
