//! Waits for completions: Linux AIO and io_uring. Only timeouts are submitted.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::arch::{PAGE, SYS_IO_PGETEVENTS};
use crate::bench::{Answer, Bench, Ends, Failure, Needed};
use crate::interface::Interface;
use crate::message::Outcome;
use crate::sys::{NULL, SIGSET_BYTES, call, descriptor, timespec};
use crate::timelines::Under;

use super::{HOST_WAIT, host_wait};

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    Interface::probe("io_getevents", io_getevents).of(&["io_getevents"]),
    Interface::probe("io_pgetevents", io_pgetevents).of(&["io_pgetevents"]),
    Interface::probe("io_uring_enter", io_uring_enter).of(&["io_uring_enter"]),
    Interface::probe("io_uring_enter, absolute", io_uring_enter_absolute).of(&["io_uring_enter"]),
    Interface::probe("io_uring_setup: its note", noted).of(&["io_uring_setup"]).under(Under::RATES),
    Interface::probe("io_uring: a timeout in the ring", ring_timeout)
        .host("timeouts in the ring of an io_uring")
        .under(Under::RATES),
];

struct Aio(u64);

impl Aio {
    fn new() -> Result<Self, Failure> {
        let mut context = 0;
        // SAFETY: the kernel writes one context.
        unsafe { call!(libc::SYS_io_setup, 1, &mut context) }.needed("Linux AIO")?;
        Ok(Self(context))
    }
}

fn io_getevents(bench: &Bench) -> Answer {
    let aio = Aio::new()?;
    let mut event = [0u64; 4];
    bench.relative(Ends::With(0), |time| {
        // SAFETY: the kernel writes at most one event and reads one timespec.
        unsafe { call!(libc::SYS_io_getevents, aio.0, 1, 1, &mut event, &time) }
    })
}

fn io_pgetevents(bench: &Bench) -> Answer {
    let aio = Aio::new()?;
    let mut event = [0u64; 4];
    let mask = 0u64;
    let signals = [std::ptr::from_ref(&mask) as usize, SIGSET_BYTES];
    bench.relative(Ends::With(0), |time| {
        // SAFETY: the kernel writes at most one event, reads one timespec and one mask.
        unsafe { call!(SYS_IO_PGETEVENTS, aio.0, 1, 1, &mut event, &time, &signals) }
    })
}

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    reserved: [u32; 3],
    sq: SubmissionOffsets,
    cq: [u64; 5],
}

/// `struct io_sqring_offsets`.
#[repr(C)]
#[derive(Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    user: u64,
}

/// `struct io_uring_getevents_arg`.
#[repr(C)]
struct WaitArgument {
    mask: u64,
    mask_bytes: u32,
    reserved: u32,
    time: u64,
}

const GETEVENTS: u32 = 1;
const FEATURE_SINGLE_MMAP: u32 = 1;
const FEATURE_EXT_ARG: u32 = 1 << 8;
const ENTRIES: u32 = 4;
const OFFSET_RING: i64 = 0;
const OFFSET_ENTRIES: i64 = 0x1000_0000;
/// More than the rings of four entries need.
const RING_BYTES: usize = PAGE;
/// IORING_OP_TIMEOUT.
const TIMEOUT: u8 = 11;

struct Ring {
    fd: OwnedFd,
    params: Params,
}

impl Ring {
    fn new() -> Result<Self, Failure> {
        let mut params = Params::default();
        // SAFETY: the kernel reads and writes one io_uring_params.
        let fd = descriptor(unsafe { call!(libc::SYS_io_uring_setup, ENTRIES, &mut params) })
            .needed("io_uring")?;
        Ok(Self { fd, params })
    }

    fn needing(feature: u32, what: &str) -> Result<Self, Failure> {
        let ring = Self::new()?;
        if ring.params.features & feature == 0 {
            return Err(Failure::Lacks(format!("needs an io_uring with {what}")));
        }
        Ok(ring)
    }

    /// Waits for a completion.
    fn wait(&self, flags: u32, time: &libc::timespec) -> io::Result<i64> {
        let argument = WaitArgument {
            mask: 0,
            mask_bytes: 0,
            reserved: 0,
            time: std::ptr::from_ref(time) as u64,
        };
        let flags = GETEVENTS | eigentime_calls::RING_EXT_ARG | flags;
        let (fd, size) = (self.fd.as_raw_fd(), size_of_val(&argument));
        // SAFETY: the kernel reads one argument of this size and the timespec in it.
        unsafe { call!(libc::SYS_io_uring_enter, fd, 0, 1, flags, &argument, size) }
    }

    /// Maps a part of the ring, shared with the kernel.
    fn map(&self, offset: i64) -> io::Result<*mut c_void> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let fd = self.fd.as_raw_fd();
        // SAFETY: a new mapping touches nothing that is there.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), RING_BYTES, access, libc::MAP_SHARED, fd, offset)
        };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at) }
    }

    /// Submits a timeout and waits until it expires.
    fn time_out(&self, time: &libc::timespec) -> io::Result<i64> {
        let ring = self.map(OFFSET_RING)?;
        let entries = self.map(OFFSET_ENTRIES)?;
        let offsets = &self.params.sq;
        // SAFETY: the kernel has laid these out in the mappings, at these offsets, and reads them
        // in io_uring_enter only; an entry has 64 bytes.
        unsafe {
            let entry = entries.cast::<u8>();
            entry.write_bytes(0, 64);
            entry.write(TIMEOUT);
            entry.add(16).cast::<u64>().write(std::ptr::from_ref(time) as u64);
            entry.add(24).cast::<u32>().write(1);
            ring.byte_add(offsets.array as usize).cast::<u32>().write(0);
            let tail = &*ring.byte_add(offsets.tail as usize).cast::<AtomicU32>();
            tail.store(1, Ordering::Release);
        }
        let fd = self.fd.as_raw_fd();
        // SAFETY: the entry points to a timespec that outlives the call.
        unsafe { call!(libc::SYS_io_uring_enter, fd, 1, 1, GETEVENTS, NULL, 0) }
    }
}

fn io_uring_enter(bench: &Bench) -> Answer {
    let ring = Ring::needing(FEATURE_EXT_ARG, "timeouts (Linux 5.11)")?;
    bench.relative(Ends::By(libc::ETIME), |time| ring.wait(0, &time))
}

fn io_uring_enter_absolute(bench: &Bench) -> Answer {
    let ring = Ring::needing(FEATURE_EXT_ARG, "timeouts (Linux 5.11)")?;
    let absolute = eigentime_calls::RING_ABS_TIMER;
    let past = ring.wait(absolute, &timespec(1));
    if past.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
        return Err(Failure::Lacks("needs an io_uring with deadlines (Linux 6.12)".into()));
    }
    bench
        .absolute(libc::CLOCK_MONOTONIC, Ends::By(libc::ETIME), |until| ring.wait(absolute, &until))
}

fn noted(_bench: &Bench) -> Answer {
    Ring::new()?;
    Ok(Outcome::Noted("uses io_uring".into()))
}

fn ring_timeout(bench: &Bench) -> Answer {
    let ring = Ring::needing(FEATURE_SINGLE_MMAP, "one mapping (Linux 5.4)")?;
    host_wait(bench, HOST_WAIT, Ends::With(1), |ns| ring.time_out(&timespec(ns)))
}
