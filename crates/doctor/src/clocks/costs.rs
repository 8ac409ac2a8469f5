//! The costs of reading clocks, through the vDSO and the kernel.
//!
//! Batches of both kinds and of the bare loop alternate, so that a disturbance affects all of them;
//! the median of many short ones excludes those that were interrupted.

use std::time::Duration;

use eigentime_measure::oracle::{self, Served};
use eigentime_measure::quantile::median;
use eigentime_measure::stopwatch::Stopwatch;
use eigentime_measure::vdso::Vdso;

use super::calls::{self, Batch, CALLS, Call, Expected};
use crate::machine::Unknown;
use crate::{Finding, Machine, Options, Verdict};

/// The minimum length of a batch: a thousand times that of reading the stopwatch twice.
const BATCH: Duration = Duration::from_micros(100);

/// The minimum and maximum number of batches for the median.
const FEWEST: usize = 5;
const MOST: usize = 1000;

/// The maximum number of calls in a batch.
const LONGEST: u64 = 1 << 20;

/// The results for a call.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The call.
    pub call: &'static Call,
    /// What serves it in the vDSO's function.
    pub served: Result<Served, Unknown>,
    /// What serves it in the C library's function.
    pub by_libc: Result<Served, Unknown>,
    /// The cost of the vDSO's function, in nanoseconds.
    pub vdso_ns: Result<f64, Unknown>,
    /// The cost of the system call, in nanoseconds.
    pub system_call_ns: Result<f64, Unknown>,
}

impl Cost {
    /// The cost ratio of the system call to the vDSO.
    pub fn ratio(&self) -> Option<f64> {
        let served = self.served == Ok(Served::Vdso);
        let (vdso, call) = (self.vdso_ns.as_ref().ok()?, self.system_call_ns.as_ref().ok()?);
        (served && *vdso > 0.0).then(|| call / vdso)
    }

    /// Whether it makes an unnecessary system call.
    fn falls_back(&self) -> bool {
        let expected = matches!(self.call.expected, Expected::Vdso | Expected::VdsoOfLate);
        expected && matches!(self.served, Ok(Served::SystemCall | Served::Failed(_)))
    }

    fn is_common(&self) -> bool {
        self.call.expected == Expected::Vdso
    }
}

/// Determines what serves each call, and measures its cost, for this long each.
pub fn measure(each: Duration) -> Vec<Cost> {
    let vdso = Vdso::find();
    let asked: Vec<_> = CALLS.iter().map(|call| call.asked).collect();
    let served = vdso.as_ref().map_err(Clone::clone).and_then(|vdso| oracle::ask(vdso, &asked));
    let by_libc = oracle::ask_libc(&asked);
    let stopwatch = Stopwatch::new();
    let rows = CALLS.iter().enumerate().map(|(at, call)| {
        let of = |all: &Result<Vec<Served>, Unknown>| all.clone().map(|all| all[at]);
        let (vdso_ns, system_call_ns) = match (&stopwatch, &vdso) {
            (None, _) => {
                let why = || Unknown::because("this timeline's clocks cannot measure it");
                (Err(why()), Err(why()))
            }
            (Some(stopwatch), vdso) => costs(*stopwatch, vdso, call, each),
        };
        Cost { call, served: of(&served), by_libc: of(&by_libc), vdso_ns, system_call_ns }
    });
    rows.collect()
}

type Nanos = Result<f64, Unknown>;

