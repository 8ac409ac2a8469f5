//! How the server learns where a client's datagrams come from, and that they come from there.
//!
//! The client sends a datagram, the server answers it with a nonce, and the client repeats that over
//! the control channel: only who receives at the address can. Both datagrams bear a seal by the
//! session's key and are of one length: nobody else is answered, and nobody with more than came.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use ring::hmac;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::hex::Hex;
use super::token::{Keys, Purpose, random};
use super::udp;

/// What both datagrams begin with: a name, the version, and which one it is.
const KNOCK: [u8; 6] = *b"ETKN\x01?";
const ANSWER: [u8; 6] = *b"ETKN\x01!";

/// Beginning, cookie, nonce, seal.
const LENGTH: usize = 6 + 8 + 16 + 32;

/// Where the seal begins.
const SEALED: usize = LENGTH - 32;

/// The datagrams of one session.
pub struct Datagrams {
    cookie: u64,
    client: hmac::Key,
    server: hmac::Key,
}

impl Datagrams {
    /// By the session's keys.
    #[must_use]
    pub fn of(keys: &Keys) -> Self {
        let (client, server) = (keys.key(Purpose::ClientKnock), keys.key(Purpose::ServerKnock));
        Self { cookie: keys.cookie().0, client, server }
    }

    fn make(&self, begin: [u8; 6], nonce: Hex<16>, key: &hmac::Key, to: &[u8]) -> Vec<u8> {
        let mut bytes = [&begin[..], &self.cookie.to_be_bytes(), &nonce.0].concat();
        let seal = hmac::sign(key, &[&bytes, to].concat());
        bytes.extend(seal.as_ref());
        bytes
    }

    fn read(&self, bytes: &[u8], begin: [u8; 6], key: &hmac::Key, to: &[u8]) -> Option<Hex<16>> {
        let (sealed, seal) = bytes.split_at_checked(SEALED).filter(|_| bytes.len() == LENGTH)?;
        let known = sealed.starts_with(&begin) && sealed[6..14] == self.cookie.to_be_bytes();
        if !known || hmac::verify(key, &[sealed, to].concat(), seal).is_err() {
            return None;
        }
        sealed[14..].try_into().ok().map(Hex)
    }

    /// A knock with this nonce.
    fn knock(&self, nonce: Hex<16>) -> Vec<u8> {
        self.make(KNOCK, nonce, &self.client, &[])
    }

    fn read_knock(&self, bytes: &[u8]) -> Option<Hex<16>> {
        self.read(bytes, KNOCK, &self.client, &[])
    }

    /// The answer to a knock with that nonce.
    fn answer(&self, nonce: Hex<16>, knock: Hex<16>) -> Vec<u8> {
        self.make(ANSWER, nonce, &self.server, &knock.0)
    }

    fn read_answer(&self, bytes: &[u8], knock: Hex<16>) -> Option<Hex<16>> {
        self.read(bytes, ANSWER, &self.server, &knock.0)
    }
}

/// The server's UDP port. Its socket is only ever read while a knock is awaited, and never sent
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
        let socket = udp::at(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }

    /// Throws away what has come so far.
    pub fn clear(&self) {
        let mut byte = [0];
        (0..OLD).find(|_| self.socket.recv_from(&mut byte).is_err());
    }

    /// Waits for a knock and answers it, from this address. Where it came from, if it came.
    ///
    /// # Errors
    /// If the socket is of no use any more.
    pub fn listen(
        &self,
        datagrams: &Datagrams,
        local: SocketAddr,
        time: Duration,
    ) -> io::Result<Option<Visitor>> {
        let until = Instant::now() + time;
        while let Some((length, bytes, from)) = next(&self.socket, until)? {
            let Some(knock) = datagrams.read_knock(&bytes[..length]) else { continue };
            let (nonce, address) = (Hex(random()), udp::canonical(from));
            let answer = datagrams.answer(nonce, knock);
            assert!(answer.len() <= length, "an answer longer than what it answers");
            let visitor = Visitor { address, nonce };
            // An answer that cannot be sent is like one that is lost: the client tries again. The
            // socket goes at once, or it would get the client's next knock.
            let _ = visitor.socket(local)?.send(&answer);
            return Ok(Some(visitor));
        }
        Ok(None)
    }
}

