//! The interposed functions: a row each.

/// Passes all rows to another macro: a function and its aliases, its type, its replacement, and that
/// in words.
macro_rules! interposed {
    ($macro:ident) => {
        $macro! {
            [clock_gettime](clock: clockid_t, time: *mut timespec) -> c_int => clocks::clock_gettime,
                "`CLOCK_MONOTONIC` and `CLOCK_REALTIME` are read from the counter; all others are the kernel's";
            [gettimeofday __gettimeofday](time: *mut timeval, zone: *mut c_void) -> c_int => clocks::gettimeofday,
                "read from the counter, unless a time zone is asked for";
            [time](time: *mut time_t) -> time_t => clocks::time,
                "the second that `gettimeofday` shows";
            [timespec_get](time: *mut timespec, base: c_int) -> c_int => clocks::timespec_get,
                "`TIME_UTC` is read from the counter";
            [nanosleep __nanosleep](asked: *const timespec, left: *mut timespec) -> c_int => sleeps::nanosleep,
                "ends on time";
            [clock_nanosleep](clock: clockid_t, flags: c_int, asked: *const timespec, left: *mut timespec) -> c_int
                => sleeps::clock_nanosleep,
                "ends on time by `CLOCK_MONOTONIC`, and by `CLOCK_REALTIME` for a while; until a date, and by other clocks, it is the kernel's";
            [usleep](microseconds: c_uint) -> c_int => sleeps::usleep, "ends on time";
            [sleep](seconds: c_uint) -> c_uint => sleeps::sleep, "ends on time";
            [thrd_sleep](asked: *const timespec, left: *mut timespec) -> c_int => sleeps::thrd_sleep, "ends on time";
            [select __select](count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval)
                -> c_int => waits::select,
                "ends on time if there are no descriptors";
            [pselect](count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t)
                -> c_int => waits::pselect,
                "ends on time if there are no descriptors and no signal mask";
            [poll __poll](descriptors: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int => waits::poll,
                "ends on time if there are no descriptors";
            [__poll_chk](descriptors: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int => waits::poll_chk,
                "as `poll`, which it is in programs that are compiled with `_FORTIFY_SOURCE`";
            [ppoll](descriptors: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int => waits::ppoll,
                "ends on time if there are no descriptors and no signal mask";
            [__ppoll_chk](descriptors: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t)
                -> c_int => waits::ppoll_chk,
                "as `ppoll`";
            [clock_settime](clock: clockid_t, time: *const timespec) -> c_int => clocks::clock_settime,
                "the real call, after which the counter is compared with the clock anew";
            [settimeofday](time: *const timeval, zone: *const c_void) -> c_int => clocks::settimeofday,
                "the same";
            [adjtimex __adjtimex ntp_adjtime](changes: *mut timex) -> c_int => clocks::adjtimex,
                "the same";
            [clock_adjtime](clock: clockid_t, changes: *mut timex) -> c_int => clocks::clock_adjtime,
                "the same";
            [prctl](option: c_int, second: c_ulong, third: c_ulong, fourth: c_ulong, fifth: c_ulong) -> c_int => sandbox::prctl,
                "the real call; notes when the program puts itself into a sandbox";
        }
    };
}
pub(crate) use interposed;
