//! The supervisor's side of the socket.
//!
//! A thread of its own serves all callers. The thread that traces carries requests out, since the
//! kernel lets only the tracing thread do so; it waits in `waitpid` for the traced, so that a stop
//! costs no more than without a socket. A signal wakes it there: that takes no process and no memory,
//! and so cannot fail.
//!
//! - `callers`: the thread that serves them.
//! - `connection`: what is read from a caller, and written to it.
//! - `methods`: what the methods of the protocol ask of the tracing thread.
//! - `schedule`: a change that is to take hold at an instant of the host's wall clock.
//! - `waits`: conditions that callers wait for.

mod callers;
mod connection;
mod methods;
mod schedule;
mod waits;

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::Pid;

use super::{Answer, Event, Request};
use crate::container_id::Container;
use crate::plan::Clocks;
use crate::proc::Pidfd;
use crate::region::Region;
use crate::registry::{Name, Registry, Unusable};
use callers::Callers;
pub use waits::NO_SKIPS;

/// How many callers may wait to be accepted.
const BACKLOG: i32 = 1024;

/// What wakes the tracing thread. A signal that does nothing by default, so that one that comes
/// too early or too late, or from somebody else, does no harm.
const WAKING: Signal = Signal::SIGURG;

/// Tells a request from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Token(u64);

/// A request that waits for its answer.
pub struct Asked {
    /// What is asked.
    pub request: Request,
    /// Who asks.
    pub caller: Pid,
    token: Token,
    post: Post,
    /// Has the tracing thread taken it?
    taken: Arc<AtomicBool>,
}

impl Asked {
    /// Answers.
    pub fn answer(self, answer: Answer) {
        self.post.tell(Told::Answer(self.token, Box::new(answer)));
    }

    fn note_taken(&self) {
        self.taken.store(true, Ordering::Relaxed);
    }
}

/// What the tracing thread tells the one that serves callers.
enum Told {
    /// A request was carried out, or refused.
    Answer(Token, Box<Answer>),
    /// Something has happened.
    Event(Event),
    /// A request is to be made once a process has ended.
    AskAfter(Pidfd, Box<Request>),
    /// All ends: the timeline, or this supervisor.
    Finish(Event),
}

/// The way from the tracing thread to the one that serves callers.
#[derive(Clone)]
struct Post {
    tells: Sender<Told>,
    /// What wakes that thread, once it runs.
    bell: Arc<OnceLock<EventFd>>,
}

impl Post {
    fn tell(&self, told: Told) {
        // Once nobody serves callers any more, nobody is left to be told.
        if self.tells.send(told).is_ok()
            && let Some(bell) = self.bell.get()
        {
            // It fails only if it rings already.
            let _ = bell.write(1);
        }
    }
}

/// The socket of a named timeline.
pub struct Control {
    /// The timeline's name.
    pub name: Name,
    /// What its clocks were made to be.
    pub clocks: Clocks,
    /// Where its name stands, as long as it has it.
    registry: Option<Registry>,
    listener: Arc<UnixListener>,
    asked: Receiver<Asked>,
    post: Post,
    /// Does anybody wait for a condition, or for events?
    is_watched: Arc<AtomicBool>,
    /// What the thread that serves callers begins with, until it does.
    ends: Option<(Sender<Asked>, Receiver<Told>)>,
    serving: Option<JoinHandle<()>>,
    /// Lets that thread begin.
    begins: Option<Sender<()>>,
}

impl Control {
    /// The socket, before anything is read from it.
    pub fn new(name: Name, clocks: Clocks, registry: Registry, listener: UnixListener) -> Self {
        let ((asks, asked), (tells, told)) = (channel(), channel());
        Self {
            name,
            clocks,
            registry: Some(registry),
            listener: Arc::new(listener),
            asked,
            post: Post { tells, bell: Arc::default() },
            is_watched: Arc::default(),
            ends: Some((asks, told)),
            serving: None,
            begins: None,
        }
    }

    /// The descriptors that the supervisor needs.
    pub fn descriptors(&self) -> Vec<i32> {
        let registry = self.registry.as_ref().map(Registry::descriptor);
        [self.listener.as_raw_fd()].into_iter().chain(registry).collect()
    }

    /// The number of its descriptor.
    pub fn listener(&self) -> i32 {
        self.listener.as_raw_fd()
    }

    /// The same socket, for another supervisor: nothing is read from it yet.
    pub fn copy(&self) -> std::io::Result<Self> {
        let gone = || std::io::Error::from(ErrorKind::NotFound);
        let registry = self.registry.as_ref().ok_or_else(gone)?.copy()?;
        let listener = self.listener.try_clone()?;
        Ok(Self::new(self.name.clone(), self.clocks.clone(), registry, listener))
    }

