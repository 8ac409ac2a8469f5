//! Moves a running process into the timeline.
//!
//! All its threads are stopped. One of them is made to map the region; the kernel's
//! vDSO is moved aside, and where it stood comes a copy whose functions lead to the
//! image; then the filter is put on all threads. Whatever fails up to there is undone,
//! and the process goes on as before. The filter is the last step, since the kernel
//! takes none off.
//!
//! - `preflight`: what can be told before anything is touched.
//! - `stopped`: a process whose threads are all stopped.
//! - `vdso`: the copy of the kernel's vDSO.

mod preflight;
pub mod stopped;
mod vdso;

use std::mem::offset_of;
use std::time::{Duration, Instant};

use eigentime_timeline::{Anchor, Clock, Nanos, Rate, Segment};
use eigentime_vdso::{IMAGE, IMAGE_OFFSET, PAGE, symbols};
use nix::errno::Errno;
use nix::unistd::Pid;

use self::preflight::Found;
use self::stopped::Stopped;
use self::vdso::Aside;
use super::install::{Block, block_at, bytes_of};
use super::rearm::Rearm;
use super::show::command_of;
use super::visit::Visit;
use super::{Supervisor, Thread};
use crate::control::Attached;
use crate::filter::{self, Scope};
use crate::host;

/// How long the threads of a process may take to stop.
const PATIENCE: Duration = Duration::from_secs(2);

/// The scratch memory of a visit: the block, then the filter.
const SCRATCH: u64 = 8 * PAGE as u64;
/// Where in it the filter begins.
const FILTER_AT: u64 = PAGE as u64;

const READ_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
const PRIVATE: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
const NO_FILE: u64 = u64::MAX;

