//! Output whose lines the kernel timestamps when a program writes them, so that it does not matter
//! when a busy machine lets the harness read.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, setsockopt,
    socketpair, sockopt,
};
use nix::sys::time::TimeSpec;

use crate::suite::Broken;

/// No write of a program under test is longer.
const LONGEST_WRITE: usize = 256 << 10;

/// The reader's end.
pub struct Stamped {
    socket: OwnedFd,
    read: VecDeque<(Instant, String)>,
    begun: Vec<u8>,
}

/// Both ends: the lines, and the socket to which a program writes. Each write is a message with its
/// own timestamp.
pub fn pair() -> Result<(Stamped, OwnedFd), Broken> {
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    setsockopt(&ours, sockopt::ReceiveTimestampns, &true)?;
    Ok((Stamped { socket: ours, read: VecDeque::new(), begun: Vec::new() }, theirs))
}

impl Stamped {
    /// Reads the content of one write; `None` at the end.
    fn read_one(&mut self) -> Option<()> {
        let mut bytes = vec![0; LONGEST_WRITE];
        let mut space = nix::cmsg_space!(TimeSpec);
        let (count, written) = {
            let mut into = [IoSliceMut::new(&mut bytes)];
            let socket = self.socket.as_raw_fd();
            let got = recvmsg::<()>(socket, &mut into, Some(&mut space), MsgFlags::empty()).ok()?;
            let stamp = got.cmsgs().ok()?.find_map(|message| match message {
                ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
                _ => None,
            });
            (got.bytes, SystemTime::UNIX_EPOCH + stamp?)
        };
        let ago = written.elapsed().unwrap_or_default();
        let at = Instant::now() - ago;
        for piece in bytes[..count].split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if let Some(line) = self.begun.strip_suffix(b"\n") {
                self.read.push_back((at, String::from_utf8_lossy(line).into_owned()));
                self.begun.clear();
            }
        }
        (count > 0).then_some(())
    }
}

impl Iterator for Stamped {
    type Item = (Instant, String);

    fn next(&mut self) -> Option<Self::Item> {
        while self.read.is_empty() {
            self.read_one()?;
        }
        self.read.pop_front()
    }
}
