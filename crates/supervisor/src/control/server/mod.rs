//! The supervisor's side of the socket.
//!
//! A separate thread serves all callers. The tracing thread carries out the requests, since the
//! kernel lets only that thread do so; it waits for the tracees in `waitpid`, so a stop costs no
//! more than without a socket. A signal wakes it there: that takes no process and no memory, and so
//! cannot fail.
//!
//! - `callers`: the thread that serves them.
//! - `connection`: what is read from a caller and written to it.
//! - `methods`: the requests of the protocol's methods to the tracing thread.
//! - `schedule`: a change that takes effect at an instant of the host's wall clock.
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

/// The signal that wakes the tracing thread. It does nothing by default, so it is harmless if it
/// comes too early, too late, or from another process.
const WAKING: Signal = Signal::SIGURG;

/// The ID of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Token(u64);

/// A request that awaits its answer.
pub struct Asked {
    /// The request.
    pub request: Request,
    /// The requesting process.
    pub caller: Pid,
    token: Token,
    post: Post,
    /// Whether the tracing thread has taken it.
    taken: Arc<AtomicBool>,
}

impl Asked {
    /// Sends the answer.
    pub fn answer(self, answer: Answer) {
        self.post.tell(Told::Answer(self.token, Box::new(answer)));
    }

    fn note_taken(&self) {
        self.taken.store(true, Ordering::Relaxed);
    }
}

/// A report of the tracing thread to the thread that serves callers.
enum Told {
    /// A request was carried out, or refused.
    Answer(Token, Box<Answer>),
    /// An event.
    Event(Event),
    /// A request to make once a process has ended.
    AskAfter(Pidfd, Box<Request>),
    /// The end of the timeline or of this supervisor.
    Finish(Event),
}

/// The channel from the tracing thread to the thread that serves callers.
#[derive(Clone)]
struct Post {
    tells: Sender<Told>,
    /// Wakes that thread, once it runs.
    bell: Arc<OnceLock<EventFd>>,
}

impl Post {
    fn tell(&self, told: Told) {
        // Once that thread has ended, there is no one left to report to.
        if self.tells.send(told).is_ok()
            && let Some(bell) = self.bell.get()
        {
            // It fails only if it is already signalled.
            let _ = bell.write(1);
        }
    }
}

/// The socket of a named timeline.
pub struct Control {
    /// The timeline's name.
    pub name: Name,
    /// The clocks with which it was created.
    pub clocks: Clocks,
    /// The directory of its name, as long as it has one.
    registry: Option<Registry>,
    listener: Arc<UnixListener>,
    asked: Receiver<Asked>,
    post: Post,
    /// Whether any caller waits for a condition or for events.
    is_watched: Arc<AtomicBool>,
    /// What the thread that serves callers starts with, until it starts.
    ends: Option<(Sender<Asked>, Receiver<Told>)>,
    serving: Option<JoinHandle<()>>,
    /// Starts that thread.
    begins: Option<Sender<()>>,
}

impl Control {
    /// Makes the socket, before anything is read from it.
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

    /// Duplicates the socket for another supervisor: nothing is read from it yet.
    pub fn copy(&self) -> std::io::Result<Self> {
        let gone = || std::io::Error::from(ErrorKind::NotFound);
        let registry = self.registry.as_ref().ok_or_else(gone)?.copy()?;
        let listener = self.listener.try_clone()?;
        Ok(Self::new(self.name.clone(), self.clocks.clone(), registry, listener))
    }

    /// Creates the thread that serves callers, which waits for [`start`](Self::start).
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
        // Listens once more, so that callers see this process behind the socket instead of the one
        // that created it.
        // SAFETY: no memory is involved.
        Errno::result(unsafe { libc::listen(self.listener.as_raw_fd(), BACKLOG) })?;
        // The thread waits for this.
        let _ = self.begins.take().map(|begins| begins.send(()));
        Ok(())
    }

    /// Stops answering once the pending answers are written.
    pub fn finish(&mut self, is_handed_over: bool) {
        let event = if is_handed_over { Event::Moved {} } else { Event::Removed {} };
        self.post.tell(Told::Finish(event));
        self.begins = None;
        // If it has panicked, it serves no one either.
        let _ = self.serving.take().map(JoinHandle::join);
    }

    /// A request, if there is one.
    pub fn take(&self) -> Option<Asked> {
        self.asked.try_recv().ok().inspect(Asked::note_taken)
    }

    /// Makes a request once a process has ended; fails if it has already ended, or cannot be waited
    /// for.
    pub fn ask_after(&self, process: Pid, request: Request) -> nix::Result<()> {
        let process = Pidfd::open(process)?;
        self.post.tell(Told::AskAfter(process, Box::new(request)));
        Ok(())
    }

    /// Waits for a request; `None` if none can come any more.
    pub fn wait(&self) -> Option<Asked> {
        self.asked.recv().ok().inspect(Asked::note_taken)
    }

    /// Waits this long for a request.
    pub fn wait_for(&self, span: Duration) -> Option<Asked> {
        self.asked.recv_timeout(span).ok().inspect(Asked::note_taken)
    }

    /// Reports an event to the watching callers, and rechecks the conditions of waiting ones, if
    /// there are any.
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        if self.is_watched.load(Ordering::Relaxed) {
            self.post.tell(Told::Event(event()));
        }
    }

    /// The path of its socket.
    pub fn socket(&self) -> Option<PathBuf> {
        self.registry.as_ref().map(|registry| registry.path().join(self.name.to_string()))
    }

    /// Whether its socket is where callers look for it.
    pub fn is_found(&self) -> bool {
        self.registry.as_ref().is_some_and(|registry| registry.has(&self.name))
    }

    /// Records that the timeline has a container.
    pub fn note_container(&self, container: &Container) -> Result<(), Unusable> {
        match &self.registry {
            Some(registry) => registry.note_container(container, &self.name),
            None => Ok(()),
        }
    }

    /// Removes that record.
    pub fn forget_container(&self, container: &Container) {
        if let Some(registry) = &self.registry {
            registry.forget_container(container);
        }
    }

    /// Releases the name; only once, since another timeline may have it then.
    pub fn forget(&mut self) {
        if let Some(registry) = self.registry.take() {
            // The process that takes the name next removes what is left.
            let _ = registry.lock().and_then(|_lock| registry.forget(&self.name));
        }
    }
}

/// Waits until a process has ended, at most this long.
pub fn await_end(process: Pid, patience: Option<Duration>) {
    if let Ok(process) = Pidfd::open(process) {
        process.await_end(patience);
    }
}

/// Whether the tracing thread has been woken, and has not checked since.
static WOKEN: AtomicBool = AtomicBool::new(false);

/// Whether this thread, which traces, has been woken since the last call.
pub fn was_woken() -> bool {
    WOKEN.load(Ordering::Relaxed) && WOKEN.swap(false, Ordering::Relaxed)
}

/// Records that it has been woken.
pub fn note_woken() {
    WOKEN.store(true, Ordering::Relaxed);
}

/// Makes a signal interrupt the waits of this thread.
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
