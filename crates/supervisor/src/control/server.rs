//! The supervisor's side of the socket.
//!
//! Requests are read and answers written by a thread of their own. The thread that
//! traces carries them out, since the kernel lets only the tracing thread do so; it
//! waits in `waitpid` for the traced, so that a stop costs no more than without a
//! socket. A signal wakes it there: that takes no process and no memory, and so cannot fail.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::{Pid, geteuid};

use super::{Answer, Request};
use crate::container_id::Container;
use crate::plan::Clocks;
use crate::proc::Pidfd;
use crate::registry::{Name, Registry, Unusable};

/// How many callers may wait to be served.
const BACKLOG: i32 = 128;

/// The longest request that is read.
const LONGEST: u64 = 64 * 1024;

/// How long a caller may take to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many callers are served at once.
const MOST_SERVED: usize = 64;

/// How long to wait with the next caller where this process has no descriptor, memory or thread
/// left for one, unless one of those that are served goes before.
const SHORTAGE: Duration = Duration::from_millis(100);

/// What wakes the tracing thread. A signal that does nothing by default, so that one that comes
/// too early or too late, or from somebody else, does no harm.
const WAKING: Signal = Signal::SIGURG;

/// How soon the tracing thread is woken again that has not taken a request: the signal comes too
/// early if the thread is just about to wait.
const WAKE_AGAIN: Duration = Duration::from_millis(1);
const WAKE_AGAIN_AT_MOST: Duration = Duration::from_millis(64);

/// A request that waits for its answer.
pub struct Asked {
    /// What is asked.
    pub request: Request,
    /// Who asks.
    pub caller: Pid,
    answer: SyncSender<Answer>,
    /// Has the tracing thread taken it?
    taken: Arc<AtomicBool>,
}

impl Asked {
    /// Answers.
    pub fn answer(self, answer: Answer) {
        // A caller that has gone meanwhile needs none.
        let _ = self.answer.send(answer);
    }

    fn note_taken(&self) {
        self.taken.store(true, Ordering::Relaxed);
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
    /// Lets the thread begin that reads requests, once there is one.
    begins: Option<SyncSender<()>>,
    asked: Option<Receiver<Asked>>,
    /// The other end.
    asks: SyncSender<Asked>,
    /// Held while a caller is served.
    serving: Arc<RwLock<()>>,
}

impl Control {
    /// The socket, before anything is read from it.
    pub fn new(name: Name, clocks: Clocks, registry: Registry, listener: UnixListener) -> Self {
        let (asks, asked) = sync_channel(1);
        Self {
            name,
            clocks,
            registry: Some(registry),
            listener: Arc::new(listener),
            begins: None,
            asked: Some(asked),
            asks,
            serving: Arc::default(),
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

    /// Makes the thread that reads requests, which waits for [`start`](Self::start).
    pub fn prepare(&mut self) -> std::io::Result<()> {
        let listener = Arc::clone(&self.listener);
        let (asks, serving) = (self.asks.clone(), Arc::clone(&self.serving));
        let (begins, begun) = sync_channel(1);
        self.begins = Some(begins);
        interrupt_by(WAKING)?;
        let thread = thread::Builder::new().name("control".to_owned());
        let serve =
            move || begun.recv().into_iter().for_each(|()| serve(&listener, &asks, &serving));
        thread.spawn(serve).map(drop)
    }

    /// Starts to read requests.
    pub fn start(&mut self) -> std::io::Result<()> {
        if self.begins.is_none() {
            self.prepare()?;
        }
        // Once more, so that callers see this process behind the socket, not the one
        // that made it.
        // SAFETY: no memory is involved.
        Errno::result(unsafe { libc::listen(self.listener.as_raw_fd(), BACKLOG) })?;
        // The thread waits for it.
        let _ = self.begins.take().map(|begins| begins.send(()));
        Ok(())
    }

    /// Answers nothing more, once the answer that is being given has been.
    pub fn finish(&mut self) {
        self.asked = None;
        // Poisoned, it is free as well.
        drop(self.serving.write());
    }

    /// A request, if there is one.
    pub fn take(&self) -> Option<Asked> {
        self.asked.as_ref()?.try_recv().ok().inspect(Asked::note_taken)
    }

    /// Asks for something once a process has ended.
    pub fn ask_after(&self, process: i32, request: Request) {
        let asks = self.asks.clone();
        let waits = move || {
            await_end(Pid::from_raw(process), None);
            pass_on(request, Pid::this(), &asks);
        };
        // Without the thread nothing is asked, and the container ends with its own end.
        let _ = thread::Builder::new().name("end".to_owned()).spawn(waits);
    }

    /// Waits for a request; `None` if none can come any more.
    pub fn wait(&self) -> Option<Asked> {
        self.asked.as_ref()?.recv().ok().inspect(Asked::note_taken)
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

fn serve(listener: &UnixListener, asked: &SyncSender<Asked>, serving: &Arc<RwLock<()>>) {
    let served = Arc::new(Served::default());
    loop {
        served.await_room();
        let Ok((stream, _)) = listener.accept() else {
            // The caller waits in the backlog meanwhile.
            served.await_end_of_one();
            continue;
        };
        let serving_one = Served::begin(&served);
        let stream = Arc::new(stream);
        let (own_stream, own_asked) = (Arc::clone(&stream), asked.clone());
        let own_serving = Arc::clone(serving);
        // Each by itself, so that a slow one keeps nobody waiting. One that does not keep
        // to the rules gets no answer and harms nobody.
        let started = thread::Builder::new().name("caller".to_owned()).spawn(move || {
            let _serving_one = serving_one;
            let _serving = own_serving.read();
            serve_one(&own_stream, &own_asked)
        });
        if started.is_err() {
            // Where no thread can be made, the others have to wait.
            let _serving = serving.read();
            let _ = serve_one(&stream, asked);
        }
    }
}

/// How many callers are served now.
#[derive(Default)]
struct Served {
    count: Mutex<usize>,
    ended: Condvar,
}

/// The place of one that is served.
struct Serving(Arc<Served>);

impl Served {
    fn begin(served: &Arc<Self>) -> Serving {
        *served.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Serving(Arc::clone(served))
    }

    fn await_room(&self) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.ended.wait_while(count, |count| *count >= MOST_SERVED));
    }

    fn await_end_of_one(&self) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.ended.wait_timeout(count, SHORTAGE));
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.ended.notify_all();
    }
}

/// Reads a line, all of it within the time that a caller may take.
fn read_line(stream: &UnixStream) -> std::io::Result<String> {
    let end = Instant::now() + PATIENCE;
    let (mut line, mut reader) = (Vec::new(), stream.take(LONGEST));
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 4096];
        let count = reader.read(&mut piece)?;
        line.extend_from_slice(&piece[..count]);
        if count == 0 || piece[..count].contains(&b'\n') {
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
    }
}

