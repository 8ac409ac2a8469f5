//! Inside: a server that makes one process after the other, and the threads of such a process.

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;

use crate::case::Case;
use crate::random;
use crate::rows;
use crate::settings;
use crate::shared::{COLD, HAS_EXITED, HOT, Mapping, Slot, await_change};
use crate::site;
use crate::spec::{Spec, What};
use crate::waits::AWAITED;
use crate::world::{BREAKS, Helper, RESTARTS, SET_TO_IGNORE, World, must};

/// How often the site is used before the comparison, far more often than it takes to be rewritten.
const WARM: u32 = 1_000;
const CLOCK_GETTIME: u32 = 228;
const CLOCK_NANOSLEEP: u32 = 230;

/// Serves by all files of a directory until the standard input ends.
pub fn serve(directory: &Path, servers: usize, warm: bool) -> io::Result<()> {
    if warm {
        warm_up();
    }
    // Made once, for all processes.
    rows::all();
    let mut children = Vec::new();
    for number in 0..servers {
        let mapping = Mapping::open(&directory.join(number.to_string()))?;
        match fork() {
            0 => serve_one(mapping),
            child => children.push(child),
        }
    }
    io::stdin().read_to_end(&mut Vec::new())?;
    for &child in &children {
        must(libc::SYS_kill, &[child, libc::SIGKILL as u64]);
    }
    // A timeline that has members cannot be removed.
    for child in children {
        must(libc::SYS_wait4, &[child, 0, 0, 0]);
    }
    Ok(())
}

/// Makes calls that stop, as long as they do.
fn warm_up() {
    let mut time = [0i64; 2];
    let read = [0, time.as_mut_ptr() as u64, 0, 0, 0, 0];
    for _ in 0..WARM {
        if site::is_rewritten() {
            return;
        }
        site::call(CLOCK_GETTIME, &read);
        // Long ago on the wall clock.
        let past = [0u64, 1];
        let sleep = [libc::CLOCK_REALTIME as u64, 1, past.as_ptr() as u64, 0, 0, 0];
        site::call(CLOCK_NANOSLEEP, &sleep);
    }
}

fn fork() -> u64 {
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", io::Error::last_os_error());
    child as u64
}

fn serve_one(mapping: Mapping) -> ! {
    must(libc::SYS_prctl, &[libc::PR_SET_PDEATHSIG as u64, libc::SIGKILL as u64]);
    let shared = mapping.get();
    let is_hot = if site::is_rewritten() { HOT } else { COLD };
    shared.ready.store(is_hot, Ordering::Release);
    let mut seen = 0;
    loop {
        seen = await_change(&shared.command, seen);
        let child = fork();
        if child == 0 {
            live(mapping);
        }
        shared.pid.store(child as u32, Ordering::Release);
        mapping.tell();
        watch(mapping, child);
    }
}

/// Tells what becomes of the process.
fn watch(mapping: Mapping, child: u64) {
    let shared = mapping.get();
    loop {
        let mut status = 0i32;
        let options = (libc::WUNTRACED | libc::WCONTINUED) as u64;
        must(libc::SYS_wait4, &[child, &raw mut status as u64, options, 0]);
        if libc::WIFSTOPPED(status) {
            shared.stopped.fetch_add(1, Ordering::Release);
        } else if libc::WIFCONTINUED(status) {
            shared.continued.fetch_add(1, Ordering::Release);
        } else {
            shared.exited.store(status as u32 | HAS_EXITED, Ordering::Release);
        }
        mapping.tell();
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            return;
        }
    }
}

extern "C" fn note_signal(_: i32) {
    let tid = must(libc::SYS_gettid, &[]) as u32;
    if let Some(mapping) = MAPPING.get() {
        let slots = &mapping.get().slots;
        if let Some(slot) = slots.iter().find(|slot| slot.tid.load(Ordering::Relaxed) == tid) {
            slot.handled.fetch_add(1, Ordering::Release);
            mapping.tell();
        }
    }
}

static MAPPING: std::sync::OnceLock<Mapping> = std::sync::OnceLock::new();

/// What every process of the comparison does with signals.
fn set_signals() {
    let set = |signal: i32, handler: usize, flags: i32| {
        // SAFETY: all zeros is a valid value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        (action.sa_sigaction, action.sa_flags) = (handler, flags);
        // SAFETY: the handler calls only what a handler may.
        let result = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        assert!(result == 0, "signal {signal}");
    };
    let handler = note_signal as extern "C" fn(i32) as usize;
    set(BREAKS, handler, 0);
    set(RESTARTS, handler, libc::SA_RESTART);
    set(SET_TO_IGNORE, libc::SIG_IGN, 0);
    set(libc::SIGCHLD, libc::SIG_DFL, 0);
}

fn block(mask: u64) {
    must(libc::SYS_rt_sigprocmask, &[libc::SIG_BLOCK as u64, &raw const mask as u64, 0, 8]);
}

/// A process: it does what the driver has written down, and ends.
fn live(mapping: Mapping) -> ! {
    // If nobody has set it, it is set now.
    let _ = MAPPING.set(mapping);
    std::panic::set_hook(Box::new(move |info| {
        mapping.append(0, &format!("panicked: {info}\n"));
        std::process::exit(101);
    }));
    set_signals();
    // Of all threads: waited for, or taken by a timer's case.
    block(1 << (AWAITED - 1) | 1 << (libc::SIGALRM - 1));
    act(mapping, Spec::parse(&mapping.spec()));
    std::process::exit(0);
}

/// Does what was asked for, beside a helper.
fn act(mapping: Mapping, spec: Spec) {
    let shared = &mapping.get().slots[0];
    let helper = Helper::default();
    let serving = helper.clone();
    thread::spawn(move || {
        block(u64::MAX);
        serving.serve(mapping, shared);
    });
    await_change(&shared.done, 0);
    let mut world = World::new(mapping, 0, spec.scale, helper);
    shared.tid.store(world.caller() as u32, Ordering::Release);
    mapping.tell();
    match spec.what {
        What::Case(place) => perform(&mut world, &rows::all()[place]),
        What::Permitted(place) => perform(&mut world, &settings::permitted()[place].0),
        What::Sequence(sequence) => random::perform(&mut world, &sequence),
    }
    finish(shared);
    mapping.tell();
}

/// Does the case.
fn perform(world: &mut World, case: &Case) {
    let shared = &world.mapping.get().slots[world.slot];
    let handled = shared.handled.load(Ordering::Acquire);
    world.begin();
    (case.body)(world);
    let handled = shared.handled.load(Ordering::Acquire) - handled;
    let record = world.end();
    let mut line = format!("{}{record}", case.name);
    if handled > 0 {
        // How many of many there were is not the program's to say.
        line.push_str(" handled");
    }
    world.mapping.append(world.slot, &line);
}

/// Shows that an operation is over, whether or not it made a call that waits.
fn finish(slot: &Slot) {
    let state = slot.state.load(Ordering::Relaxed);
    slot.state.store((state | 1) + 1, Ordering::Release);
}
