//! Properties of this host's clocks and kernel.

use std::mem::offset_of;

use eigentime_timeline::{CLOCKS, Clock, ClockId, HostInstant, Nanos, Timespec};
use eigentime_vdso::{KERNEL_FUNCTION_NAMES, KernelFunctions};
use object::{Object, ObjectSection, ObjectSymbol};

use crate::arch::{find_returns, find_syscall};
use crate::maps::mappings;

/// Reads a clock as the calling process sees it.
#[must_use]
pub fn read(id: ClockId) -> HostInstant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(id.0, &raw mut time) };
    HostInstant(Timespec { sec: time.tv_sec, nsec: time.tv_nsec }.nanos())
}

/// Reads every clock that a timeline maps at the same moment, within a few nanoseconds, by
/// comparing each with the monotonic clock.
#[must_use]
pub fn read_at_once() -> [HostInstant; CLOCKS] {
    /// Number of readings; the one with the shortest bracket counts.
    const TRIES: usize = 8;
    let ahead = Clock::ALL.map(|clock| {
        let tries = (0..TRIES).map(|_| {
            let (before, then, after) =
                (read(ClockId::MONOTONIC), read(clock.id()), read(ClockId::MONOTONIC));
            let bracket = after.since(before);
            (bracket, then.since(before.after(Nanos(bracket.0 / 2))))
        });
        tries.min().map_or(Nanos::ZERO, |(_, ahead)| ahead)
    });
    let now = read(ClockId::MONOTONIC);
    let mut all = ahead.map(|ahead| now.after(ahead));
    all[Clock::Monotonic as usize] = now;
    // These two differ by whole seconds.
    let (wall, tai) = (all[Clock::Wall as usize], &mut all[Clock::Tai as usize]);
    *tai = wall.after(whole_seconds(tai.since(wall)));
    all
}

/// How far the clocks of this process's time namespace are ahead of the host's.
#[must_use]
pub fn namespace_offsets() -> [Nanos; CLOCKS] {
    let text = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let offset = |name: &str| {
        let mut words = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
        let [sec, nsec] = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
        Some(Timespec { sec, nsec }.nanos())
    };
    Clock::ALL.map(|clock| {
        let found = match clock {
            Clock::Wall | Clock::Tai => None,
            Clock::Monotonic | Clock::Raw => offset("monotonic"),
            Clock::Boottime => offset("boottime"),
        };
        found.unwrap_or(Nanos::ZERO)
    })
}

/// A span without the time that passed between two readings.
#[must_use]
pub fn whole_seconds(span: Nanos) -> Nanos {
    const SECOND: i64 = 1_000_000_000;
    Nanos::from_secs((span.0 + SECOND / 2).div_euclid(SECOND))
}

/// Indexes into KERNEL_FUNCTION_NAMES.
const CLOCK_GETTIME: usize = 0;
const GETTIMEOFDAY: usize = 2;

