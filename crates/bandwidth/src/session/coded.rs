//! Times and arrivals encoded as differences, which are short numbers.

use serde::{Deserialize, Serialize};

use crate::train::Arrival;

/// The number of times in one message: whatever their values, they fit a frame of 1 MiB.
pub const PART: usize = 20_000;

/// Times, each as its difference from the previous one; the first from zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Deltas(Vec<i64>);

/// Arrivals: the packets, as runs of a first number and a count, and their times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrivals {
    runs: Vec<(u32, u32)>,
    at: Deltas,
}

/// Inconsistent arrivals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoArrivals {
    /// The numbers of packets and times differ.
    #[error("{packets} packets and {times} times")]
    Count {
        /// Packets.
        packets: u64,
        /// Times.
        times: usize,
    },
    /// A packet number beyond 32 bits.
    #[error("packets beyond 32 bits")]
    Packets,
}

impl Deltas {
    /// Encodes these times, in nanoseconds.
    #[must_use]
    pub fn of(times: impl IntoIterator<Item = i64>) -> Self {
        let mut before = 0_i64;
        // Wrapping, so that any two times have a difference; reading wraps back.
        Self(
            times
                .into_iter()
                .map(|at| at.wrapping_sub(std::mem::replace(&mut before, at)))
                .collect(),
        )
    }

    /// The times.
    #[must_use]
    pub fn times(&self) -> Vec<i64> {
        let mut at = 0_i64;
        self.0
            .iter()
            .map(|delta| {
                at = at.wrapping_add(*delta);
                at
            })
            .collect()
    }

    /// The number of times.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Arrivals {
    /// Encodes these arrivals.
    #[must_use]
    pub fn of(arrived: &[Arrival]) -> Self {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for it in arrived {
            match runs.last_mut() {
                Some((first, count)) if first.checked_add(*count) == Some(it.packet) => *count += 1,
                _ => runs.push((it.packet, 1)),
            }
        }
        Self { runs, at: Deltas::of(arrived.iter().map(|it| it.at_ns)) }
    }

    /// The arrivals.
    ///
    /// # Errors
    /// [`NoArrivals`] if packets and times are inconsistent.
    pub fn arrivals(&self) -> Result<Vec<Arrival>, NoArrivals> {
        let packets = self.runs.iter().map(|(_, count)| u64::from(*count)).sum();
        // Checked before expanding a run, which is short and may stand for many packets.
        if packets != self.at.len() as u64 {
            return Err(NoArrivals::Count { packets, times: self.at.len() });
        }
        if self.runs.iter().any(|(first, count)| first.checked_add(*count).is_none()) {
            return Err(NoArrivals::Packets);
        }
        let numbers = self.runs.iter().flat_map(|(first, count)| *first..*first + *count);
        let arrival = |(packet, at_ns)| Arrival { packet, at_ns };
        Ok(numbers.zip(self.at.times()).map(arrival).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arrivals_come_back_as_they_were(all in prop::collection::vec((0..u32::MAX, any::<i64>()), 0..200)) {
            let all: Vec<_> = all.into_iter().map(|(packet, at_ns)| Arrival { packet, at_ns }).collect();
            prop_assert_eq!(Arrivals::of(&all).arrivals(), Ok(all));
        }

        #[test]
        fn whatever_runs_are_told_no_more_is_made_of_them_than_times_came(
            runs in prop::collection::vec(any::<(u32, u32)>(), 0..20),
            at in prop::collection::vec(any::<i64>(), 0..20),
        ) {
            let told = Arrivals { runs, at: Deltas(at) };
            if let Ok(arrived) = told.arrivals() {
                prop_assert_eq!(arrived.len(), told.at.len());
            }
        }
    }

    #[test]
    fn a_train_that_came_whole_is_one_run_and_short_numbers() {
        let came = |packet: u32| Arrival { packet, at_ns: 1_000_000 + 40_000 * i64::from(packet) };
        let text =
            serde_json::to_string(&Arrivals::of(&(0..100).map(came).collect::<Vec<_>>())).unwrap();
        assert!(text.starts_with(r#"{"runs":[[0,100]],"at":[1000000,40000,40000,"#), "{text}");
    }

    #[test]
    fn a_part_fits_a_frame_whatever_its_numbers_are() {
        let worst = |packet: u32| Arrival {
            packet: u32::MAX - 2 * packet,
            at_ns: if packet.is_multiple_of(2) { i64::MIN / 2 } else { i64::MAX / 2 },
        };
        let all: Vec<_> = (0..PART as u32).map(worst).collect();
        let text = serde_json::to_string(&Arrivals::of(&all)).unwrap();
        assert!(text.len() + 200 < super::super::frame::LIMIT, "{} bytes", text.len());
    }
}
