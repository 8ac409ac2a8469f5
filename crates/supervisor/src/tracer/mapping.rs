//! Maps the region in a program, through calls of its own, one at a time.
//!
//! A program that the filter stops maps it faster: see `install`.

use std::io::IoSlice;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use eigentime_vdso::{KernelFunctions, symbols};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::Supervisor;
use super::plain::{Plain, bytes_of};
use super::timekeeper::Number;
use super::tracee::Tracee;
use super::visit::Visit;
use crate::host::KernelVdso;
use crate::region::Region;

pub const READ_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
pub const PRIVATE: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
pub const NO_FILE: u64 = u64::MAX;

/// The step that needs the last free descriptor.
pub const RECEIVE: &str = "receive the shared memory in it";

/// What is written to memory of the program for the steps.
#[repr(C)]
struct Block {
    sockets: [i32; 2],
    message: Message,
    control: Control,
}

impl Plain for Block {}

/// `struct msghdr` for one byte, which follows it.
#[repr(C)]
pub struct Message {
    name: u64,
    name_len: u64,
    bytes: u64,
    bytes_len: u64,
    control: u64,
    control_len: u64,
    flags: u64,
    /// `struct iovec`.
    base: u64,
    len: u64,
    byte: u64,
}

impl Message {
    /// Returns the message for a block at `address`, whose descriptor is received at `control`.
    pub fn new(address: u64, control: u64) -> Self {
        let at = |offset: usize| address + offset as u64;
        Self {
            name: 0,
            name_len: 0,
            bytes: at(offset_of!(Self, base)),
            bytes_len: 1,
            control,
            control_len: size_of::<Control>() as u64,
            flags: 0,
            base: at(offset_of!(Self, byte)),
            len: 1,
            byte: 0,
        }
    }
}

/// `struct cmsghdr` with one descriptor.
#[repr(C)]
pub struct Control {
    len: u64,
    level: i32,
    kind: i32,
    pub descriptor: i32,
    padding: i32,
}