/// The kernel's vDSO, identical in every 64-bit process of this boot except for its address.
#[derive(Clone, Copy, Debug)]
pub struct KernelVdso {
    /// Offsets of its functions; zero for missing ones.
    functions: [u64; KERNEL_FUNCTION_NAMES.len()],
    ticks_ahead: i64,
    /// Offset of a system call instruction.
    syscall: u64,
    /// Offset of its code, and the code.
    code: (u64, &'static [u8]),
    /// As mapped in this process.
    bytes: &'static [u8],
}

impl KernelVdso {
    /// Examines the vDSO of the calling process.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        // SAFETY: getauxval has no preconditions.
        let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
        if base == 0 {
            return None;
        }
        let image = mapped_at(base)?;
        let file = object::File::parse(image).ok()?;
        let offset = |name: &str| {
            let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name));
            symbol.map_or(0, |symbol| symbol.address())
        };
        let functions = KERNEL_FUNCTION_NAMES.map(offset);
        let text = file.section_by_name(".text")?;
        let (start, size) = text.file_range()?;
        let code = image.get(start as usize..(start + size) as usize)?;
        let within = find_syscall(code)?;
        Some(Self {
            functions,
            ticks_ahead: ticks_ahead(),
            syscall: text.address() + within as u64,
            code: (text.address(), code),
            bytes: image,
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &'static [u8] {
        self.bytes
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The address of a system call instruction in a vDSO mapped at `base`.
    #[must_use]
    pub fn syscall_at(&self, base: u64) -> u64 {
        base + self.syscall
    }

    /// The functions of a vDSO mapped at `base`; `missing` replaces missing ones, and `raw_clock`
    /// the one that reads the clock.
    #[must_use]
    pub fn functions_at(&self, base: u64, missing: u64, raw_clock: u64) -> KernelFunctions {
        let at = |offset: u64, otherwise: u64| if offset == 0 { otherwise } else { base + offset };
        let [_, clock_getres, gettimeofday, getcpu, getrandom, sgx_enter_enclave] =
            self.functions.map(|offset| at(offset, missing));
        KernelFunctions {
            clock_gettime: at(self.functions[0], raw_clock),
            clock_getres,
            gettimeofday,
            getcpu,
            getrandom,
            sgx_enter_enclave,
            ticks_ahead: self.ticks_ahead,
            ..KernelFunctions::default()
        }
    }

    /// The addresses of the return instructions of the function that contains `address`, in a vDSO
    /// mapped at `base`, and of those in the code before all functions, where it may continue.
    #[must_use]
    pub fn returns_from(&self, base: u64, address: u64) -> Vec<u64> {
        let (start, code) = self.code;
        let function = |at: u64| self.functions.iter().filter(|begin| **begin <= at).max();
        let concerned = [function(address - base), None];
        let returns = find_returns(code).map(|offset| start + offset);
        returns.filter(|at| concerned.contains(&function(*at))).map(|at| base + at).collect()
    }

    /// The index in [`KernelFunctions`] of the function that locates the vDSO: one that remains the
    /// kernel's when the image reads the clock itself.
    #[must_use]
    pub fn landmark(&self) -> usize {
        self.found_by().0
    }

    /// Its index in [`KernelFunctions`], and its offset in the vDSO.
    fn found_by(&self) -> (usize, u64) {
        match self.functions[GETTIMEOFDAY] {
            0 => (offset_of!(KernelFunctions, clock_gettime), self.functions[CLOCK_GETTIME]),
            at => (offset_of!(KernelFunctions, gettimeofday), at),
        }
    }

    /// The base of the vDSO whose [`Self::landmark`] is at `function`.
    #[must_use]
    pub fn base_of(&self, function: u64) -> u64 {
        function.wrapping_sub(self.found_by().1)
    }

    /// Whether `address` is in the vDSO whose [`Self::landmark`] is at `function`.
    #[must_use]
    pub fn holds(&self, function: u64, address: u64) -> bool {
        address.wrapping_sub(self.base_of(function)) < self.size()
    }
}

/// How far the clock that `times` counts is ahead of CLOCK_MONOTONIC.
fn ticks_ahead() -> i64 {
    /// The ticks that programs see are always hundredths of a second (USER_HZ).
    const NANOS_PER_TICK: i64 = 10_000_000;
    // SAFETY: without a buffer only the result is returned.
    let ticks = unsafe { libc::times(std::ptr::null_mut()) };
    ticks * NANOS_PER_TICK - read(ClockId::MONOTONIC).as_nanos()
}

/// The bytes of the mapping that starts at `base`.
fn mapped_at(base: u64) -> Option<&'static [u8]> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mapping = mappings(&maps).into_iter().find(|it| it.range.start == base)?;
    let length = (mapping.range.end - base) as usize;
    // SAFETY: the kernel maps the vDSO readable and does not change it, and it stays mapped as long
    // as the process runs.
    Some(unsafe { std::slice::from_raw_parts(base as *const u8, length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vdso_is_found_when_the_image_reads_the_clock_by_itself() {
        const BASE: u64 = 0x7f00_0000_0000;
        const RAW: u64 = 0x7e90_0000_1234;
        let kernel = KernelVdso::of_this_process().unwrap();
        let mut functions = kernel.functions_at(BASE, RAW, RAW);
        functions.clock_gettime = RAW;
        assert_eq!(kernel.landmark(), offset_of!(KernelFunctions, gettimeofday));
        assert!(kernel.holds(functions.gettimeofday, BASE + kernel.syscall));
        assert!(!kernel.holds(functions.gettimeofday, BASE - 1));
        assert!(!kernel.holds(functions.gettimeofday, BASE + kernel.size()));
    }
}
