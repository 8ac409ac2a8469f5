use std::fmt;

/// The source that the clock reads, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// The processor's counter, which is also the kernel's clocksource.
    Counter,
    /// The kernel's clock, through the vDSO if available.
    Kernel(Reason),
}

/// Why the processor's counter is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// This is a clock for tests.
    Mock,
    /// The processor does not declare that its counter always runs at one rate.
    NotInvariant,
    /// The kernel uses another clocksource.
    Clocksource(Name),
    /// The kernel does not report its clocksource: sysfs cannot be read here.
    NoVerdict,
    /// The kernel cannot be asked for its clocksource: no descriptor or memory is left.
    Unasked,
    /// The program lives in a timeline, whose time is not the counter's.
    Timeline,
    /// The counter did not keep pace with the kernel's clock in the first measurement.
    NoRate,
    /// The counter is being measured for the first time, by the code that this has interrupted.
    Measuring,
    /// The program began to read the clock when the counter was not trusted; its instants have been
    /// nanoseconds of the kernel's clock since.
    Begun,
    /// The machine was just suspended; the counter is being measured again.
    Suspended,
    /// The virtual machine was just moved or restored; the counter is being measured again.
    Moved,
    /// The counter and the kernel's clock diverged; the counter is being measured again.
    Jumped,
    /// The counters of two processors disagree.
    Warp,
    /// The kernel provided no memory for the clock's state.
    NoMemory,
}

/// The name of a clocksource, truncated if necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name([u8; Name::LENGTH]);

impl Name {
    const LENGTH: usize = 24;

    pub(crate) fn new(name: &[u8]) -> Self {
        let mut bytes = [0; Self::LENGTH];
        for (place, byte) in bytes.iter_mut().zip(name) {
            *place = *byte;
        }
        Self(bytes)
    }

    /// The name, without anything that is not UTF-8.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(Self::LENGTH);
        self.0[..end].utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }
}

/// The size of an encoded trust in words.
pub const WORDS: usize = 1 + Name::LENGTH / 8;

/// The reasons without a name, indexed by their number less 2.
const PLAIN: [Reason; 13] = [
    Reason::Mock,
    Reason::NotInvariant,
    Reason::NoVerdict,
    Reason::Unasked,
    Reason::Timeline,
    Reason::NoRate,
    Reason::Measuring,
    Reason::Begun,
    Reason::Suspended,
    Reason::Moved,
    Reason::Jumped,
    Reason::Warp,
    Reason::NoMemory,
];

impl Trust {
    pub(crate) fn to_words(self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        match self {
            Self::Counter => {}
            Self::Kernel(Reason::Clocksource(Name(bytes))) => {
                words[0] = 1;
                for (word, bytes) in words[1..].iter_mut().zip(bytes.chunks_exact(8)) {
                    *word = u64::from_le_bytes(std::array::from_fn(|byte| bytes[byte]));
                }
            }
            Self::Kernel(reason) => {
                let number = PLAIN.iter().position(|plain| *plain == reason);
                words[0] = number.map_or(0, |number| number as u64 + 2);
            }
        }
        words
    }

    pub(crate) fn from_words(words: [u64; WORDS]) -> Self {
        match words[0] {
            0 => Self::Counter,
            1 => {
                let mut bytes = [0; Name::LENGTH];
                for (place, word) in bytes.chunks_exact_mut(8).zip(&words[1..]) {
                    place.copy_from_slice(&word.to_le_bytes());
                }
                Self::Kernel(Reason::Clocksource(Name(bytes)))
            }
            number => Self::Kernel(PLAIN[number as usize - 2]),
        }
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counter => f.write_str("the processor's counter, as the kernel does"),
            Self::Kernel(reason) => write!(f, "the kernel's clock: {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mock => "this is a clock for tests",
            Self::NotInvariant => "the processor does not say that its counter has one rate",
            Self::Clocksource(name) => {
                return write!(f, "the kernel's clocksource is '{}'", name.as_str());
            }
            Self::NoVerdict => {
                "/sys does not say what the kernel keeps time by (is sysfs mounted here?)"
            }
            Self::Unasked => "no descriptor or memory is left to ask what the kernel keeps time by",
            Self::Timeline => "the program lives in a timeline of its own",
            Self::NoRate => "the counter did not move with the kernel's clock",
            Self::Measuring => "the counter is being measured for the first time",
            Self::Begun => "the program began on it, and its instants stay what they are",
            Self::Suspended => "the machine was suspended; the counter is being measured again",
            Self::Moved => "the machine was moved or restored; the counter is being measured again",
            Self::Jumped => "the counter and the kernel's clock have parted; it is measured again",
            Self::Warp => "the counters of two processors disagree",
            Self::NoMemory => "the kernel gave no memory to keep the counter's record in",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_trust() {
        let name = Reason::Clocksource(Name::new(b"hyperv_clocksource_tsc_page_x"));
        let reasons = PLAIN.into_iter().chain([name]).map(Trust::Kernel);
        for trust in reasons.chain([Trust::Counter]) {
            assert_eq!(Trust::from_words(trust.to_words()), trust);
        }
    }

    #[test]
    fn a_reason_names_the_clocksource() {
        let trust = Trust::Kernel(Reason::Clocksource(Name::new(b"kvm-clock")));
        assert_eq!(
            trust.to_string(),
            "the kernel's clock: the kernel's clocksource is 'kvm-clock'"
        );
    }
}
