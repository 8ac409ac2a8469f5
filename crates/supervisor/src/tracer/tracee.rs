//! A traced thread: its stops, registers and memory.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::task::Poll;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::plain::{Plain, bytes_of_mut};
use super::seizing::{has_collected, seize, take_collected};
use super::yielding::yield_if_free;
use crate::arch::{Registers, set_breakpoints};
use crate::control::server::was_woken;
use crate::moved::QUEUED_BY_CRIU;
use crate::proc::{self, Pidfd, has_ended, is_sleeping};

/// Blocks every signal: what arrives stays pending, with its siginfo.
pub const ALL_SIGNALS: u64 = u64::MAX;

/// The options set for every traced thread.
const OPTIONS: Options = Options::PTRACE_O_TRACESYSGOOD
    .union(Options::PTRACE_O_TRACECLONE)
    .union(Options::PTRACE_O_TRACEFORK)
    .union(Options::PTRACE_O_TRACEVFORK)
    .union(Options::PTRACE_O_TRACEEXEC)
    .union(Options::PTRACE_O_TRACESECCOMP);

// Missing from musl's header (include/uapi/linux/ptrace.h).
const PEEKSIGINFO_SHARED: u32 = 1;
/// Fills in as much of `struct ptrace_syscall_info` as there is room for.
const GET_SYSCALL_INFO: i32 = 0x420e;
/// Its first byte if the thread is stopped elsewhere.
const SYSCALL_INFO_NONE: u8 = 0;

/// Why a thread stopped, or that it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The filter stopped a system call.
    Filtered,
    /// At the entry or the exit of a system call, as requested.
    Syscall,
    /// A signal is about to be delivered.
    Signal(i32),
    /// A program was started in the process.
    Exec,
    /// A child or a thread was created.
    Forked,
    /// The process was stopped by a job-control signal.
    Group,
    /// First stop of a new thread, end of a job-control stop, or requested.
    Trap,
    /// The thread has ended.
    Ended,
    /// Its control group has frozen it, and it was stopped where it was. Only [`Tracee::wait`] reports
    /// this.
    Frozen,
    /// None stopped: there is a request.
    Woken,
}

impl Stop {
    /// Decodes the status from `waitpid`.
    fn decode(status: i32) -> Self {
        if !libc::WIFSTOPPED(status) {
            return Self::Ended;
        }
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            0 if signal == libc::SIGTRAP | 0x80 => Self::Syscall,
            0 => Self::Signal(signal),
            libc::PTRACE_EVENT_SECCOMP => Self::Filtered,
            libc::PTRACE_EVENT_EXEC => Self::Exec,
            libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Self::Trap,
            libc::PTRACE_EVENT_STOP => Self::Group,
            _ => Self::Forked,
        }
    }
}

/// How long a thread may take to stop before it is checked whether it has ended.
const PATIENCE: Duration = Duration::from_millis(5);

/// The longest path through the image and the kernel's vDSO, in instructions, with ample reserve.
const MOST_STEPS: usize = 10_000;

/// Reports that a thread cannot be made to do anything because its control group is frozen.
pub const IS_FROZEN: Errno = Errno::ETIME;

/// How long a thread may take to run to the end of a function.
const RUN: Duration = Duration::from_secs(1);

/// All signals except SIGTRAP, by which the kernel reports a step, and those by which it reports a bad
/// address: if these are blocked, it removes the program's handler.
const ALL_BUT_REPORTS: u64 =
    !(1 << (libc::SIGTRAP - 1) | 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1));

/// A traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tracee(pub Pid);

impl Tracee {
    /// Stands for a woken supervisor, without a thread.
    pub const WOKEN: (Self, Stop) = (Self(Pid::from_raw(0)), Stop::Woken);

