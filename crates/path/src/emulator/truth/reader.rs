//! Reads the truth from its file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::flow::{Count, Flow};
use super::super::stalls::{Punctuality, Stall};
use super::super::way::Settings;
use super::{Direction, Line, Span, VERSION};
use eigentime_bandwidth::BitRate;

/// The truth of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// The settings from its first end to the second, and back.
    pub settings: [Settings; 2],
    /// When it began, on CLOCK_MONOTONIC in nanoseconds.
    pub from_ns: i64,
    /// The consecutive spans of each direction.
    pub spans: HashMap<Direction, Vec<Span>>,
    /// The emulator's stalls, in order.
    pub stalls: Vec<Stall>,
    /// The punctuality, and what was still under way, if the file is complete: the emulator may
    /// still be running, or have been killed.
    pub end: Option<(Punctuality, [Count; 2])>,
}

/// Why a file contains no truth.
#[derive(Debug, thiserror::Error)]
pub enum NoTruth {
    /// The file cannot be read.
    #[error("cannot read the truth of a path in {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A line is invalid.
    #[error("line {line} of {} is none of a path's truth: {error}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The parse error.
        error: serde_json::Error,
    },
    /// The file does not begin with a valid line.
    #[error(
        "{} does not begin with a path's truth of version {VERSION}: eigentime-path --truth writes \
         it",
        path.display()
    )]
    Beginning {
        /// The file.
        path: PathBuf,
    },
}

/// A time for which the truth is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the path's truth is not known from {from_ns} to {to_ns} ns: it is from {known_from_ns} to \
     {known_to_ns} ns of CLOCK_MONOTONIC"
)]
pub struct Unknown {
    /// The requested start.
    pub from_ns: i64,
    /// The requested end.
    pub to_ns: i64,
    /// The known start.
    pub known_from_ns: i64,
    /// The known end.
    pub known_to_ns: i64,
}

impl Truth {
    /// Reads the truth from a file. An incomplete last line is ignored.
    ///
    /// # Errors
    /// If the file contains none.
    pub fn read(path: &Path) -> Result<Self, NoTruth> {
        let fail = |error| NoTruth::File { path: path.to_owned(), error };
        let beginning = || NoTruth::Beginning { path: path.to_owned() };
        let mut file = BufReader::new(File::open(path).map_err(fail)?);
        let mut truth: Option<Self> = None;
        let mut text = String::new();
        for line in 1.. {
            text.clear();
            if file.read_line(&mut text).map_err(fail)? == 0 || !text.ends_with('\n') {
                break;
            }
            let line = match serde_json::from_str(&text) {
                Ok(line) => line,
                Err(_) if line == 1 => return Err(beginning()),
                Err(error) => return Err(NoTruth::Line { path: path.to_owned(), line, error }),
            };
            match (&mut truth, line) {
                (None, Line::Path { version: VERSION, from_ns, forward, back }) => {
                    truth = Some(Self {
                        settings: [*forward, *back],
                        from_ns,
                        spans: HashMap::new(),
                        stalls: Vec::new(),
                        end: None,
                    });
                }
                (Some(truth), Line::Span(span)) => {
                    truth.spans.entry(span.way).or_default().push(span);
                }
                (Some(truth), Line::Stall(stall)) => truth.stalls.push(stall),
                (Some(truth), Line::End { punctuality, on_its_way }) => {
                    truth.end = Some((punctuality, on_its_way));
                }
                (None, _) | (Some(_), Line::Path { .. }) => return Err(beginning()),
            }
        }
        truth.ok_or_else(beginning)
    }

    /// The available bandwidth of the forward direction between two times on CLOCK_MONOTONIC, in
    /// nanoseconds: its capacity less the cross traffic that arrived.
    ///
    /// # Errors
    /// If the path was not running all the time.
    pub fn available(&self, from_ns: i64, to_ns: i64) -> Result<BitRate, Unknown> {
        self.available_on(Direction::Forward, from_ns, to_ns)
    }

    /// The available bandwidth of either direction.
    ///
    /// # Errors
    /// If the path was not running all the time.
    pub fn available_on(
        &self,
        way: Direction,
        from_ns: i64,
        to_ns: i64,
    ) -> Result<BitRate, Unknown> {
        let spans = self.within(way, from_ns, to_ns)?;
        let time = (to_ns - from_ns) as f64;
        let carries = |it: &Span| {
            let common = (it.to_ns.min(to_ns) - it.from_ns.max(from_ns)) as f64;
            let crossed = it.flow.cross.bytes as f64 * 8e9 / (it.to_ns - it.from_ns) as f64;
            (it.flow.capacity.bits() - crossed) * common
        };
        let available = spans.iter().map(carries).sum::<f64>() / time;
        Ok(BitRate::per_second(available.max(0.0)))
    }

    /// The total of all events in a direction.
    #[must_use]
    pub fn total(&self, way: Direction) -> Flow {
        let mut total = Flow::default();
        for span in self.spans.get(&way).into_iter().flatten() {
            total += span.flow;
        }
        total
    }

    /// How long the emulator did nothing between two times.
    #[must_use]
    pub fn stalled(&self, from_ns: i64, to_ns: i64) -> Duration {
        let common =
            |stall: &Stall| (stall.to_ns.min(to_ns) - stall.from_ns.max(from_ns)).max(0) as u64;
        Duration::from_nanos(self.stalls.iter().map(common).sum())
    }

