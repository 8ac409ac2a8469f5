//! The summary of a path at its end.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::flow::{Count, Flow};
use super::host::{End, Offload};
use super::stalls::{Punctuality, STALL_NS};
use eigentime_bandwidth::BitRate;

/// What a path has carried, and how punctually.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Its ends.
    pub ends: [EndSummary; 2],
    /// How long it was running, in seconds.
    pub seconds: f64,
    /// The direction from the first end to the second.
    pub forward: WaySummary,
    /// The opposite direction.
    pub back: WaySummary,
    /// The punctuality of the emulator.
    pub punctuality: Punctuality,
    /// How long it let others run, when that cost nothing.
    pub paused: Duration,
    /// Whether it ran with a real-time priority.
    pub is_realtime: bool,
    /// The requests to the system that were not granted, with the reasons.
    pub not_granted: Vec<String>,
}

/// The summary of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WaySummary {
    /// The total traffic.
    pub flow: Flow,
    /// What was still under way.
    pub on_its_way: Count,
    /// The average rate of what came through.
    pub sent_per_second: BitRate,
}

/// The summary of an end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndSummary {
    /// The end.
    pub end: End,
    /// The offloads that were disabled, and are enabled again.
    pub switched_off: Vec<Offload>,
    /// Packets that the interface dropped after the path had given them to it: the receiving host
    /// was too slow. None if the interface no longer reports it.
    pub dropped: Option<u64>,
}

impl Summary {
    /// Effects of the host rather than the path on packets; there should be none.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles = Vec::new();
        let mut tell = |count: u64, what: &str| {
            if count > 0 {
                troubles.push(format!("{count} packets {what}"));
            }
        };
        for (way, to) in [(&self.forward, &self.ends[1]), (&self.back, &self.ends[0])] {
            let to = &to.end;
            tell(
                way.flow.missed,
                &format!("to {to} found no room in the host: not the path's loss"),
            );
            tell(way.flow.refused.packets, &format!("were not taken by the kernel for {to}"));
        }
        for end in &self.ends {
            let end_name = &end.end;
            let dropped = end.dropped.unwrap_or(0);
            tell(dropped, &format!("were dropped behind {end_name}: its host is too slow"));
        }
        troubles
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.ends.each_ref().map(|it| &it.end);
        writeln!(f, "{first} - {second}: up for {:.3} s", self.seconds)?;
        for (way, from, to) in [(&self.forward, first, second), (&self.back, second, first)] {
            writeln!(f, "{from} -> {to}: {way}")?;
        }
        writeln!(f, "{}", self.punctuality)?;
        for trouble in self.troubles() {
            writeln!(f, "beware: {trouble}")?;
        }
        for request in &self.not_granted {
            writeln!(f, "{request}")?;
        }
        Ok(())
    }
}

impl fmt::Display for WaySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flow { arrived, sent, .. } = &self.flow;
        let rate = self.sent_per_second;
        write!(f, "{} packets came, {} left ({rate})", arrived.packets, sent.packets)?;
        for (count, what) in [
            (self.flow.dropped, "dropped by the queue"),
            (self.flow.oversize, "longer than the MTU"),
            (self.flow.lost, "lost"),
            (self.on_its_way, "still on their way"),
            (self.flow.cross, "of cross traffic"),
            (self.flow.cross_dropped, "of cross traffic dropped"),
        ] {
            if count.packets > 0 {
                write!(f, ", {} {what}", count.packets)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Punctuality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |ns: u64| ns as f64 / 1e3;
        write!(
            f,
            "late by {:.1} µs (p50), {:.1} µs (p99), {:.1} µs at most; ",
            micros(self.late_p50_ns),
            micros(self.late_p99_ns),
            micros(self.late_max_ns)
        )?;
        let least = STALL_NS / 1000;
        match self.stalls {
            0 => write!(f, "no stall above {least} µs"),
            1 => write!(f, "1 stall of {:.3} ms", self.longest_stall_ns as f64 / 1e6),
            stalls => write!(
                f,
                "{stalls} stalls above {least} µs, {:.3} ms in all, {:.3} ms at most",
                self.stalled_ns as f64 / 1e6,
                self.longest_stall_ns as f64 / 1e6
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let flow = Flow {
            arrived: Count { packets: 100, bytes: 150_000 },
            sent: Count { packets: 90, bytes: 135_000 },
            dropped: Count { packets: 10, bytes: 15_000 },
            ..Flow::default()
        };
        let forward = WaySummary {
            flow,
            on_its_way: Count::default(),
            sent_per_second: BitRate::mega(300.0),
        };
        let end = |text: &str| EndSummary {
            end: text.parse().unwrap(),
            switched_off: Vec::new(),
            dropped: Some(0),
        };
        Summary {
            ends: [end("left:a"), end("b")],
            seconds: 1.5,
            forward,
            back: WaySummary { flow: Flow { missed: 3, ..Flow::default() }, ..forward },
            punctuality: Punctuality {
                late_p50_ns: 200,
                late_p99_ns: 5_100,
                late_max_ns: 70_000,
                stalls: 2,
                stalled_ns: 130_000,
                longest_stall_ns: 70_000,
            },
            paused: Duration::ZERO,
            is_realtime: false,
            not_granted: vec!["no real-time priority 10: because".into()],
        }
    }

    #[test]
    fn a_summary_tells_what_was_the_path_and_what_was_the_host() {
        assert_eq!(
            summary().to_string(),
            "left:a - b: up for 1.500 s\n\
             left:a -> b: 100 packets came, 90 left (300.0 Mbit/s), 10 dropped by the queue\n\
             b -> left:a: 0 packets came, 0 left (300.0 Mbit/s)\n\
             late by 0.2 µs (p50), 5.1 µs (p99), 70.0 µs at most; 2 stalls above 50 µs, 0.130 ms in \
             all, 0.070 ms at most\n\
             beware: 3 packets to left:a found no room in the host: not the path's loss\n\
             no real-time priority 10: because\n"
        );
    }
}
