//! How the server learns and verifies the source address of a client's datagrams, as QUIC validates
//! paths (RFC 9000, section 8.2).
//!
//! The client sends a nonce over the control channel and as a datagram; the server answers the
//! datagram with a challenge, and the client repeats that over the control channel: only a receiver
//! at the address can. Both datagrams have the same length, so no answer is longer than its
//! request.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};

use super::token::random;
use super::udp;

/// The first bytes of the datagrams.
const REQUEST: &[u8; 8] = b"Etbw req";
const CHALLENGE: &[u8; 8] = b"Etbw cha";

/// The prefix, the nonce, and the challenge or zeros.
const LENGTH: usize = 8 + 8 + 8;

type Datagram = [u8; LENGTH];

/// A fresh unpredictable number.
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

/// The challenge in a datagram that answers the request with this nonce, if it is one.
fn read_challenge(bytes: &[u8], nonce: u64) -> Option<u64> {
    let challenge = u64::from_be_bytes(*bytes.last_chunk()?);
    (bytes == datagram(CHALLENGE, nonce, challenge)).then_some(challenge)
}

/// The server's UDP port. Its socket is only read while a request is awaited, and never sent from:
/// datagrams from anywhere else end here and are not answered, not even by the kernel.
#[derive(Debug)]
pub struct Port {
    socket: UdpSocket,
}

/// The maximum number of old datagrams to discard: more than the socket has room for.
const OLD: u32 = 10_000;

impl Port {
    /// A port at this address.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub fn at(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { socket: udp::at(address)? })
    }

    /// Discards everything received so far.
    pub fn clear(&self) {
        let any = || recv(&self.socket, &mut [0_u8; 1], RecvFlags::DONTWAIT);
        (0..OLD).find(|_| any().is_err());
    }

    /// Waits for the request with this nonce and answers its source, from this address, with a
    /// challenge.
    ///
    /// # Errors
    /// If the socket is unusable.
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
            // A challenge that cannot be sent is like a lost one: the client tries again. The
            // socket is closed at once, or it would receive the client's next request.
            let _ = challenge.socket(local)?.send(&datagram(CHALLENGE, nonce, challenge.value));
            return Ok(Some(challenge));
        }
        Ok(None)
    }
}

/// A challenge sent to an address that the client has yet to prove.
#[derive(Debug)]
pub struct Challenge {
    /// The source of the request.
    pub address: SocketAddr,
    /// The value that the client must repeat.
    pub value: u64,
}

impl Challenge {
    /// A socket at this local address, connected to the client's: the kernel delivers to it only
    /// what comes from there.
    ///
    /// # Errors
    /// If there is no route.
    pub fn socket(&self, local: SocketAddr) -> io::Result<UdpSocket> {
        let socket = udp::at(local)?;
        socket.connect(self.address)?;
        Ok(socket)
    }
}

/// A request sent by the client.
pub struct Request<'a> {
    socket: &'a UdpSocket,
    /// The nonce to send to the server.
    pub nonce: u64,
}

impl<'a> Request<'a> {
    /// Sends a request through a socket that is connected to the server. A datagram that cannot be
    /// sent is like a lost one.
    #[must_use]
    pub fn send(socket: &'a UdpSocket) -> Self {
        let nonce = unpredictable();
        let _ = socket.send(&request(nonce));
        Self { socket, nonce }
    }

    /// The challenge, if it arrives in time.
    ///
    /// # Errors
    /// If the socket is unusable.
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

/// The next datagram, or enough of it to tell that it is too long; none in time.
fn next(
    socket: &UdpSocket,
    until: Instant,
) -> io::Result<Option<([u8; LENGTH + 1], usize, SocketAddr)>> {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    let mut bytes = [0; LENGTH + 1];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // The kernel takes microseconds, and zero means forever.
        if left < Duration::from_micros(1) {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) => return Ok(Some((bytes, length, from))),
            // The time is over, or an earlier datagram was refused.
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