    /// The largest lateness of a sent packet, in the spans of these times.
    ///
    /// # Errors
    /// If the path was not running all the time.
    pub fn latest(&self, way: Direction, from_ns: i64, to_ns: i64) -> Result<Duration, Unknown> {
        let spans = self.within(way, from_ns, to_ns)?;
        let latest = spans.iter().map(|it| it.flow.latest_ns).max();
        Ok(Duration::from_nanos(latest.unwrap_or(0)))
    }

    /// The spans that overlap the time between the two.
    fn within(&self, way: Direction, from_ns: i64, to_ns: i64) -> Result<&[Span], Unknown> {
        let spans = self.spans.get(&way).map_or(&[][..], Vec::as_slice);
        let known_from_ns = spans.first().map_or(self.from_ns, |it| it.from_ns);
        let known_to_ns = spans.last().map_or(self.from_ns, |it| it.to_ns);
        if from_ns >= to_ns || from_ns < known_from_ns || to_ns > known_to_ns {
            return Err(Unknown { from_ns, to_ns, known_from_ns, known_to_ns });
        }
        let begin = spans.partition_point(|it| it.to_ns <= from_ns);
        let end = spans.partition_point(|it| it.from_ns < to_ns);
        Ok(&spans[begin..end])
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::super::way::{self, Limit};
    use super::super::Writer;
    use super::*;

    fn settings() -> way::Settings {
        way::Settings {
            capacity: BitRate::mega(100.0),
            changes: vec![(Duration::from_secs(1), BitRate::mega(50.0))],
            queue: Limit::Time(Duration::from_millis(20)),
            delay: Duration::from_millis(1),
            loss: 0.01,
            reorder: 0.0,
            reorder_by: Duration::ZERO,
            mtu: Some(1500),
            cross: Some("pareto:10M:1.7".parse().unwrap()),
            seed: 3,
        }
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("et-truth-{name}-{}.jsonl", std::process::id()))
    }

    /// Three spans of a millisecond at 100 Mbit/s, which is 12,500 bytes, with cross traffic of
    /// zero, a half and a quarter of that.
    fn write(path: &Path) {
        let writer = Writer::create(path).unwrap();
        let both = || Box::new(settings());
        writer.put(Line::Path {
            version: VERSION,
            from_ns: 1_000_000,
            forward: both(),
            back: both(),
        });
        for (span, crossed, late) in [(1, 0, 10), (2, 6250, 900), (3, 3125, 20)] {
            let cross = Count { packets: 5, bytes: crossed };
            let capacity = BitRate::mega(100.0);
            let flow = Flow { capacity, cross, latest_ns: late, ..Flow::default() };
            let (from_ns, to_ns) = (span * 1_000_000, (span + 1) * 1_000_000);
            writer.put(Line::Span(Span { way: Direction::Forward, from_ns, to_ns, flow }));
        }
        writer.put(Line::Stall(Stall { from_ns: 2_400_000, to_ns: 2_900_000 }));
        writer.finish().unwrap();
    }

    #[test]
    fn what_was_available_is_the_capacity_less_what_crossed() {
        let path = path("available");
        write(&path);
        let truth = Truth::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(truth.settings, [settings(), settings()]);
        for (from, to, mega) in [
            (1_000_000, 2_000_000, 100.0),
            (2_000_000, 3_000_000, 50.0),
            (1_000_000, 4_000_000, 75.0),
            (1_500_000, 2_500_000, 75.0),
            (2_250_000, 2_750_000, 50.0),
        ] {
            let available = truth.available(from, to).unwrap().bits() / 1e6;
            assert!((available - mega).abs() < 1e-6, "{available} and not {mega}");
        }
        for (from, to) in [(0, 2_000_000), (2_000_000, 4_000_001), (3_000_000, 3_000_000)] {
            let error = truth.available(from, to).unwrap_err();
            assert_eq!((error.known_from_ns, error.known_to_ns), (1_000_000, 4_000_000));
        }
        assert!(truth.available_on(Direction::Back, 1_000_000, 2_000_000).is_err());
        assert_eq!(truth.stalled(0, 2_500_000), Duration::from_micros(100));
        assert_eq!(truth.stalled(2_900_000, 9_000_000), Duration::ZERO);
        let latest = truth.latest(Direction::Forward, 2_500_000, 3_500_000);
        assert_eq!(latest, Ok(Duration::from_nanos(900)));
        assert_eq!(truth.end, None, "it has not ended");
    }

    #[test]
    fn a_line_that_is_being_written_is_left_out_and_others_are_told() {
        let path = path("broken");
        write(&path);
        let whole = fs::read_to_string(&path).unwrap();
        let lines = whole.lines().count();
        fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        assert_eq!(Truth::read(&path).unwrap().stalls, []);
        for (text, expected) in [
            (String::new(), "does not begin with a path's truth".into()),
            ("{\"line\":\"stall\"}\n".into(), "does not begin".into()),
            (whole.replacen("\"version\":1", "\"version\":2", 1), "does not begin".into()),
            (format!("{whole}so\n"), format!("line {} of", lines + 1)),
            (format!("{whole}{whole}"), "does not begin".into()),
        ] {
            fs::write(&path, text).unwrap();
            let error = Truth::read(&path).unwrap_err().to_string();
            assert!(error.contains::<&str>(expected.as_ref()), "{error}");
        }
        fs::remove_file(&path).unwrap();
        let error = Truth::read(&path).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }
}