fn costs(
    stopwatch: Stopwatch,
    vdso: &Result<Vdso, Unknown>,
    call: &Call,
    each: Duration,
) -> (Nanos, Nanos) {
    let by_vdso = vdso.clone().and_then(|vdso| {
        let missing = || Unknown::because("the vDSO has no such function");
        calls::by_vdso(&vdso, call.asked).ok_or_else(missing)
    });
    let by_call = calls::by_system_call(call.asked).map_err(|error| {
        Unknown::because(
            error.map_or("there is no such system call".into(), |it| refusal(call, &it)),
        )
    });
    // A call that the kernel refuses has no meaningful cost, either way.
    let by_vdso = match (&by_call, call.expected) {
        (Err(why), Expected::Kernel(_)) => by_vdso.and(Err(why.clone())),
        _ => by_vdso,
    };
    let (mut whys, mut batches) = ([const { None }; 2], [const { None }; 2]);
    for (at, batch) in [by_vdso, by_call].into_iter().enumerate() {
        match batch {
            Ok(batch) => batches[at] = Some(batch),
            Err(why) => whys[at] = Some(why),
        }
    }
    let [by_vdso, by_call] = batches;
    let [by_vdso, by_call, per_loop] =
        medians(stopwatch, each, [by_vdso, by_call, Some(calls::nothing())]);
    let per_loop = per_loop.unwrap_or_default();
    let [one, other] = [(by_vdso, 0), (by_call, 1)].map(|(ns, at)| match (ns, whys[at].take()) {
        (Some(ns), _) => Ok((ns - per_loop).max(0.0)),
        (None, why) => Err(why.unwrap_or_else(|| Unknown::because("it was not measured"))),
    });
    (one, other)
}

/// The description of a kernel's refusal of a call.
fn refusal(call: &Call, error: &std::io::Error) -> String {
    match (error.raw_os_error(), call.clock.ends_with("_ALARM")) {
        (Some(libc::EINVAL), true) => "no alarm timer: no RTC here".into(),
        (Some(libc::EPERM), true) => "needs CAP_WAKE_ALARM".into(),
        (Some(libc::EINVAL), false) => "this kernel has no such clock".into(),
        (Some(libc::EPERM | libc::EACCES), false) => "not allowed".into(),
        (Some(libc::ENOSYS), _) => "this kernel has no such call".into(),
        _ => error.to_string(),
    }
}

/// The median cost of a call for each kind of batch, in nanoseconds.
fn medians<const KINDS: usize>(
    stopwatch: Stopwatch,
    each: Duration,
    mut batches: [Option<Batch>; KINDS],
) -> [Option<f64>; KINDS] {
    let counts = batches.each_mut().map(|batch| match batch {
        Some(batch) => enough(stopwatch, batch),
        None => 0,
    });
    let mut samples = [const { Vec::new() }; KINDS];
    let began = stopwatch.start();
    for round in 0..MOST {
        if round >= FEWEST && began.elapsed() >= each {
            break;
        }
        for ((batch, count), samples) in batches.iter_mut().zip(counts).zip(&mut samples) {
            if let Some(batch) = batch {
                samples.push(time(stopwatch, batch, count).as_nanos() as f64 / count as f64);
            }
        }
    }
    samples.map(median)
}

/// The number of calls that last as long as a batch.
fn enough(stopwatch: Stopwatch, batch: &mut Batch) -> u64 {
    let mut count = 1;
    while count < LONGEST && time(stopwatch, batch, count) < BATCH {
        count *= 2;
    }
    count
}

fn time(stopwatch: Stopwatch, batch: &mut Batch, count: u64) -> Duration {
    let began = stopwatch.start();
    batch(count);
    began.elapsed()
}

/// Checks the cost of reading each clock.
pub fn look(_: &Machine, options: &Options) -> Finding {
    tell(&measure(options.costs))
}

/// The finding.
fn tell(costs: &[Cost]) -> Finding {
    let fallen: Vec<_> = costs.iter().filter(|cost| cost.falls_back()).collect();
    let (common, rare): (Vec<_>, Vec<_>) = fallen.iter().partition(|cost| cost.is_common());
    let unknown = costs.iter().find_map(|cost| cost.served.as_ref().err());
    let differ: Vec<_> = costs.iter().filter(|cost| libc_differs(cost)).collect();
    let names =
        |some: &[&&Cost]| some.iter().map(|cost| cost.call.name()).collect::<Vec<_>>().join(", ");
    let mut finding = match (unknown, common.is_empty(), rare.is_empty()) {
        (Some(why), ..) => Finding::unknown("who serves the clocks", why),
        (None, false, _) => Finding::new(
            Verdict::Warning,
            format!("{} fall back to system calls{}", names(&common), each_takes(&common)),
        ),
        (None, true, false) => Finding::note(format!(
            "{} fall back to system calls{}; the vDSO serves the other clocks",
            names(&rare),
            each_takes(&rare),
        )),
        (None, true, true) => {
            Finding::ok(format!("the vDSO serves every clock that it should{}", gain(costs)))
        }
    };
    finding = finding.line(row("", "by", "vDSO", "syscall", "by syscall instead"));
    finding.lines.extend(costs.iter().map(line));
    for cost in &differ {
        let how = match &cost.by_libc {
            Ok(Served::Vdso) => "makes no system call",
            _ => "makes a system call",
        };
        let name = cost.call.function;
        finding = finding.line(format!("this program's C library {how} for {name}"));
    }
    facts_of(finding, costs)
}