/// Somebody who has knocked, and has yet to say what the answer was.
#[derive(Debug)]
pub struct Visitor {
    /// Where the knock came from.
    pub address: SocketAddr,
    /// What was answered.
    pub nonce: Hex<16>,
}

impl Visitor {
    /// A socket at this address of ours, connected to the visitor: the kernel gives it what comes
    /// from there, and nothing else.
    ///
    /// # Errors
    /// If there is no way there.
    pub fn socket(&self, local: SocketAddr) -> io::Result<UdpSocket> {
        let socket = udp::at(local)?;
        socket.connect(self.address)?;
        Ok(socket)
    }
}

/// The client's side: what it has knocked with.
pub struct Knock<'a> {
    socket: &'a UdpSocket,
    datagrams: &'a Datagrams,
    nonce: Hex<16>,
}

impl<'a> Knock<'a> {
    /// Knocks, through a socket that is connected to the server. A datagram that cannot be sent is
    /// like one that is lost.
    #[must_use]
    pub fn send(socket: &'a UdpSocket, datagrams: &'a Datagrams) -> Self {
        let nonce = Hex(random());
        let _ = socket.send(&datagrams.knock(nonce));
        Self { socket, datagrams, nonce }
    }

    /// What the answer says, if one comes in time.
    ///
    /// # Errors
    /// If the socket is of no use any more.
    pub fn answer(&self, time: Duration) -> io::Result<Option<Hex<16>>> {
        let until = Instant::now() + time;
        while let Some((length, bytes, _)) = next(self.socket, until)? {
            let answer = self.datagrams.read_answer(&bytes[..length], self.nonce);
            if answer.is_some() {
                return Ok(answer);
            }
        }
        Ok(None)
    }
}

/// The next datagram, or none until then.
fn next(socket: &UdpSocket, until: Instant) -> io::Result<Option<(usize, [u8; 128], SocketAddr)>> {
    let mut bytes = [0; 128];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let mut ready = [PollFd::new(socket, PollFlags::IN)];
        let time = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        match poll(&mut ready, Some(&time)) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(why) => return Err(why.into()),
        }
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) => return Ok(Some((length, bytes, from))),
            // Of a datagram of ours that nobody awaited, or one with a false checksum.
            Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::session::token::{Meeting, Token};

    fn datagrams(client: u8) -> Datagrams {
        let token: Token = "sixteen bytes or more".parse().unwrap();
        Datagrams::of(&Keys::of(
            &token,
            &Meeting { client: Hex([client; 32]), server: Hex([2; 32]), binding: None },
        ))
    }

    #[test]
    fn a_knock_and_its_answer_are_of_one_session_and_one_length() {
        let ours = datagrams(1);
        let (knock, answer) = (ours.knock(Hex([7; 16])), ours.answer(Hex([8; 16]), Hex([7; 16])));
        assert_eq!(knock.len(), answer.len());
        assert_eq!(ours.read_knock(&knock), Some(Hex([7; 16])));
        assert_eq!(ours.read_answer(&answer, Hex([7; 16])), Some(Hex([8; 16])));
        assert_eq!(ours.read_answer(&answer, Hex([6; 16])), None, "the answer to another knock");
        assert_eq!(ours.read_knock(&answer), None);
        assert_eq!(datagrams(3).read_knock(&knock), None, "another session");
        for bit in 0..LENGTH * 8 {
            let mut forged = knock.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ours.read_knock(&forged), None, "bit {bit}");
        }
        assert_eq!(ours.read_knock(&[&knock[..], &[0]].concat()), None);
    }

    proptest! {
        #[test]
        fn garbage_is_no_knock(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            prop_assert_eq!(datagrams(1).read_knock(&bytes), None);
        }
    }
}