/// A step that failed.
pub struct Failed(pub &'static str, pub Errno);

/// For `map_err` on a step.
pub fn step(step: &'static str) -> impl FnOnce(Errno) -> Failed {
    move |error| Failed(step, error)
}

/// What programs are given.
pub struct Installer {
    pub region: Arc<Region>,
    pub kernel: KernelVdso,
    /// Whether the kernel's vDSO makes system calls of its own for the clocks.
    pub raw_clock: bool,
    /// Whether it is only traced for moments.
    pub untraced: bool,
}

impl Supervisor {
    /// What programs of a timeline are given that are started or attached now.
    pub(super) fn installer(&self, timeline: Number) -> Installer {
        let Self { kernel, raw_clock, notified, .. } = self;
        let region = Arc::clone(self.timelines.get(timeline).timekeeper.region());
        Installer { region, kernel: *kernel, raw_clock: *raw_clock, untraced: notified.is_some() }
    }
}

impl Installer {
    /// Maps the region in the process, where memory at `scratch` can be used.
    pub async fn map_region(&self, visit: &mut Visit, scratch: u64) -> Result<(), Failed> {
        let layout = self.region.layout;
        let (read, execute) = (libc::PROT_READ, libc::PROT_READ | libc::PROT_EXEC);
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let maps = [
            (layout.base()..layout.private(), read, libc::MAP_SHARED),
            (layout.private()..layout.image(), read, anonymous),
            (layout.image()..layout.code(), read, libc::MAP_PRIVATE),
            (layout.code()..layout.image_end(), execute, libc::MAP_PRIVATE),
        ];
        self.map(visit, scratch, &maps, libc::MAP_FIXED_NOREPLACE).await
    }

    /// Replaces another page with the page that holds the map, in a process that has the image.
    pub async fn map_page(&self, visit: &mut Visit, scratch: u64) -> Result<(), Failed> {
        let layout = self.region.layout;
        let page = (layout.base()..layout.private(), libc::PROT_READ, libc::MAP_SHARED);
        self.map(visit, scratch, &[page], libc::MAP_FIXED).await
    }

    /// Maps pieces of the region, each with its access and its kind.
    async fn map(
        &self,
        visit: &mut Visit,
        scratch: u64,
        maps: &[(Range<u64>, i32, i32)],
        fixed: i32,
    ) -> Result<(), Failed> {
        let base = self.region.layout.base();
        let at = |offset: usize| scratch + offset as u64;
        let block = Block {
            sockets: [-1; 2],
            message: Message::new(at(offset_of!(Block, message)), at(offset_of!(Block, control))),
            control: Control { len: 0, level: 0, kind: 0, descriptor: -1, padding: 0 },
        };
        let tracee = visit.tracee;
        tracee.write(scratch, bytes_of(&block)).map_err(step("write to its memory"))?;
        let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
        let sockets = at(offset_of!(Block, sockets));
        visit
            .call(libc::SYS_socketpair, [libc::AF_UNIX as u64, kind, 0, sockets, 0, 0])
            .await
            .map_err(step("make a pair of sockets in it"))?;
        let [pair] = tracee.read_words(sockets).map_err(step("read its sockets"))?;
        let (first, second) = (pair as u32, (pair >> 32) as u32);
        let received = self.pass_region(visit, first, second, &at).await;
        for descriptor in [first, second] {
            let _ = visit.call(libc::SYS_close, [u64::from(descriptor), 0, 0, 0, 0, 0]).await;
        }
        let file = received?;
        let mut mapped = Ok(());
        for (to, access, how) in maps {
            let is_anonymous = how & libc::MAP_ANONYMOUS != 0;
            let (file, offset) = if is_anonymous { (NO_FILE, 0) } else { (file, to.start - base) };
            let how = (how | fixed) as u64;
            let args = [to.start, to.end - to.start, *access as u64, how, file, offset];
            mapped = visit.call(libc::SYS_mmap, args).await.map(drop);
            if mapped.is_err() {
                break;
            }
        }
        let _ = visit.call(libc::SYS_close, [file, 0, 0, 0, 0, 0]).await;
        mapped.map_err(step("map the image in it"))
    }

    /// Passes the shared memory to the process through its sockets; returns its descriptor there.
    async fn pass_region(
        &self,
        visit: &mut Visit,
        first: u32,
        second: u32,
        at: &dyn Fn(usize) -> u64,
    ) -> Result<u64, Failed> {
        let tracee = visit.tracee;
        let socket = tracee.borrow_descriptor(first);
        let sent = socket.and_then(|socket| self.send_file(&socket));
        sent.map_err(step("hand it the shared memory"))?;
        let header = at(offset_of!(Block, message));
        let flags = libc::MSG_CMSG_CLOEXEC as u64;
        visit
            .call(libc::SYS_recvmsg, [u64::from(second), header, flags, 0, 0, 0])
            .await
            .map_err(step(RECEIVE))?;
        let descriptor = at(offset_of!(Block, control.descriptor));
        let [descriptor] = tracee.read_words(descriptor).map_err(step("read its descriptor"))?;
        match descriptor as u32 {
            // If no descriptor is free for it, the kernel passes none, without an error.
            u32::MAX => Err(Failed(RECEIVE, Errno::EMFILE)),
            descriptor => Ok(descriptor.into()),
        }
    }

    /// What the image in a process must know: the functions of its kernel vDSO, which is at `vdso`.
    pub fn functions_at(&self, vdso: u64, has_own_filter: bool) -> KernelFunctions {
        let layout = self.region.layout;
        let raw = layout.symbol(symbols::RAW_CLOCK_GETTIME);
        let missing = layout.symbol(symbols::MISSING);
        let mut functions = self.kernel.functions_at(vdso, missing, raw);
        if self.raw_clock {
            functions.clock_gettime = raw;
        }
        functions.has_own_filter = has_own_filter.into();
        functions.is_untraced = self.untraced.into();
        functions
    }

    /// Tells the image in a stopped program what it must know.
    pub fn write_functions(
        &self,
        tracee: Tracee,
        vdso: u64,
        has_own_filter: bool,
    ) -> nix::Result<()> {
        let functions = self.functions_at(vdso, has_own_filter);
        tracee.poke_bytes(self.region.layout.private(), bytes_of(&functions))
    }

    /// Sends the shared memory through a socket of the program.
    pub fn send_file(&self, socket: &OwnedFd) -> nix::Result<()> {
        let descriptors = [self.region.file().as_raw_fd()];
        let message = [ControlMessage::ScmRights(&descriptors)];
        let bytes = [IoSlice::new(&[0])];
        sendmsg::<()>(socket.as_raw_fd(), &bytes, &message, MsgFlags::MSG_NOSIGNAL, None).map(drop)
    }
}
