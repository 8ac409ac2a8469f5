//! A caller: what is read from it and written to it.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::poll::PollFlags;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::{Pid, geteuid};
use serde::Serialize;

use super::super::protocol::{Event, Happened, LONGEST, Moment};

/// How much may be unread by a caller that watches before it misses events.
const MOST_UNREAD: usize = 64 * 1024;

/// A caller.
pub struct Connection {
    stream: UnixStream,
    /// Its process, as the supervisor sees it.
    pub pid: Pid,
    /// Whether the timeline belongs to its user.
    pub is_owner: bool,
    /// Whether one of its requests is being carried out.
    pub is_pending: bool,
    /// Whether events are reported to it.
    pub watches: bool,
    /// When it was last heard from.
    pub heard: Instant,
    input: Vec<u8>,
    /// Whether the rest of an overlong line is being skipped.
    skips: bool,
    output: Vec<u8>,
    /// The events since it started to watch, until that request is answered.
    early: Option<Vec<Happened>>,
    /// How many events it has missed.
    lost: u64,
    /// Whether it has closed its writing side.
    has_written: bool,
    /// Whether nothing can be written to it.
    pub is_gone: bool,
}

impl Connection {
    pub fn new(stream: UnixStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        let caller = getsockopt(&stream, PeerCredentials)?;
        Ok(Self {
            stream,
            pid: Pid::from_raw(caller.pid()),
            is_owner: caller.uid() == geteuid().as_raw(),
            is_pending: false,
            watches: false,
            heard: Instant::now(),
            input: Vec::new(),
            skips: false,
            output: Vec::new(),
            early: None,
            lost: 0,
            has_written: false,
            is_gone: false,
        })
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// What to poll it for. A hang-up is reported in any case.
    pub fn interest(&self) -> PollFlags {
        let mut interest = PollFlags::empty();
        // The next request is read once it has the answer to the last one.
        let reads = !self.is_pending && !self.has_written && self.output.is_empty();
        interest.set(PollFlags::POLLIN, reads);
        interest.set(PollFlags::POLLOUT, !self.output.is_empty());
        interest
    }

    /// Whether no request will follow.
    pub fn has_finished(&self) -> bool {
        self.has_written && self.input.is_empty()
    }

    /// Whether output is pending.
    pub fn is_owed(&self) -> bool {
        !self.output.is_empty()
    }

    /// Reads what is available.
    pub fn read(&mut self) {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => self.has_written = true,
            Ok(count) => {
                self.heard = Instant::now();
                self.input.extend_from_slice(&piece[..count]);
            }
            Err(error) if is_passing(error.kind()) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// The next line; the rest after the last line once the writing side is closed; an error if it
    /// is too long. Call it only if no request is pending.
    pub fn next_line(&mut self) -> Option<Result<String, TooLong>> {
        let end = match self.input.iter().position(|byte| *byte == b'\n') {
            Some(end) if self.skips => {
                self.input.drain(..=end);
                self.skips = false;
                return self.next_line();
            }
            Some(end) => end + 1,
            None if self.skips => {
                self.input.clear();
                return None;
            }
            None if self.input.len() > LONGEST => {
                self.input.clear();
                self.skips = true;
                return Some(Err(TooLong));
            }
            None if self.has_written && !self.input.is_empty() => self.input.len(),
            None => return None,
        };
        let line: Vec<_> = self.input.drain(..end).collect();
        Some(Ok(String::from_utf8_lossy(&line).into_owned()))
    }

    /// Writes a line, as far as the caller reads it.
    pub fn say(&mut self, line: &impl Serialize) {
        serde_json::to_writer(&mut self.output, line).expect("answers are plain data");
        self.output.push(b'\n');
        self.flush();
    }

    /// Starts to report events, after the answer to that request.
    pub fn watch(&mut self) {
        if !self.watches {
            self.watches = true;
            self.early = Some(Vec::new());
        }
    }

    /// Reports the events that came before that answer.
    pub fn tell_early(&mut self) {
        for happened in self.early.take().into_iter().flatten() {
            self.tell(&happened.event, happened.moment);
        }
    }

    /// Reports an event, unless too much is already unread.
    pub fn tell(&mut self, event: &Event, moment: Moment) {
        if let Some(early) = &mut self.early {
            early.push(Happened { event: event.clone(), moment });
            return;
        }
        if self.output.len() > MOST_UNREAD {
            self.lost += 1;
            return;
        }
        self.tell_lost(moment);
        self.say(&Happened { event: event.clone(), moment });
    }

    /// Reports how many events it has missed, if any, once it has read the others.
    pub fn tell_lost(&mut self, moment: Moment) {
        if self.lost > 0 && self.output.len() <= MOST_UNREAD {
            let event = Event::Lost { count: std::mem::take(&mut self.lost) };
            self.say(&Happened { event, moment });
        }
    }

    /// Writes as much as it accepts.
    pub fn flush(&mut self) {
        while !self.output.is_empty() && !self.is_gone {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_passing(error.kind()) => {}
                Err(_) => self.is_gone = true,
            }
        }
    }
}

/// A line longer than any request.
pub struct TooLong;

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
