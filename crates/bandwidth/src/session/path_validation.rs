//! How the server learns where a client's datagrams come from, and that they come from there, as QUIC
//! validates paths (RFC 9000, section 8.2).
//!
//! The client tells a nonce over the control channel and sends it as a datagram; the server answers
//! that one with a challenge, and the client repeats it over the control channel: only who receives at
//! the address can. Both datagrams are of one length: nobody is answered with more than came.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};

use super::token::random;
use super::udp;

/// What the datagrams begin with.
const REQUEST: &[u8; 8] = b"Etbw req";
const CHALLENGE: &[u8; 8] = b"Etbw cha";

/// Beginning, nonce, and the challenge or as many zeros.
const LENGTH: usize = 8 + 8 + 8;

type Datagram = [u8; LENGTH];

/// A fresh number that nobody can guess.
fn unpredictable() -> u64 {
    u64::from_be_bytes(random())
}

fn datagram(begin: &[u8; 8], nonce: u64, challenge: u64) -> Datagram {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(begin);
    bytes[8..16].copy_from_slice(&nonce.to_be_bytes());
    bytes[16..].copy_from_slice(&challenge.to_be_bytes());
    bytes
}

/// The client's request with this nonce.
#[must_use]
pub fn request(nonce: u64) -> Datagram {
    datagram(REQUEST, nonce, 0)
}

/// What a challenge says that answers the request with this nonce, if it is one.
fn read_challenge(bytes: &[u8], nonce: u64) -> Option<u64> {
    let challenge = u64::from_be_bytes(*bytes.last_chunk()?);
    (bytes == datagram(CHALLENGE, nonce, challenge)).then_some(challenge)
}

/// The server's UDP port. Its socket is only ever read while a request is awaited, and never sent
/// from: whatever comes from elsewhere ends here, and is not answered, not even by the kernel.
#[derive(Debug)]
pub struct Port {
    socket: UdpSocket,
}

/// How much of what has come before is thrown away at most: more than the socket has room for.
const OLD: u32 = 10_000;

impl Port {
    /// At this address.
    ///
    /// # Errors
    /// If there can be no socket.
    pub fn at(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { socket: udp::at(address)? })
    }

    /// Throws away what has come so far.
    pub fn clear(&self) {
        let any = || recv(&self.socket, &mut [0_u8; 1], RecvFlags::DONTWAIT);
        (0..OLD).find(|_| any().is_err());
    }

    /// Waits for the request with this nonce and answers it, from this address, with a challenge: to
    /// where it came from, if it came.
    ///
    /// # Errors
    /// If the socket is of no use any more.
    pub fn challenge(
        &self,
        nonce: u64,
        local: SocketAddr,
        time: Duration,
    ) -> io::Result<Option<Challenge>> {
        let until = Instant::now() + time;
        while let Some((bytes, length, from)) = next(&self.socket, until)? {
            if bytes[..length] != request(nonce) {
                continue;
            }
            let challenge = Challenge { address: udp::canonical(from), value: unpredictable() };
            // One that cannot be sent is like one that is lost: the client tries again. The socket
            // goes at once, or it would get the client's next request.
            let _ = challenge.socket(local)?.send(&datagram(CHALLENGE, nonce, challenge.value));
            return Ok(Some(challenge));
        }
        Ok(None)
    }
}

/// What was sent to an address, which a client has yet to prove.
#[derive(Debug)]
pub struct Challenge {
    /// Where the request came from.
    pub address: SocketAddr,
    /// What the client has to say.
    pub value: u64,
}

impl Challenge {
    /// A socket at this address of ours, connected to that one: the kernel gives it what comes from
    /// there, and nothing else.
    ///
    /// # Errors
    /// If there is no way there.
    pub fn socket(&self, local: SocketAddr) -> io::Result<UdpSocket> {
        let socket = udp::at(local)?;
        socket.connect(self.address)?;
        Ok(socket)
    }
}

/// The client's side: what it has sent.
pub struct Request<'a> {
    socket: &'a UdpSocket,
    /// What the server has to be told.
    pub nonce: u64,
}

impl<'a> Request<'a> {
    /// Sends one through a socket that is connected to the server. A datagram that cannot be sent is
    /// like one that is lost.
    #[must_use]
    pub fn send(socket: &'a UdpSocket) -> Self {
        let nonce = unpredictable();
        let _ = socket.send(&request(nonce));
        Self { socket, nonce }
    }

    /// The challenge, if it comes in time.
    ///
    /// # Errors
    /// If the socket is of no use any more.
    pub fn challenge(&self, time: Duration) -> io::Result<Option<u64>> {
        let until = Instant::now() + time;
        while let Some((bytes, length, _)) = next(self.socket, until)? {
            let challenge = read_challenge(&bytes[..length], self.nonce);
            if challenge.is_some() {
                return Ok(challenge);
            }
        }
        Ok(None)
    }
}

/// The next datagram, or as much of it as tells that it is too long; none until then.
fn next(
    socket: &UdpSocket,
    until: Instant,
) -> io::Result<Option<([u8; LENGTH + 1], usize, SocketAddr)>> {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    let mut bytes = [0; LENGTH + 1];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // The kernel takes microseconds, and none of them for ever.
        if left < Duration::from_micros(1) {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) => return Ok(Some((bytes, length, from))),
            // The time is over; or it was refused what it sent before.
            Err(why) if [WouldBlock, ConnectionRefused, Interrupted].contains(&why.kind()) => {}
            Err(why) => return Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_challenge_answers_one_request_with_no_more_bytes() {
        let challenge = datagram(CHALLENGE, 7, 8);
        assert_eq!(read_challenge(&challenge, 7), Some(8));
        assert_eq!(read_challenge(&challenge, 6), None, "another request's");
        assert_eq!(read_challenge(&request(7), 7), None, "sent back");
        assert_eq!(read_challenge(&[&challenge[..], &[0]].concat(), 7), None);
        assert_eq!(challenge.len(), request(7).len());
    }

    proptest! {
        #[test]
        fn garbage_is_no_challenge(bytes in prop::collection::vec(any::<u8>(), 0..64), nonce: u64) {
            prop_assert_eq!(read_challenge(&bytes, nonce), None);
        }
    }
}
