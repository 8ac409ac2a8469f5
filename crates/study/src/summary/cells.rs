//! The formatting of a row's numbers.

use super::{Numbers, Row};

/// A unit of time.
#[derive(Clone, Copy)]
pub struct Unit {
    pub ns: f64,
    pub name: &'static str,
}

/// A section of the table.
pub struct Kind {
    /// The first word of its measurements.
    pub word: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The form for wide output.
    pub wide: Form,
    /// The form for narrow output.
    pub narrow: Form,
}

/// The numbers shown for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Mean, as in the papers: for averages, or values on a grid.
    Mean,
    /// For long-tailed distributions.
    Tail,
    /// The same without the tail.
    Median,
}

impl Form {
    /// The heading of the numbers.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Mean => "mean ±SD (median)",
            Self::Tail => "median ±MAD / p99 / max",
            Self::Median => "median ±MAD",
        }
    }
}

impl Unit {
    /// A unit suitable for these lengths: for the smallest of them, so that no digit is lost.
    pub fn of(lengths: impl Iterator<Item = f64>) -> Self {
        let least = lengths.map(f64::abs).fold(f64::INFINITY, f64::min);
        match least {
            1e7..f64::INFINITY => Self { ns: 1e6, name: "ms" },
            1e4..1e7 => Self { ns: 1e3, name: "µs" },
            _ => Self { ns: 1.0, name: "ns" },
        }
    }

    /// With this many significant digits, and at most two decimals.
    fn number(self, ns: f64, figures: i32) -> String {
        let value = ns / self.ns;
        let before = if value.abs() < 1.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
        let behind = (figures - before).clamp(0, 2) as usize;
        // A number that rounds to zero has no sign.
        let text = format!("{value:.behind$}");
        match text.trim_matches(['-', '0', '.']).is_empty() {
            true => text.trim_start_matches('-').to_owned(),
            false => text,
        }
    }
}

/// A single length: 90 ns, 4 ms.
pub fn length(ns: f64) -> String {
    let unit = match ns.abs() {
        1e6.. => Unit { ns: 1e6, name: "ms" },
        1e3.. => Unit { ns: 1e3, name: "µs" },
        _ => Unit { ns: 1.0, name: "ns" },
    };
    let number = unit.number(ns, 3);
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => &number,
    };
    format!("{number} {}", unit.name)
}

impl Row {
    /// Its numbers and their qualifications. Whether levels differ is decided by `eigentime
    /// report`.
    pub(super) fn cell(&self, unit: Unit, form: Form) -> String {
        let mut parts = Vec::new();
        match &self.numbers {
            Some(numbers) => parts.push(self.written(numbers, unit, form)),
            None => parts.push(match self.came.unwrap_or_default() {
                1 => "1 event,".to_owned(),
                came => format!("{came} events,"),
            }),
        }
        if self.is_unexpected_system_call() {
            parts.push("system call".to_owned());
        }
        if self.missed > 0 || self.numbers.is_none() {
            parts.push(format!("{} missed", self.missed));
        }
        parts.join(" ")
    }

    fn written(&self, it: &Numbers, unit: Unit, form: Form) -> String {
        let value = |ns| unit.number(ns, 3);
        let spread = |ns| unit.number(ns, 2);
        let [mean, median] = [it.mean_ns, it.median_ns].map(value);
        match form {
            Form::Mean => format!("{mean} ±{} ({median})", spread(it.sd_ns)),
            Form::Median => format!("{median} ±{}", spread(it.mad_ns)),
            Form::Tail => {
                let corrected = self.corrected_p99_ns.map(|ns| format!(" ({})", value(ns)));
                let (corrected, mad) = (corrected.unwrap_or_default(), spread(it.mad_ns));
                let [p99, max] = [it.p99_ns, it.max_ns].map(value);
                format!("{median} ±{mad} / {p99}{corrected} / {max}")
            }
        }
    }

    /// Whether it is a vDSO call served by the kernel.
    fn is_unexpected_system_call(&self) -> bool {
        let is_of_vdso = self.measurement.starts_with("calls vdso_")
            || self.measurement.starts_with("read clock_gettime,");
        is_of_vdso && self.served.iter().any(|served| served == "system_call")
    }
}