    /// Makes the thread that serves callers, which waits for [`start`](Self::start).
    pub fn prepare(&mut self, region: &Arc<Region>) -> std::io::Result<()> {
        let Some((asks, told)) = self.ends.take() else { return Ok(()) };
        self.listener.set_nonblocking(true)?;
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let bell = self.post.bell.get_or_init(|| bell).as_fd().try_clone_to_owned()?;
        interrupt_by(WAKING)?;
        let mut callers = Callers::new(callers::Ends {
            name: self.name.clone(),
            socket: self.socket(),
            region: Arc::clone(region),
            listener: Arc::clone(&self.listener),
            bell,
            asks,
            told,
            post: self.post.clone(),
            is_watched: Arc::clone(&self.is_watched),
        });
        let (begins, begun) = channel();
        let thread = thread::Builder::new().name("control".to_owned());
        let serve = move || begun.recv().into_iter().for_each(|()| callers.serve());
        self.serving = Some(thread.spawn(serve)?);
        self.begins = Some(begins);
        Ok(())
    }

    /// Starts to read requests.
    pub fn start(&mut self, region: &Arc<Region>) -> std::io::Result<()> {
        self.prepare(region)?;
        // Once more, so that callers see this process behind the socket, not the one
        // that made it.
        // SAFETY: no memory is involved.
        Errno::result(unsafe { libc::listen(self.listener.as_raw_fd(), BACKLOG) })?;
        // The thread waits for it.
        let _ = self.begins.take().map(|begins| begins.send(()));
        Ok(())
    }

    /// Answers nothing more, once what has been answered is written.
    pub fn finish(&mut self, is_handed_over: bool) {
        let event = if is_handed_over { Event::Moved {} } else { Event::Removed {} };
        self.post.tell(Told::Finish(event));
        self.begins = None;
        // If it has panicked, it serves nobody either.
        let _ = self.serving.take().map(JoinHandle::join);
    }

    /// A request, if there is one.
    pub fn take(&self) -> Option<Asked> {
        self.asked.try_recv().ok().inspect(Asked::note_taken)
    }

    /// Asks for something once a process has ended; fails if it has already, or cannot be waited for.
    pub fn ask_after(&self, process: Pid, request: Request) -> nix::Result<()> {
        let process = Pidfd::open(process)?;
        self.post.tell(Told::AskAfter(process, Box::new(request)));
        Ok(())
    }

    /// Waits for a request; `None` if none can come any more.
    pub fn wait(&self) -> Option<Asked> {
        self.asked.recv().ok().inspect(Asked::note_taken)
    }

    /// Waits for a request for so long.
    pub fn wait_for(&self, span: Duration) -> Option<Asked> {
        self.asked.recv_timeout(span).ok().inspect(Asked::note_taken)
    }

    /// Tells those who watch, and looks after those who wait, if there are any.
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        if self.is_watched.load(Ordering::Relaxed) {
            self.post.tell(Told::Event(event()));
        }
    }

    /// Where its socket is.
    pub fn socket(&self) -> Option<PathBuf> {
        self.registry.as_ref().map(|registry| registry.path().join(self.name.to_string()))
    }

    /// Is its socket where callers look for it?
    pub fn is_found(&self) -> bool {
        self.registry.as_ref().is_some_and(|registry| registry.has(&self.name))
    }

    /// Writes down that the timeline has a container.
    pub fn note_container(&self, container: &Container) -> Result<(), Unusable> {
        match &self.registry {
            Some(registry) => registry.note_container(container, &self.name),
            None => Ok(()),
        }
    }

    /// Takes that back.
    pub fn forget_container(&self, container: &Container) {
        if let Some(registry) = &self.registry {
            registry.forget_container(container);
        }
    }

    /// Makes the name free; once, since another may have it then.
    pub fn forget(&mut self) {
        if let Some(registry) = self.registry.take() {
            // Whoever takes the name next removes what is left.
            let _ = registry.lock().and_then(|_lock| registry.forget(&self.name));
        }
    }
}

/// Waits until a process has ended, at most for so long.
pub fn await_end(process: Pid, patience: Option<Duration>) {
    if let Ok(process) = Pidfd::open(process) {
        process.await_end(patience);
    }
}

/// Has the tracing thread been woken, and not looked since?
static WOKEN: AtomicBool = AtomicBool::new(false);

/// Has this thread, which traces, been woken since it was asked last?
pub fn was_woken() -> bool {
    WOKEN.load(Ordering::Relaxed) && WOKEN.swap(false, Ordering::Relaxed)
}

/// Notes that it is woken.
pub fn note_woken() {
    WOKEN.store(true, Ordering::Relaxed);
}

/// Lets a signal interrupt what this thread waits in.
fn interrupt_by(signal: Signal) -> nix::Result<()> {
    extern "C" fn note(_: i32) {
        note_woken();
    }
    let action = SigAction::new(SigHandler::Handler(note), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler stores to an atomic and does nothing else.
    unsafe { sigaction(signal, &action) }?;
    SigSet::from(signal).thread_unblock()
}

/// Wakes the tracing thread, which is the first one of this process, if it waits for children.
fn wake_tracer() {
    let process = Pid::this().as_raw();
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_tgkill, process, process, WAKING as i32) };
}