fn libc_differs(cost: &Cost) -> bool {
    matches!((&cost.served, &cost.by_libc), (Ok(one), Ok(other)) if one != other)
}

/// `: 560 ns each`.
fn each_takes(some: &[&&Cost]) -> String {
    let taken: Vec<_> = some.iter().filter_map(|cost| cost.vdso_ns.clone().ok()).collect();
    median(taken).map_or_else(String::new, |ns| format!(": {} each", nanos(ns)))
}

/// The cost of falling back, for the clock that is read most.
fn gain(costs: &[Cost]) -> String {
    let cost = costs.iter().find(|cost| cost.call.name() == "CLOCK_MONOTONIC");
    let told = cost.and_then(|cost| {
        let (ns, ratio) = (cost.vdso_ns.as_ref().ok()?, cost.ratio()?);
        let percent = 100.0 * (1.0 - 1.0 / ratio);
        Some(format!(
            ": CLOCK_MONOTONIC in {}; a system call takes {ratio:.1} times as long \
             (the vDSO saves {percent:.0} %)",
            nanos(*ns),
        ))
    });
    told.unwrap_or_default()
}

/// The table row of a call.
fn line(cost: &Cost) -> String {
    let cell = |ns: &Nanos| ns.as_ref().map_or_else(|_| "-".into(), |ns| nanos(*ns));
    let remark = match (cost.call.expected, &cost.served, cost.ratio()) {
        (Expected::Kernel(why), Ok(Served::SystemCall), _) => match &cost.system_call_ns {
            Ok(_) => format!("by design: {why}"),
            Err(refused) => format!("by design; {refused}"),
        },
        (_, Ok(Served::Vdso), Some(ratio)) => format!("{ratio:.1} times"),
        (_, Ok(Served::SystemCall), _) => "falls back".into(),
        (_, Ok(Served::Failed(errno)), _) => {
            format!("refused: {}", refusal(cost.call, &std::io::Error::from_raw_os_error(*errno)))
        }
        (_, Err(_), _) | (_, Ok(Served::Vdso), None) => String::new(),
    };
    let served = match cost.served {
        Ok(Served::Vdso) => "vDSO",
        Ok(Served::SystemCall) => "kernel",
        Ok(Served::Failed(_)) => "nobody",
        Err(_) => "unknown",
    };
    row(cost.call.name(), served, &cell(&cost.vdso_ns), &cell(&cost.system_call_ns), &remark)
}

fn row(name: &str, served: &str, vdso: &str, call: &str, remark: &str) -> String {
    // Fits a terminal of 80 columns, except for remarks that are sentences.
    let row = format!("{name:24} {served:7} {vdso:>8} {call:>8}  {remark}");
    row.trim_end().to_owned()
}

/// A readable cost.
fn nanos(ns: f64) -> String {
    match ns {
        ..10.0 => format!("{ns:.1} ns"),
        ..10_000.0 => format!("{ns:.0} ns"),
        _ => format!("{:.1} µs", ns / 1000.0),
    }
}

