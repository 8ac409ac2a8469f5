//! The transport of frames: a byte stream with a deadline.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

/// A transport of frames.
pub trait Transport: Read + Write + Send {
    /// From now on reading and writing fail after this moment, with [`io::ErrorKind::TimedOut`].
    fn set_deadline(&mut self, deadline: Instant);

    /// Whether input has arrived or the other side is gone: reading does not wait.
    fn has_input(&mut self) -> bool;
}

/// A socket with a deadline.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    deadline: Instant,
}

impl Socket {
    /// A socket with this deadline.
    #[must_use]
    pub fn new(stream: TcpStream, deadline: Instant) -> Self {
        Self { stream, deadline }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // The kernel takes microseconds, and zero means forever.
        if left < Duration::from_micros(1) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    /// The first byte to arrive, which is not consumed; none if the other side is gone.
    ///
    /// # Errors
    /// If none arrives in time.
    pub fn peek(&self) -> io::Result<Option<u8>> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        let mut byte = [0];
        Ok((in_time(self.stream.peek(&mut byte))? > 0).then_some(byte[0]))
    }
}

/// A socket that was not ready in time reports that it would block.
fn in_time<T>(result: io::Result<T>) -> io::Result<T> {
    result.map_err(|why| match why.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => why,
    })
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        in_time(self.stream.read(into))
    }
}

impl Write for Socket {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        in_time(self.stream.write(from))
    }

    /// Writes all records of TLS at once: if a handshake fails, it writes only once, and the alert
    /// is last. A stream's own version would send SIGPIPE if the other side is gone.
    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        let mut nothing = SendAncillaryBuffer::default();
        let sent = sendmsg(&self.stream, from, &mut nothing, SendFlags::NOSIGNAL);
        in_time(sent.map_err(io::Error::from))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Transport for Socket {
    fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    fn has_input(&mut self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&self.stream, &mut [0_u8; 1], flags) != Err(rustix::io::Errno::AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener};

    use super::*;

    #[test]
    fn writing_to_nobody_fails_without_a_signal() {
        // SAFETY: this replaces the disposition of Rust's runtime, which ignores the signal.
        let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut socket = Socket::new(stream, Instant::now() + Duration::from_secs(60));
        let one = socket.write(b"frame").unwrap_err();
        let several = socket.write_vectored(&[IoSlice::new(b"fra"), IoSlice::new(b"me")]);
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGPIPE, before) };
        assert_eq!(one.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(several.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