fn serve_one(mut stream: &UnixStream, asked: &SyncSender<Asked>) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let caller = getsockopt(stream, PeerCredentials)?;
    let line = read_line(stream)?;
    if has_gone(stream)? {
        // It has given up; what it was told has not been done must not be done.
        return Ok(());
    }
    let answer = if caller.uid() == geteuid().as_raw() {
        match serde_json::from_str(&line) {
            Ok(request) => match pass_on(request, Pid::from_raw(caller.pid()), asked) {
                Some(answer) => answer,
                // The timeline has ended, as the caller sees.
                None => return Ok(()),
            },
            Err(_) if line.is_empty() => return Ok(()),
            Err(error) => Answer::Refused(format!("this version does not know that ({error})")),
        }
    } else {
        Answer::Refused("this timeline belongs to another user".to_owned())
    };
    let mut line = serde_json::to_string(&answer).expect("answers are plain data");
    line.push('\n');
    stream.write_all(line.as_bytes())
}

/// Has the caller hung up?
fn has_gone(stream: &UnixStream) -> nix::Result<bool> {
    let mut state = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    poll(&mut state, PollTimeout::ZERO)?;
    Ok(state[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP)))
}

/// Has a request carried out; `None` if nobody does any more.
fn pass_on(request: Request, caller: Pid, asked: &SyncSender<Asked>) -> Option<Answer> {
    let (answer, answered) = sync_channel(1);
    let taken = Arc::new(AtomicBool::new(false));
    asked.send(Asked { request, caller, answer, taken: Arc::clone(&taken) }).ok()?;
    let mut patience = WAKE_AGAIN;
    while !taken.load(Ordering::Relaxed) {
        wake_tracer();
        match answered.recv_timeout(patience) {
            Ok(answer) => return Some(answer),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => patience = (patience * 2).min(WAKE_AGAIN_AT_MOST),
        }
    }
    answered.recv().ok()
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

/// Lets a signal interrupt what this thread waits in.
fn interrupt_by(signal: Signal) -> nix::Result<()> {
    extern "C" fn note(_: i32) {
        WOKEN.store(true, Ordering::Relaxed);
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