/// The facts of each call, for programs.
fn facts_of(finding: Finding, costs: &[Cost]) -> Finding {
    costs.iter().fold(finding, |finding, cost| {
        let call = &[("function", cost.call.function), ("clock", cost.call.clock)];
        let by = |by| [call[0], call[1], ("by", by)];
        let fallen =
            |served: &Result<Served, Unknown>| served.clone().map(|served| served != Served::Vdso);
        let by_design = matches!(cost.call.expected, Expected::Kernel(_));
        let finding = finding
            .fact_of("clock_falls_back", call, fallen(&cost.served))
            .fact_of("clock_falls_back_in_libc", call, fallen(&cost.by_libc))
            .fact_of("clock_falls_back_by_design", call, by_design)
            .fact_of("clock_read_ns", &by("vdso"), cost.vdso_ns.clone())
            .fact_of("clock_read_ns", &by("system_call"), cost.system_call_ns.clone());
        match cost.ratio() {
            Some(ratio) => finding.fact_of("clock_fallback_cost_ratio", call, ratio),
            None => finding,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made-up costs: the vDSO serves some calls, by name.
    fn made_up(serves: impl Fn(&Call) -> bool) -> Vec<Cost> {
        let cost = |call: &'static Call| {
            let by_vdso = serves(call);
            let served = Ok(if by_vdso { Served::Vdso } else { Served::SystemCall });
            Cost {
                call,
                by_libc: served.clone(),
                served,
                vdso_ns: Ok(if by_vdso { 20.0 } else { 130.0 }),
                system_call_ns: Ok(120.0),
            }
        };
        CALLS.iter().map(cost).collect()
    }

    fn is_by_design(call: &Call) -> bool {
        matches!(call.expected, Expected::Kernel(_))
    }

    #[test]
    fn what_falls_back_by_design_is_no_warning() {
        let finding = tell(&made_up(|call| !is_by_design(call)));
        assert_eq!(finding.verdict, Verdict::Ok);
        assert!(finding.found.contains("6.0 times as long (the vDSO saves 83 %)"), "{finding:?}");
        let by_design = finding.lines.iter().filter(|line| line.contains("by design"));
        assert!(by_design.count() >= 4);
    }

    #[test]
    fn common_clocks_that_fall_back_are_a_warning() {
        let coarse = |call: &Call| call.clock.ends_with("COARSE") || call.function == "time";
        let finding = tell(&made_up(coarse));
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.found.starts_with("CLOCK_REALTIME, CLOCK_MONOTONIC, "), "{finding:?}");
        assert!(finding.found.ends_with("fall back to system calls: 130 ns each"), "{finding:?}");
        assert!(!finding.found.contains("CPUTIME"));
    }

    #[test]
    fn clocks_that_old_kernels_do_not_know_are_worth_a_note() {
        let old = |call: &Call| call.expected == Expected::Vdso;
        let finding = tell(&made_up(old));
        assert_eq!(finding.verdict, Verdict::Note);
        assert!(finding.found.starts_with("CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME"));
    }

    #[test]
    fn without_an_oracle_nothing_is_guessed() {
        let mut costs = made_up(|_| true);
        for cost in &mut costs {
            cost.served = Err(Unknown::because("a seccomp filter is refused: EINVAL"));
        }
        let finding = tell(&costs);
        assert_eq!(finding.verdict, Verdict::Note);
        assert!(finding.found.contains("unknown: a seccomp filter is refused"), "{finding:?}");
        assert!(costs.iter().all(|cost| cost.ratio().is_none()));
    }

    #[test]
    fn a_library_that_goes_its_own_way_is_told() {
        let mut costs = made_up(|call| !is_by_design(call));
        costs.last_mut().unwrap().by_libc = Ok(Served::SystemCall);
        let finding = tell(&costs);
        let told = "this program's C library makes a system call for clock_getres";
        assert!(finding.lines.iter().any(|line| line == told), "{finding:?}");
    }

    #[test]
    fn this_machine_is_measured() {
        let costs = measure(Duration::from_millis(2));
        assert_eq!(costs.len(), CALLS.len());
        for cost in &costs {
            for ns in [&cost.vdso_ns, &cost.system_call_ns].into_iter().flatten() {
                assert!(ns.is_finite() && *ns >= 0.0, "{cost:?}");
            }
        }
        let coarse = &costs[5];
        if let (Ok(Served::Vdso), Some(ratio)) = (&coarse.served, coarse.ratio()) {
            assert!(ratio > 2.0, "a system call is no cheaper than a few instructions: {coarse:?}");
        }
    }

    #[test]
    fn costs_are_read_easily() {
        assert_eq!([1.96, 130.4, 12_345.0].map(nanos), ["2.0 ns", "130 ns", "12.3 µs"]);
    }
}
