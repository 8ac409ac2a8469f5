//! A high-resolution kernel timer, timed in its own hard interrupt, as in the paper: Adamczyk and
//! Chydzinski, "Achieving High Resolution Timer Events in Virtualized Environment", PLoS ONE, 2015.
//!
//! The module is `kernel/hrtimer` in the sources; this is the user side of its device.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};

use crate::events::source::{Asked, Failure, Measured};

/// The module's device.
const DEVICE: &str = "/dev/eigentime_hrtimer";

/// The numbers before the events: the count of events, of missed ones, and of those on another
/// processor.
const HEAD: usize = 3;

/// Requests events from the module, waits for them, and returns their times.
pub fn measure(asked: &Asked) -> Result<Measured, Failure> {
    let mut device = open()?;
    let wanted = format!("{} {} {}\n", asked.interval.as_nanos(), asked.count, asked.cpu);
    device.write_all(wanted.as_bytes()).map_err(refused)?;
    let mut bytes = Vec::new();
    device.read_to_end(&mut bytes)?;
    Ok(parse(&bytes, asked)?)
}

fn open() -> Result<File, Failure> {
    OpenOptions::new().read(true).write(true).open(DEVICE).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::unavailable(
            "needs the module eigentime_hrtimer, which the level vm brings along; for other kernels it is built from \
             kernel/hrtimer of the sources, with the headers of the kernel, and loaded by insmod",
        ),
        io::ErrorKind::PermissionDenied => Failure::unavailable(format!("needs root, to open {DEVICE}")),
        _ => format!("{DEVICE}: {error}").into(),
    })
}

/// Interprets an error from the module.
fn refused(error: io::Error) -> Failure {
    match error.raw_os_error() {
        Some(libc::ERANGE) => Failure::unavailable(
            "needs high-resolution timers, which are off here: the interval is less than the resolution of timers",
        ),
        Some(libc::EINVAL) => {
            format!("{DEVICE} does not take this interval, count or processor").into()
        }
        _ => format!("{DEVICE}: {error}").into(),
    }
}

/// Parses `struct result` of the module.
fn parse(bytes: &[u8], asked: &Asked) -> Result<Measured, String> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    let [recorded, missed, elsewhere, at @ ..] = numbers else {
        return Err(format!("{DEVICE} gave {} bytes, fewer than {}", bytes.len(), HEAD * 8));
    };
    let [recorded, missed, elsewhere] =
        [recorded, missed, elsewhere].map(|it| u64::from_ne_bytes(*it));
    if !rest.is_empty() || at.len() as u64 != recorded {
        return Err(format!("{DEVICE} spoke of {recorded} events, and gave {} bytes", bytes.len()));
    }
    let mut degradation = Vec::new();
    if elsewhere != 0 {
        degradation
            .push(format!("{elsewhere} events came on another processor than {}", asked.cpu));
    }
    Ok(Measured {
        at_ns: at.iter().map(|it| i64::from_ne_bytes(*it)).collect(),
        missed,
        degradation,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ASKED: Asked = Asked { interval: Duration::from_micros(50), count: 3, cpu: 1 };

    fn bytes(numbers: &[i64]) -> Vec<u8> {
        numbers.iter().flat_map(|it| it.to_ne_bytes()).collect()
    }

    #[test]
    fn what_the_module_gives_is_read() {
        let it = parse(&bytes(&[2, 1, 0, 700, 100_650]), &ASKED).unwrap();
        assert_eq!(it, Measured { at_ns: vec![700, 100_650], missed: 1, degradation: vec![] });
        let it = parse(&bytes(&[1, 2, 1, 149_000]), &ASKED).unwrap();
        assert_eq!(it.degradation, ["1 events came on another processor than 1"]);
    }

    #[test]
    fn less_or_more_than_it_speaks_of_is_an_error() {
        for wrong in [&[][..], &[1, 0], &[2, 0, 0, 700], &[0, 3, 0, 700]] {
            assert!(parse(&bytes(wrong), &ASKED).is_err(), "{wrong:?}");
        }
        let mut odd = bytes(&[1, 2, 0, 700]);
        odd.push(0);
        assert!(parse(&odd, &ASKED).is_err());
    }

    #[test]
    fn events_come_or_it_is_said_why_not() {
        let cpu = u32::try_from(rustix::thread::sched_getcpu()).expect("a processor");
        match measure(&Asked { cpu, count: 200, ..ASKED }) {
            Ok(it) => assert_eq!(it.at_ns.len() as u64 + it.missed, 200),
            Err(Failure::Unavailable { why }) => eigentime_harness::skip(why),
            Err(Failure::Failed(error)) => panic!("{error}"),
        }
    }
}
