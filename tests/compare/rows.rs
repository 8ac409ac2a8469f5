//! The cases of every row of the table of calls.

use std::sync::OnceLock;

use eigentime_calls::{Kind, ROWS};

use crate::case::Case;
use crate::{options, reads, settings, situations, timers, waits, watched};

/// Where the cases of a row come from.
#[derive(Clone, Copy)]
enum Source {
    /// It waits: all its variants come into all situations.
    Waits,
    Timer,
    Own(fn() -> Vec<Case>),
}

use Source::{Own, Timer, Waits};

/// By the number of the call.
const SOURCES: [(u32, Source); 45] = [
    (202, Waits), // futex
    (232, Waits), // epoll_wait
    (281, Waits), // epoll_pwait
    (7, Waits),   // poll
    (271, Waits), // ppoll
    (23, Waits),  // select
    (270, Waits), // pselect6
    (35, Waits),  // nanosleep
    (230, Waits), // clock_nanosleep
    (441, Waits), // epoll_pwait2
    (128, Waits), // rt_sigtimedwait
    (220, Waits), // semtimedop
    (242, Waits), // mq_timedsend
    (243, Waits), // mq_timedreceive
    (299, Waits), // recvmmsg
    (208, Waits), // io_getevents
    (333, Waits), // io_pgetevents
    (449, Waits), // futex_waitv
    (455, Waits), // futex_wait
    (426, Waits), // io_uring_enter
    (54, Own(options::set)),
    (55, Own(options::get)),
    (223, Timer),
    (224, Timer),
    (286, Timer),
    (287, Timer),
    (38, Timer),
    (36, Timer),
    (37, Own(timers::alarms)),
    (228, Own(reads::clock_gettime)),
    (96, Own(reads::gettimeofday)),
    (201, Own(reads::time)),
    (100, Own(reads::times)),
    (99, Own(reads::sysinfo)),
    (227, Own(settings::clock_settime)),
    (164, Own(settings::settimeofday)),
    (159, Own(settings::adjtimex)),
    (305, Own(settings::clock_adjtime)),
    (425, Own(watched::io_uring_setup)),
    (56, Own(watched::clone)),
    (115, Own(watched::getgroups)),
    (317, Own(watched::seccomp)),
    (157, Own(watched::prctl)),
    (13, Own(watched::rt_sigaction)),
    (101, Own(watched::ptrace)),
];

/// A row without cases does not build, unless its call only blocks: that is made as it is.
const _: () = {
    let (mut row, mut translated) = (0, 0);
    while row < ROWS.len() {
        if !matches!(ROWS[row].call.kind, Kind::Block) {
            let mut at = 0;
            while at < SOURCES.len() && SOURCES[at].0 != ROWS[row].call.nr.0 {
                at += 1;
            }
            assert!(at < SOURCES.len(), "a row of the table of calls has no cases");
            translated += 1;
        }
        row += 1;
    }
    assert!(translated == SOURCES.len(), "cases of a call that is not in the table");
};

/// All cases, in the order of the table.
pub fn all() -> &'static [Case] {
    static ALL: OnceLock<Vec<Case>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Vec::new();
        for row in ROWS.iter().filter(|row| row.call.kind != Kind::Block) {
            let nr = row.call.nr.0;
            let (_, source) = SOURCES.iter().find(|(of, _)| *of == nr).expect("asserted above");
            let before = all.len();
            // What bounds other calls has these, besides its own.
            all.extend(waits::of(nr).into_iter().flat_map(situations::cases));
            match source {
                Waits => {}
                Timer => all.extend(timers::cases(nr)),
                Own(make) => all.extend(make()),
            }
            assert!(all.len() > before, "{} has no cases", row.name);
        }
        all.push(waits::after_its_time());
        all.extend(waits::all().into_iter().filter_map(situations::looping));
        all
    })
}