/// A step that failed.
struct Failed(&'static str, Errno);

fn step(step: &'static str) -> impl FnOnce(Errno) -> Failed {
    move |error| Failed(step, error)
}

impl Supervisor {
    /// Moves a running process into the timeline. If that fails, it goes on as before.
    pub(super) fn attach(&mut self, pid: Pid, force: bool) -> Result<Attached, String> {
        let found = preflight::look(pid, self.region.layout)?;
        let begin = Instant::now();
        let stopped = Stopped::all_of(pid, begin + PATIENCE).map_err(|refused| {
            self.unwanted.extend(refused.unstopped);
            refused.reason
        })?;
        let moved = self.move_in(&stopped, &found, force);
        let threads = stopped.threads().len();
        match moved {
            Ok(notes) => {
                self.adopt(&stopped);
                stopped.go_on();
                Ok(Attached {
                    pid: pid.as_raw(),
                    command: command_of(pid),
                    threads,
                    stopped_ns: begin.elapsed().as_nanos() as u64,
                    notes,
                })
            }
            Err(reason) => {
                stopped.release();
                Err(reason)
            }
        }
    }

    /// Follows the threads of a process from now on.
    fn adopt(&mut self, stopped: &Stopped) {
        for thread in stopped.threads() {
            self.threads.insert(thread.0, Thread::default());
        }
        self.started = true;
        self.uses_timer_descriptors = true;
        self.interval_timers.insert(stopped.process);
    }

    fn move_in(
        &mut self,
        stopped: &Stopped,
        found: &Found,
        force: bool,
    ) -> Result<Vec<String>, String> {
        let failed = |Failed(step, error)| {
            format!("cannot attach: {step}: {}; the process goes on as before", error.desc())
        };
        self.leave_vdso(stopped, found)
            .map_err(step("bring a thread out of the vDSO"))
            .map_err(failed)?;
        // The clocks of a timeline made for this process start now, when nobody reads.
        if let Some(clocks) = self.starts_with.clone() {
            self.region.page().publish(&clocks.map(host::read_at_once(), true));
        } else if !force {
            self.refuse_step_back()?;
        }
        let visitor = stopped.threads()[0];
        let visit = Visit::new(visitor, self.kernel.syscall_at(found.vdso));
        let mut visit = visit.map_err(step("read its registers")).map_err(failed)?;
        let prepared = self.prepare(&mut visit, stopped, found);
        if prepared.is_ok() {
            stopped.make_waits_again(&mut visit.after);
        }
        let ended = visit.end(stopped.process).map_err(step("let the thread go on"));
        let mut notes = prepared.and_then(|notes| ended.map(|_| notes)).map_err(failed)?;
        self.starts_with = None;
        let after = self.region.page().map().after;
        let change = Rearm::new(as_before(&after), after);
        // The timers that the process has, it has armed by the host's clocks.
        self.interval_timers.insert(stopped.process);
        let rearmed = self.rearm_stopped(visitor, stopped.process, &change);
        if let Err(error) = rearmed {
            notes.push(format!("its timers keep their host time: {}", error.desc()));
        }
        Ok(notes)
    }

    /// Refuses to turn a monotonic clock back.
    fn refuse_step_back(&self) -> Result<(), String> {
        let after = self.region.page().map().after;
        for clock in [Clock::Monotonic, Clock::Boottime] {
            let now = host::read(clock.id());
            let back = now.as_nanos() - after.virtual_at(clock, now).as_nanos();
            if back > 0 {
                return Err(format!(
                    "its {} clock would step back by {} s, which programs do not expect\n\
                     help: attach it to a timeline of its own, or use --force",
                    crate::control::clock_name(clock),
                    crate::control::seconds(Nanos(back)),
                ));
            }
        }
        Ok(())
    }

    /// Lets every thread that is in the kernel's vDSO leave it.
    fn leave_vdso(&self, stopped: &Stopped, found: &Found) -> nix::Result<()> {
        let vdso = found.vdso..found.vdso + self.kernel.size();
        stopped.threads().iter().try_for_each(|thread| thread.step_out_of(&vdso))
    }

    /// Does all that needs calls of the process's own, or undoes it.
    fn prepare(
        &self,
        visit: &mut Visit,
        stopped: &Stopped,
        found: &Found,
    ) -> Result<Vec<String>, Failed> {
        let layout = self.region.layout;
        let args = [0, SCRATCH, READ_WRITE, PRIVATE, NO_FILE, 0];
        let scratch = visit.call(libc::SYS_mmap, args).map_err(step("map memory in it"))?;
        let mapped = self.map_region(visit, scratch);
        let prepared = mapped.and_then(|()| {
            // The kernel's vDSO is about to move; the image has a call of its own.
            visit.instruction = layout.call();
            let aside = Aside::new(visit, &self.kernel, found, layout)?;
            self.take_over(visit, stopped, scratch, &aside).inspect_err(|_| aside.undo(visit))
        });
        if prepared.is_err() {
            visit.instruction = self.kernel.syscall_at(found.vdso);
            let size = eigentime_vdso::REGION_SIZE as u64;
            // What cannot be unmapped stays, and does no harm.
            let _ = visit.call(libc::SYS_munmap, [layout.base(), size, 0, 0, 0, 0]);
        }
        let _ = visit.call(libc::SYS_munmap, [scratch, SCRATCH, 0, 0, 0, 0]);
        prepared
    }

    /// Maps the region in the process, whose memory at `scratch` can be used.
    fn map_region(&self, visit: &mut Visit, scratch: u64) -> Result<(), Failed> {
        let layout = self.region.layout;
        let block = block_at(scratch, eigentime_vdso::KernelFunctions::default());
        let tracee = visit.tracee;
        tracee.write(scratch, bytes_of(&block)).map_err(step("write to its memory"))?;
        let at = |offset: usize| scratch + offset as u64;
        let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
        let sockets = at(offset_of!(Block, sockets));
        visit
            .call(libc::SYS_socketpair, [libc::AF_UNIX as u64, kind, 0, sockets, 0, 0])
            .map_err(step("make a pair of sockets in it"))?;
        let [pair] = tracee.read_words(sockets).map_err(step("read its sockets"))?;
        let (first, second) = (pair as u32, (pair >> 32) as u32);
        let received = self.pass_region(visit, first, second, &at);
        for descriptor in [first, second] {
            let _ = visit.call(libc::SYS_close, [u64::from(descriptor), 0, 0, 0, 0, 0]);
        }
        let file = received?;
        let map =
            |visit: &mut Visit, to: u64, size: usize, access: i32, how: i32, offset: usize| {
                let how = (how | libc::MAP_FIXED_NOREPLACE) as u64;
                let file = if how & PRIVATE == PRIVATE { NO_FILE } else { file };
                let args = [to, size as u64, access as u64, how, file, offset as u64];
                visit.call(libc::SYS_mmap, args).map(drop)
            };
        let (read, execute) = (libc::PROT_READ, libc::PROT_READ | libc::PROT_EXEC);
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapped = map(visit, layout.base(), PAGE, read, libc::MAP_SHARED, 0)
            .and_then(|()| map(visit, layout.private(), PAGE, read, anonymous, 0))
            .and_then(|()| {
                let size = IMAGE.len();
                map(visit, layout.image(), size, execute, libc::MAP_PRIVATE, IMAGE_OFFSET)
            });
        let _ = visit.call(libc::SYS_close, [file, 0, 0, 0, 0, 0]);
        mapped.map_err(step("map the image in it"))
    }

    /// Passes the shared memory to the process through its sockets; its descriptor there.
    fn pass_region(
        &self,
        visit: &mut Visit,
        first: u32,
        second: u32,
        at: &dyn Fn(usize) -> u64,
    ) -> Result<u64, Failed> {
        let tracee = visit.tracee;
        self.send_file(tracee, first).map_err(step("hand it the shared memory"))?;
        let header = at(offset_of!(Block, header));
        let flags = libc::MSG_CMSG_CLOEXEC as u64;
        visit
            .call(libc::SYS_recvmsg, [u64::from(second), header, flags, 0, 0, 0])
            .map_err(step("receive the shared memory in it"))?;
        let descriptor = at(offset_of!(Block, control.descriptor));
        let [descriptor] = tracee.read_words(descriptor).map_err(step("read its descriptor"))?;
        Ok(u64::from(descriptor as u32))
    }

    /// Puts the filter on the process: from here on it cannot be without us.
    fn take_over(
        &self,
        visit: &mut Visit,
        stopped: &Stopped,
        scratch: u64,
        aside: &Aside,
    ) -> Result<Vec<String>, Failed> {
        let layout = self.region.layout;
        let functions = self.kernel.functions_at(
            aside.vdso(),
            layout.symbol(symbols::MISSING),
            layout.symbol(symbols::RAW_CLOCK_GETTIME),
        );
        for (index, bytes) in bytes_of(&functions).chunks_exact(8).enumerate() {
            let word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            let to = layout.private() + 8 * index as u64;
            visit.tracee.poke(to, word).map_err(step("write to its memory"))?;
        }
        let subject = filter::Subject { scope: Scope::All, layout, hides_groups: false };
        let program = filter::assemble(&subject);
        let at = scratch + FILTER_AT;
        let words: Vec<u64> = program
            .iter()
            .map(|line| {
                u64::from(line.code)
                    | u64::from(line.jt) << 16
                    | u64::from(line.jf) << 24
                    | u64::from(line.k) << 32
            })
            .collect();
        assert!(FILTER_AT + 16 + 8 * words.len() as u64 <= SCRATCH, "the filter fits");
        let header = [program.len() as u64, at + 16];
        visit
            .tracee
            .write_words(at, &header)
            .and_then(|()| visit.tracee.write_words(at + 16, &words))
            .map_err(step("write to its memory"))?;
        for thread in stopped.threads() {
            thread.end_with_tracer().map_err(step("tie it to its supervisor"))?;
        }
        const ALL_THREADS: u64 = libc::SECCOMP_FILTER_FLAG_TSYNC;
        let mode = u64::from(libc::SECCOMP_SET_MODE_FILTER);
        let mut notes = Vec::new();
        let args = [mode, ALL_THREADS, at, 0, 0, 0];
        let mut installed = visit.call(libc::SYS_seccomp, args);
        if installed == Err(Errno::EACCES) {
            let privileges = [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0, 0];
            visit
                .call(libc::SYS_prctl, privileges)
                .map_err(step("give up gaining privileges for it"))?;
            notes.push(
                "it can no longer gain privileges by running set-user-ID programs, as the kernel \
                 wants it for a filter"
                    .to_owned(),
            );
            installed = visit.call(libc::SYS_seccomp, args);
        }
        match installed {
            Ok(0) => Ok(notes),
            // The number of a thread that has a filter of its own.
            Ok(_) => Err(Failed("filter the calls of all its threads", Errno::EBUSY)),
            Err(error) => Err(Failed("filter its calls", error)),
        }
    }
}

/// The map by which a process lived that is now to live by `after`: its wall clocks are
/// the host's; on the others what it had waited for is as far ahead as it was.
pub fn as_before(after: &Segment) -> Segment {
    let mut before = Segment { rate: Rate::ONE, ..Segment::IDENTITY };
    for clock in Clock::ALL.into_iter().filter(|clock| !clock.is_wall()) {
        let host = host::read(clock.id());
        before.anchors[clock as usize] = Anchor { host, virt: after.virtual_at(clock, host) };
    }
    before
}

impl Supervisor {
    /// Arms the timers of a process anew, whose thread `visitor` is stopped.
    fn rearm_stopped(
        &mut self,
        visitor: super::tracee::Tracee,
        process: Pid,
        change: &Rearm,
    ) -> nix::Result<()> {
        super::rearm::rearm_descriptors_of(process, change);
        self.rearm_timers(visitor, process, change)
    }
}
