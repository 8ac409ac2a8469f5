//! Statistics of values.

use eigentime_measure::quantile::{interpolated, nearest_rank, sorted};

/// Values of a measurement, in nanoseconds.
#[derive(Debug, Default)]
pub struct Values {
    /// Known individually.
    points: Vec<f64>,
    /// Known only by their interval: a counter has steps, a histogram has buckets.
    cells: Vec<Cell>,
    /// The separately added parts.
    parts: Vec<Part>,
}

/// A number of values in an interval, uniformly distributed.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub low: f64,
    pub high: f64,
    pub count: u64,
}

/// Values that were added together.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub count: u64,
    pub mean: f64,
    pub sd: f64,
    pub max: f64,
}

/// Their statistics, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    pub count: u64,
    pub mean: f64,
    /// Uncorrected.
    pub sd: f64,
    pub median: f64,
    /// The median absolute deviation from the median.
    pub mad: f64,
    pub p99: f64,
    pub max: f64,
}

impl Values {
    /// Adds individual values.
    pub fn add_points(&mut self, points: impl Iterator<Item = f64>) {
        let begin = self.points.len();
        self.points.extend(points);
        let new = &self.points[begin..];
        if !new.is_empty() {
            let count = new.len() as f64;
            let mean = new.iter().sum::<f64>() / count;
            let sd = (new.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count).sqrt();
            let max = new.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            self.parts.push(Part { count: new.len() as u64, mean, sd, max });
        }
    }

    /// Adds values by their cells, with the statistics of all of them.
    pub fn add_cells(&mut self, cells: impl Iterator<Item = Cell>, all: Part) {
        self.cells.extend(cells.filter(|cell| cell.count > 0));
        if all.count > 0 {
            self.parts.push(all);
        }
    }

    /// The individual values.
    pub fn points(&self) -> &[f64] {
        &self.points
    }

    /// The statistics of all values; None without any.
    pub fn numbers(self) -> Option<Numbers> {
        let count: u64 = self.parts.iter().map(|part| part.count).sum();
        if count == 0 {
            return None;
        }
        let mean_of = |of: &dyn Fn(&Part) -> f64| {
            self.parts.iter().map(|part| of(part) * part.count as f64).sum::<f64>() / count as f64
        };
        let mean = mean_of(&|part| part.mean);
        let sd = mean_of(&|part| part.sd.powi(2) + (part.mean - mean).powi(2)).sqrt();
        let max = self.parts.iter().map(|part| part.max).fold(f64::NEG_INFINITY, f64::max);
        let [median, mad, p99] = match self.cells.is_empty() {
            true => of_points(self.points)?,
            false => of_cells(&self.cells),
        };
        // A cell extends half a step above the observed value.
        Some(Numbers { count, mean, sd, median, mad, p99: p99.min(max), max })
    }
}

/// Median, MAD and 99th percentile.
fn of_points(points: Vec<f64>) -> Option<[f64; 3]> {
    let points = sorted(points);
    let median = interpolated(&points, 0.5)?;
    let distances = sorted(points.iter().map(|point| (point - median).abs()));
    Some([median, interpolated(&distances, 0.5)?, nearest_rank(&points, 0.99)?])
}

/// The 99th percentile of individual values; None without any.
pub fn p99_of(points: Vec<f64>) -> Option<f64> {
    nearest_rank(&sorted(points), 0.99)
}

/// The same for values in cells: the median of grouped data.
fn of_cells(cells: &[Cell]) -> [f64; 3] {
    let all: f64 = cells.iter().map(|cell| cell.count as f64).sum();
    // The number of values not above this.
    let below = |value: f64| -> f64 {
        let part = |cell: &Cell| match cell.high > cell.low {
            true => ((value - cell.low) / (cell.high - cell.low)).clamp(0.0, 1.0),
            false => f64::from(u8::from(cell.low <= value)),
        };
        cells.iter().map(|cell| part(cell) * cell.count as f64).sum()
    };
    let low = cells.iter().map(|cell| cell.low).fold(f64::INFINITY, f64::min);
    let high = cells.iter().map(|cell| cell.high).fold(f64::NEG_INFINITY, f64::max);
    let median = solve([low, high], all / 2.0, &below);
    let near = |distance: f64| below(median + distance) - below(median - distance);
    let mad = solve([0.0, high - low], all / 2.0, &near);
    [median, mad, solve([low, high], all * 0.99, &below)]
}

/// Solves an increasing function for a value, by bisection.
fn solve([mut low, mut high]: [f64; 2], wanted: f64, function: &dyn Fn(f64) -> f64) -> f64 {
    /// More than the digits of a double.
    const HALVINGS: u32 = 64;
    for _ in 0..HALVINGS {
        let between = f64::midpoint(low, high);
        match function(between) < wanted {
            true => low = between,
            false => high = between,
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(points: &[f64]) -> Numbers {
        let mut values = Values::default();
        // Adding them in two parts makes no difference.
        values.add_points(points[..1].iter().copied());
        values.add_points(points[1..].iter().copied());
        values.numbers().unwrap()
    }

    #[test]
    fn numbers_are_those_of_all_values() {
        let it = of(&[4.0, 1.0, 2.0, 1.0]);
        assert_eq!((it.count, it.mean, it.median, it.mad, it.max), (4, 2.0, 1.5, 0.5, 4.0));
        assert!((it.sd - 1.5_f64.sqrt()).abs() < 1e-12);
        assert_eq!(of(&[5.0, 5.0, 7.0]).median, 5.0);
        assert_eq!(Values::default().numbers(), None);
    }

    #[test]
    fn one_that_is_far_off_moves_the_mean_and_not_the_median() {
        let mut points: Vec<_> = (0..999).map(|it| 300.0 + f64::from(it % 3)).collect();
        points.push(1e6);
        let it = of(&points);
        assert!(it.mean > 1_000.0 && it.sd > 30_000.0, "{it:?}");
        assert_eq!((it.median, it.mad, it.p99, it.max), (301.0, 1.0, 302.0, 1e6));
    }

    #[test]
    fn the_median_of_a_counter_with_steps_is_between_them() {
        // Steps of 10 ns: a quarter of the values at 20, three quarters at 30.
        let mut values = Values::default();
        let cell = |at: f64, count| Cell { low: at - 5.0, high: at + 5.0, count };
        let all = Part { count: 400, mean: 27.5, sd: 4.0, max: 30.0 };
        values.add_cells([cell(20.0, 100), cell(30.0, 300), cell(40.0, 0)].into_iter(), all);
        let it = values.numbers().unwrap();
        // 100 are below 25, 100 of 300 more are needed.
        assert!((it.median - (25.0 + 10.0 / 3.0)).abs() < 1e-9, "{it:?}");
        assert_eq!((it.count, it.mean, it.sd, it.max), (400, 27.5, 4.0, 30.0));
        assert!(it.mad > 2.0 && it.mad < 5.0, "{it:?}");
        assert_eq!(it.p99, it.max, "none was seen that is greater");
    }
}
