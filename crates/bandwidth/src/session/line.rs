//! What frames go over: bytes both ways, none of them later than they may be.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};

/// What frames go over.
pub trait Line: Read + Write + Send {
    /// From now on reading and writing fail after this moment, with [`io::ErrorKind::TimedOut`].
    fn until(&mut self, deadline: Instant);

    /// Whether something has come, or the other side is gone: reading does not wait.
    fn has_news(&mut self) -> bool;

    /// What both sides know of the encryption under it, if there is one, and nobody in between.
    fn binding(&self) -> Option<[u8; 32]> {
        None
    }
}

/// A socket whose calls can be made to end.
pub trait Socket: Read + Write + AsFd + Send {
    /// How long reading may wait.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn reading(&self, time: Duration) -> io::Result<()>;

    /// How long writing may wait.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn writing(&self, time: Duration) -> io::Result<()>;
}

macro_rules! socket {
    ($stream:ty) => {
        impl Socket for $stream {
            fn reading(&self, time: Duration) -> io::Result<()> {
                self.set_read_timeout(Some(time))
            }

            fn writing(&self, time: Duration) -> io::Result<()> {
                self.set_write_timeout(Some(time))
            }
        }
    };
}

socket!(TcpStream);
socket!(UnixStream);

/// A socket with a deadline.
#[derive(Debug)]
pub struct Timed<S> {
    socket: S,
    deadline: Instant,
}

impl<S: Socket> Timed<S> {
    /// With this one.
    pub fn new(socket: S, deadline: Instant) -> Self {
        Self { socket, deadline }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // The kernel takes microseconds, and none of them for ever.
        if left < Duration::from_micros(1) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// A socket that was not ready in time says that it would block.
fn in_time<T>(result: io::Result<T>) -> io::Result<T> {
    result.map_err(|why| match why.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => why,
    })
}

impl<S: Socket> Read for Timed<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.reading(self.left()?)?;
        in_time(self.socket.read(into))
    }
}

impl<S: Socket> Write for Timed<S> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.socket.writing(self.left()?)?;
        in_time(self.socket.write(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl<S: Socket> Line for Timed<S> {
    fn until(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    fn has_news(&mut self) -> bool {
        news(self.socket.as_fd())
    }
}

/// Whether reading would end at once.
fn news(socket: BorrowedFd<'_>) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    recv(socket, &mut [0_u8; 1], flags) != Err(rustix::io::Errno::AGAIN)
}