    /// Waits until any traced thread stops or ends, or a signal wakes this one; `None` if no traced
    /// thread is left.
    pub fn wait_for_any() -> nix::Result<Option<(Self, Stop)>> {
        if was_woken() {
            return Ok(Some(Self::WOKEN));
        }
        match wait_once(-1, 0) {
            Err(Errno::EINTR) => Ok(Some(Self::WOKEN)),
            Ok((pid, stop)) => Ok(Some((Self(Pid::from_raw(pid)), stop))),
            Err(Errno::ECHILD) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether there is any traced thread, or one whose end has not been collected yet.
    pub fn is_any_traced() -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        let flags = flags | WaitPidFlag::WNOWAIT | WaitPidFlag::__WALL;
        has_collected() || waitid(Id::All, flags) != Err(Errno::ECHILD)
    }

    /// Like [`wait_for_any`](Self::wait_for_any), without waiting.
    pub fn poll_any() -> nix::Result<Poll<Option<(Self, Stop)>>> {
        if was_woken() {
            return Ok(Poll::Ready(Some(Self::WOKEN)));
        }
        match wait_with(-1, libc::WNOHANG) {
            Ok((0, _)) => Ok(Poll::Pending),
            Ok((pid, stop)) => Ok(Poll::Ready(Some((Self(Pid::from_raw(pid)), stop)))),
            Err(Errno::ECHILD) => Ok(Poll::Ready(None)),
            Err(error) => Err(error),
        }
    }

    /// Waits until this thread, which was resumed, stops or ends. The kernel does not report the end of
    /// a process's first thread before all others have been waited for, so that is checked separately.
    ///
    /// A thread whose control group is frozen sleeps on its way to user space, but still stops on
    /// request (`do_freezer_trap` in kernel/signal.c).
    pub fn wait(self) -> nix::Result<Stop> {
        let mut patience = PATIENCE;
        loop {
            match self.wait_until(Instant::now() + patience)? {
                Some(stop) => return Ok(stop),
                None if has_ended(self.0) => return Ok(Stop::Ended),
                None if is_sleeping(self.0) => {
                    self.interrupt()?;
                    match self.wait_until(Instant::now() + PATIENCE * 10)? {
                        Some(Stop::Trap) => return Ok(Stop::Frozen),
                        Some(stop) => return Ok(stop),
                        None => {}
                    }
                }
                None => patience = PATIENCE * 10,
            }
        }
    }

    /// Waits until this thread stops or ends, but no longer than until `deadline`.
    pub fn wait_until(self, deadline: Instant) -> nix::Result<Option<Stop>> {
        Ok(wait_with_until(self.0.as_raw(), deadline)?.map(|(_, stop)| stop))
    }

    /// Waits until any traced thread stops or ends, but no longer than until `deadline`.
    pub fn wait_for_any_until(deadline: Instant) -> nix::Result<Option<(Self, Stop)>> {
        wait_with_until(-1, deadline)
    }

    /// Starts tracing the thread without stopping it; it ends with its tracer.
    pub fn seize(self) -> nix::Result<()> {
        seize(self.0, OPTIONS | Options::PTRACE_O_EXITKILL)
    }

    /// Starts tracing the thread without stopping it; it continues without a tracer.
    pub fn seize_softly(self) -> nix::Result<()> {
        seize(self.0, OPTIONS)
    }

    /// Makes the stopped thread end with its tracer.
    pub fn end_with_tracer(self) -> nix::Result<()> {
        ptrace::setoptions(self.0, OPTIONS | Options::PTRACE_O_EXITKILL)
    }

    /// Makes the stopped thread continue when the tracer ends.
    pub fn go_on_without_tracer(self) -> nix::Result<()> {
        ptrace::setoptions(self.0, OPTIONS)
    }

    /// Prevents filters from stopping or refusing calls of the stopped thread, until
    /// [`end_with_tracer`](Self::end_with_tracer); returns whether the supervisor may do that, which
    /// takes CAP_SYS_ADMIN on the host.
    pub fn suspend_filters(self) -> bool {
        let suspend = Options::from_bits_retain(libc::PTRACE_O_SUSPEND_SECCOMP);
        ptrace::setoptions(self.0, OPTIONS | Options::PTRACE_O_EXITKILL | suspend).is_ok()
    }

    /// Detaches from the stopped thread, delivering a signal if there is one.
    pub fn release(self, signal: Option<i32>) -> nix::Result<()> {
        self.request(libc::PTRACE_DETACH, signal.unwrap_or(0) as usize)
    }

    /// Resumes the thread, delivering a signal if there is one.
    pub fn resume(self, signal: Option<i32>) -> nix::Result<()> {
        self.request(libc::PTRACE_CONT, signal.unwrap_or(0) as usize)
    }

    /// The same, up to the next entry or exit of a system call.
    pub fn resume_to_syscall(self, signal: Option<i32>) -> nix::Result<()> {
        self.request(libc::PTRACE_SYSCALL, signal.unwrap_or(0) as usize)
    }

    /// Executes one instruction of the thread, and waits until that is done or has failed on a bad
    /// address; with all signals blocked except those by which the kernel reports that. Returns whether
    /// its process was stopped in the meantime, by the one signal that cannot be blocked.
    fn step(self) -> nix::Result<bool> {
        let (mut halted, mut signal) = (false, None);
        loop {
            self.request(libc::PTRACE_SINGLESTEP, signal.take().unwrap_or(0) as usize)?;
            match self.wait()? {
                Stop::Signal(libc::SIGTRAP | libc::SIGSEGV | libc::SIGBUS) => return Ok(halted),
                Stop::Signal(other) => signal = Some(other),
                Stop::Group => halted = true,
                Stop::Ended => return Err(Errno::ESRCH),
                Stop::Frozen => return Err(IS_FROZEN),
                // Something else had to be reported first, such as a requested stop: the step itself is
                // still to come.
                _ => {}
            }
        }
    }

    /// Steps the stopped thread, one instruction at a time, until it is where it may rest; returns
    /// whether it is. If its process is stopped in the meantime, the thread stops as soon as it
    /// resumes. Its signal mask is restored, unless the thread has changed it itself.
    pub fn step_until(self, mut rests: impl FnMut(&Registers) -> bool) -> nix::Result<bool> {
        let mask = self.signal_mask()?;
        self.set_signal_mask(ALL_BUT_REPORTS)?;
        let stepped = self.signal_mask()?;
        let mut halted = false;
        let mut arrives = || {
            for _ in 0..MOST_STEPS {
                if rests(&self.registers()?) {
                    return Ok(true);
                }
                halted |= self.step()?;
            }
            Ok(false)
        };
        let arrived = arrives();
        if self.signal_mask()? == stepped {
            self.set_signal_mask(mask)?;
        }
        self.stop_again(halted)?;
        arrived
    }

    /// Makes the stopped thread stop as soon as it resumes, if it ran although its process is stopped.
    /// The kernel knows whether it still is.
    pub fn stop_again(self, halted: bool) -> nix::Result<()> {
        if halted { self.interrupt() } else { Ok(()) }
    }

    /// Runs the stopped thread until it is about to execute an instruction at one of these addresses;
    /// with all signals blocked except those by which the kernel reports that. If its process is
    /// stopped in the meantime, the thread stops as soon as it resumes. Fails with ENOSPC if the
    /// processor cannot stop it there, and with ETIMEDOUT if it is stopped elsewhere because it does
    /// not get there.
    pub fn run_to(self, addresses: &[u64]) -> nix::Result<()> {
        if addresses.is_empty() {
            return Err(Errno::ENOSPC);
        }
        set_breakpoints(self.0, addresses).map_err(|_| Errno::ENOSPC)?;
        let arrived = self.run_to_breakpoint(addresses);
        set_breakpoints(self.0, &[])?;
        arrived
    }

    fn run_to_breakpoint(self, addresses: &[u64]) -> nix::Result<()> {
        let mask = self.signal_mask()?;
        self.set_signal_mask(ALL_BUT_REPORTS)?;
        let (mut halted, mut signal) = (false, None);
        let mut interrupted = false;
        loop {
            self.resume(signal.take())?;
            let stop = match self.wait_until(Instant::now() + RUN)? {
                Some(stop) => stop,
                None => {
                    interrupted = true;
                    self.interrupt()?;
                    self.wait()?
                }
            };
            match stop {
                Stop::Signal(libc::SIGTRAP) => break,
                Stop::Trap | Stop::Group if interrupted => break,
                Stop::Signal(libc::SIGSTOP) => signal = Some(libc::SIGSTOP),
                Stop::Group => halted = true,
                // An address that the program named is bad.
                Stop::Signal(_) => {
                    self.set_signal_mask(mask)?;
                    return Err(Errno::EFAULT);
                }
                Stop::Ended => return Err(Errno::ESRCH),
                _ => {}
            }
        }
        self.set_signal_mask(mask)?;
        self.stop_again(halted)?;
        match addresses.contains(&self.registers()?.ip()) {
            true => Ok(()),
            false => Err(Errno::ETIMEDOUT),
        }
    }

    /// The siginfo of the signal that is about to be delivered.
    pub fn signal_info(self) -> nix::Result<libc::siginfo_t> {
        ptrace::getsiginfo(self.0)
    }

    /// Changes the siginfo of the signal that is about to be delivered.
    pub fn set_signal_info(self, info: &libc::siginfo_t) -> nix::Result<()> {
        ptrace::setsiginfo(self.0, info)
    }

    /// Whether the kernel has queued the signal of a POSIX timer for the stopped thread, or for its
    /// process.
    pub fn has_queued_timer(self, timer: i32) -> nix::Result<bool> {
        self.has_queued(|info| {
            // SAFETY: any bytes are numbers. The timer's number is where a sender's ID would be, and
            // the mark where the CPU time of a child would be.
            let (number, mark) = unsafe { (info.si_pid(), info.si_utime() as u32) };
            info.si_code == libc::SI_TIMER && number == timer && mark != QUEUED_BY_CRIU.1
        })
    }

    /// Whether a signal that the stopped thread does not block is queued for it, or for its process.
    pub fn has_signal(self) -> nix::Result<bool> {
        let mask = self.signal_mask()?;
        self.has_queued(|info| mask >> (info.si_signo - 1) & 1 == 0)
    }

    /// Whether a signal is queued that only reports a job-control stop: SIGCONT, or the SIGCHLD of a
    /// child that has stopped or resumed.
    pub fn has_stop_signal(self, signal: i32) -> nix::Result<bool> {
        let tells_of_stop = |code| [libc::CLD_STOPPED, libc::CLD_CONTINUED].contains(&code);
        self.has_queued(|info| {
            info.si_signo == signal && (signal == libc::SIGCONT || tells_of_stop(info.si_code))
        })
    }

    fn has_queued(self, is_it: impl Fn(&libc::siginfo_t) -> bool) -> nix::Result<bool> {
        /// `struct __ptrace_peeksiginfo_args` (include/uapi/linux/ptrace.h).
        #[repr(C)]
        struct Peek {
            offset: u64,
            flags: u32,
            count: i32,
        }
        for flags in [0, PEEKSIGINFO_SHARED] {
            for offset in 0.. {
                let peek = Peek { offset, flags, count: 1 };
                // SAFETY: all-zero bytes are a valid siginfo_t.
                let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
                let [from, to] = [(&raw const peek) as usize, (&raw mut info) as usize];
                // SAFETY: the pointers are to values of ours, the second to room for one signal.
                let found =
                    unsafe { libc::ptrace(libc::PTRACE_PEEKSIGINFO, self.0.as_raw(), from, to) };
                if Errno::result(found)? == 0 {
                    break;
                }
                if is_it(&info) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Leaves the thread in a job-control stop until that ends.
    pub fn listen(self) -> nix::Result<()> {
        self.request(libc::PTRACE_LISTEN, 0)
    }

    /// Asks the thread to stop, wherever it is.
    pub fn interrupt(self) -> nix::Result<()> {
        ptrace::interrupt(self.0)
    }

    /// Ends the thread's process.
    pub fn kill(self) -> nix::Result<()> {
        nix::sys::signal::kill(self.0, Signal::SIGKILL)
    }

    /// The registers of the stopped thread.
    pub fn registers(self) -> nix::Result<Registers> {
        Registers::of(self.0)
    }

    /// Changes the registers of the stopped thread.
    pub fn set_registers(self, registers: Registers) -> nix::Result<()> {
        registers.give(self.0)
    }

    /// The event message of the stop.
    pub fn event_message(self) -> nix::Result<u64> {
        ptrace::getevent(self.0).map(|message| message as u64)
    }

    /// Whether it is stopped at the entry or the exit of a call, and so does not wait in it.
    pub fn is_beside_call(self) -> bool {
        let mut op = SYSCALL_INFO_NONE;
        let asked = self.request_with(GET_SYSCALL_INFO, size_of_val(&op), (&raw mut op) as usize);
        asked.is_ok() && op != SYSCALL_INFO_NONE
    }

    /// The signals that the thread blocks.
    pub fn signal_mask(self) -> nix::Result<u64> {
        let mut mask = 0_u64;
        self.request_with(libc::PTRACE_GETSIGMASK, size_of_val(&mask), (&raw mut mask) as usize)?;
        Ok(mask)
    }

    /// Changes the signals that the thread blocks.
    pub fn set_signal_mask(self, mask: u64) -> nix::Result<()> {
        self.request_with(libc::PTRACE_SETSIGMASK, size_of_val(&mask), (&raw const mask) as usize)
    }

    /// Reads memory; all of it, or `EFAULT`.
    pub fn read(self, from: u64, to: &mut [u8]) -> nix::Result<()> {
        let len = to.len();
        match self.read_some(from, to)? {
            count if count == len => Ok(()),
            _ => Err(Errno::EFAULT),
        }
    }

    /// Reads as much memory as there is, up to the length of `to`; returns how much.
    pub fn read_some(self, from: u64, to: &mut [u8]) -> nix::Result<usize> {
        let remote = [RemoteIoVec { base: from as usize, len: to.len() }];
        process_vm_readv(self.0, &mut [IoSliceMut::new(to)], &remote)
    }

    /// Reads a structure.
    pub fn read_plain<T: Plain + Default>(self, from: u64) -> nix::Result<T> {
        let mut value = T::default();
        self.read(from, bytes_of_mut(&mut value)).map(|()| value)
    }

    /// Reads words of 64 bits.
    pub fn read_words<const WORDS: usize>(self, from: u64) -> nix::Result<[u64; WORDS]> {
        // An array of this size cannot be named here.
        let mut bytes = vec![0; 8 * WORDS];
        self.read(from, &mut bytes)?;
        let (words, _) = bytes.as_chunks();
        Ok(std::array::from_fn(|index| u64::from_ne_bytes(words[index])))
    }

    /// The same for a process, even after its first thread has ended.
    pub fn read_words_of<const WORDS: usize>(process: Pid, from: u64) -> nix::Result<[u64; WORDS]> {
        match Self(process).read_words(from) {
            Err(Errno::ESRCH) => {
                let thread = proc::later_thread_of(process).ok_or(Errno::ESRCH)?;
                Self(thread).read_words(from)
            }
            read => read,
        }
    }

    /// Writes memory that the program may write itself; all of it, or `EFAULT`.
    pub fn write(self, to: u64, from: &[u8]) -> nix::Result<()> {
        self.write_parts([(to, from)])
    }

    /// The same, in several places.
    pub fn write_parts<const PARTS: usize>(self, parts: [(u64, &[u8]); PARTS]) -> nix::Result<()> {
        let local = parts.map(|(_, from)| IoSlice::new(from));
        let remote = parts.map(|(to, from)| RemoteIoVec { base: to as usize, len: from.len() });
        match process_vm_writev(self.0, &local, &remote)? {
            count if count == remote.iter().map(|it| it.len).sum::<usize>() => Ok(()),
            _ => Err(Errno::EFAULT),
        }
    }

    /// Writes words of 64 bits that the program may write itself.
    pub fn write_words(self, to: u64, words: &[u64]) -> nix::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.write(to, &bytes)
    }

    /// Reads one word of the stopped thread's memory, faster.
    pub fn peek(self, from: u64) -> nix::Result<u64> {
        ptrace::read(self.0, from as ptrace::AddressType).map(|word| word as u64)
    }

    /// Writes a word to memory that the program itself may not write.
    pub fn poke(self, to: u64, word: u64) -> nix::Result<()> {
        ptrace::write(self.0, to as ptrace::AddressType, word as i64)
    }

    /// The same, for bytes.
    pub fn poke_bytes(self, to: u64, bytes: &[u8]) -> nix::Result<()> {
        let end = to + bytes.len() as u64;
        for word in (to & !7..end).step_by(8) {
            let part = to.max(word)..end.min(word + 8);
            let from = &bytes[(part.start - to) as usize..(part.end - to) as usize];
            let mut new = if from.len() < 8 { self.peek(word)?.to_ne_bytes() } else { [0; 8] };
            new[(part.start - word) as usize..][..from.len()].copy_from_slice(from);
            self.poke(word, u64::from_ne_bytes(new))?;
        }
        Ok(())
    }

    /// Writes a word to memory that the program itself may not write, of a thread that may run.
    pub fn write_forcibly(self, to: u64, word: u64) -> std::io::Result<()> {
        let memory = File::options().write(true).open(format!("/proc/{}/mem", self.0))?;
        memory.write_all_at(&word.to_ne_bytes(), to)
    }

    /// A copy of a descriptor of the thread's process.
    pub fn borrow_descriptor(self, descriptor: u32) -> nix::Result<OwnedFd> {
        Pidfd::open(self.0)?.borrow_descriptor(descriptor)
    }

    fn request(self, request: impl Into<i64>, data: usize) -> nix::Result<()> {
        self.request_with(request, 0, data)
    }

    // C libraries disagree on the type of a request.
    fn request_with(self, request: impl Into<i64>, address: usize, data: usize) -> nix::Result<()> {
        // SAFETY: none of the requests above writes to our memory except PTRACE_GETSIGMASK and
        // PTRACE_GET_SYSCALL_INFO, whose `data` points to as many bytes as `address` says.
        let result = unsafe { libc::ptrace(request.into() as _, self.0.as_raw(), address, data) };
        Errno::result(result).map(drop)
    }
}

/// Polls for a while before it sleeps: stops come within microseconds.
fn wait_with_until(pid: i32, deadline: Instant) -> nix::Result<Option<(Tracee, Stop)>> {
    /// The number of polls before it sleeps in between.
    const EAGER: usize = 100;
    const PAUSE: Duration = Duration::from_micros(50);
    for turn in 0.. {
        match wait_with(pid, libc::WNOHANG)? {
            (0, _) if Instant::now() >= deadline => break,
            (0, _) if turn < EAGER && yield_if_free() => {}
            (0, _) => std::thread::sleep(PAUSE),
            (pid, stop) => return Ok(Some((Tracee(Pid::from_raw(pid)), stop))),
        }
    }
    Ok(None)
}

fn wait_with(pid: i32, flags: i32) -> nix::Result<(i32, Stop)> {
    loop {
        match wait_once(pid, flags) {
            Err(Errno::EINTR) => {}
            waited => return waited,
        }
    }
}

fn wait_once(pid: i32, flags: i32) -> nix::Result<(i32, Stop)> {
    if let Some((pid, status)) = take_collected(pid) {
        return Ok((pid, Stop::decode(status)));
    }
    let mut status = 0;
    // SAFETY: the pointer is to an int of ours.
    let result = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL | flags) };
    Errno::result(result).map(|pid| (pid, Stop::decode(status)))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use nix::sys::signal::kill;

    use super::*;

    #[test]
    fn a_stop_that_comes_while_a_thread_is_stepped_is_told_afterwards_unless_it_is_over() {
        for (continued, told) in [(false, Stop::Group), (true, Stop::Trap)] {
            let busy = "echo; while :; do :; done";
            let mut command = Command::new("sh");
            let mut process = command.args(["-c", busy]).stdout(Stdio::piped()).spawn().unwrap();
            // The program has started.
            process.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            let pid = Pid::from_raw(process.id() as i32);
            let thread = Tracee(pid);
            thread.seize().unwrap();
            thread.interrupt().unwrap();
            assert_eq!(thread.wait().unwrap(), Stop::Trap);
            kill(pid, Signal::SIGSTOP).unwrap();
            let mut looks = 0;
            let arrived = thread.step_until(|_| {
                looks += 1;
                looks > 10
            });
            assert!(arrived.unwrap(), "it goes on although its process is stopped");
            if continued {
                kill(pid, Signal::SIGCONT).unwrap();
            }
            thread.resume(None).unwrap();
            assert_eq!(thread.wait().unwrap(), told);
            thread.kill().unwrap();
            while thread.wait().unwrap() != Stop::Ended {}
            // It was reaped just now.
            process.wait().unwrap_err();
        }
    }
}
