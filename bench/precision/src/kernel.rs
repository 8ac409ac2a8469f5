//! The kernel calls that are measured, or used to measure, as safe functions.
//!
//! They go through the C library, as in most programs.

use std::io;
use std::mem::size_of;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC in nanoseconds, through the vDSO: the reference for all others here.
#[inline(always)]
pub fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Any kernel clock, in nanoseconds.
#[inline(always)]
pub fn clock(id: libc::clockid_t) -> u64 {
    let mut time = timespec(0);
    // SAFETY: the call may write to `time`, a timespec.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_nsec as u64
}

/// Processor time of the calling thread, in nanoseconds.
pub fn thread_cpu() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// `nanosleep`, relative.
pub fn nanosleep(nanos: u64) {
    // SAFETY: the time is valid to read; the rest is not requested.
    unsafe { libc::nanosleep(&timespec(nanos), std::ptr::null_mut()) };
}

/// `clock_nanosleep` until CLOCK_MONOTONIC shows this.
pub fn nanosleep_until(nanos: u64) {
    // SAFETY: as above.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &timespec(nanos),
            std::ptr::null_mut(),
        )
    };
}

/// `usleep`, in its unit, rounded down.
pub fn usleep(nanos: u64) {
    // SAFETY: takes a number.
    unsafe { libc::usleep((nanos / 1_000) as libc::useconds_t) };
}

/// A timer as a descriptor, read blockingly.
pub struct Timerfd(libc::c_int);

impl Timerfd {
    /// A disarmed timer on CLOCK_MONOTONIC.
    pub fn new() -> io::Result<Self> {
        // SAFETY: it takes numbers, and the returned descriptor is owned here.
        let descriptor = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(descriptor)) }
    }

    /// Fires once after `nanos`, and waits for that.
    pub fn sleep(&self, nanos: u64) {
        self.set(0, nanos.max(1), 0);
        self.wait();
    }

    /// Fires first when CLOCK_MONOTONIC shows `start`, and every `period` nanoseconds from then on.
    pub fn start(&self, start: u64, period: u64) {
        self.set(libc::TFD_TIMER_ABSTIME, start, period);
    }

    /// Waits until it has fired: the number of times since the last wait.
    pub fn wait(&self) -> u64 {
        let mut fired = 0_u64;
        // SAFETY: reads eight bytes into eight bytes.
        unsafe { libc::read(self.0, (&raw mut fired).cast(), size_of::<u64>()) };
        fired
    }

    fn set(&self, flags: libc::c_int, value: u64, interval: u64) {
        let setting =
            libc::itimerspec { it_interval: timespec(interval), it_value: timespec(value) };
        // SAFETY: the setting is valid to read; the old one is not requested.
        unsafe { libc::timerfd_settime(self.0, flags, &setting, std::ptr::null_mut()) };
    }
}

impl Drop for Timerfd {
    fn drop(&mut self) {
        // SAFETY: the descriptor is owned here and not used afterwards.
        unsafe { libc::close(self.0) };
    }
}

/// Keeps the calling thread, and those it starts, on one CPU.
pub fn pin(cpu: usize) -> io::Result<()> {
    let said = |error| io::Error::other(format!("CPU {cpu}: {error}"));
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(said(io::ErrorKind::InvalidInput.into()));
    }
    // SAFETY: a set of CPUs is plain bits; the macros write only into it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        set
    };
    // SAFETY: the set is valid, with the stated size.
    succeeded(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) })
        .map_err(said)
}

/// Keeps the calling thread off one CPU, if it may run on another: otherwise it disturbs what runs
/// there.
pub fn leave(cpu: usize) {
    // SAFETY: a set of CPUs is plain bits; the macros and the calls write only into it, and the
    // calls are given its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if cpu >= libc::CPU_SETSIZE as usize
            || libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0
        {
            return;
        }
        libc::CPU_CLR(cpu, &mut set);
        // With no CPU left it fails, and nothing changes.
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Lets the calling thread run on all CPUs.
pub fn everywhere() -> io::Result<()> {
    // SAFETY: a set of CPUs is plain bits, all of which may be set, with the stated size.
    succeeded(unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (0..libc::CPU_SETSIZE as usize).for_each(|cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    })
}

/// Makes the calling thread a SCHED_FIFO thread.
pub fn realtime(priority: i32) -> io::Result<()> {
    // Some C libraries have more in it, which this policy does not use. SAFETY: the structure is
    // plain numbers.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority;
    // SAFETY: the parameter is valid to read.
    succeeded(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) })
}

/// Makes the calling thread a SCHED_DEADLINE thread, on any processor.
pub fn deadline(runtime: u64, period: u64) -> io::Result<()> {
    /// As in sched_setattr(2).
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    everywhere()?;
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_DEADLINE as u32,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime,
        deadline: period,
        period,
    };
    // SAFETY: the attributes have the kernel's layout, and are valid to read.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    succeeded(result as libc::c_int)
}

/// The number of involuntary context switches of the calling thread.
pub fn involuntary_switches() -> u64 {
    // SAFETY: the structure is plain numbers, and the call may write all of it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_nivcsw as u64
}

/// Removes all capabilities from the calling thread only, as for an ordinary user.
pub fn give_up_privileges() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    // _LINUX_CAPABILITY_VERSION_3: two sets of three words, see capset(2).
    let header = Header { version: 0x2008_0522, pid: 0 };
    let none = [0_u32; 6];
    // SAFETY: both structures have the kernel's layout, and are valid to read.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    succeeded(result as libc::c_int)
}

/// Makes the kernel end this process when its parent has ended.
pub fn end_with_parent() -> io::Result<()> {
    // SAFETY: it takes numbers.
    succeeded(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })
}

/// Lets the kernel drop a file's pages from memory.
pub fn forget_cached(file: libc::c_int) {
    // SAFETY: it takes numbers; on an invalid descriptor it does nothing.
    unsafe { libc::posix_fadvise(file, 0, 0, libc::POSIX_FADV_DONTNEED) };
}

fn succeeded(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanos / NANOS_PER_SECOND) as _,
        tv_nsec: (nanos % NANOS_PER_SECOND) as libc::c_long,
    }
}
