//! Waits for signals, semaphores and messages.

use std::ffi::CString;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::bench::{Answer, Bench, Ends, Needed, sleep};
use crate::interface::Interface;
use crate::sys::{self, NULL, SIGSET_BYTES, call, descriptor};

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    Interface::probe("rt_sigtimedwait", rt_sigtimedwait).of(&["rt_sigtimedwait"]),
    Interface::probe("semtimedop", semtimedop).of(&["semtimedop"]),
    Interface::probe("mq_timedsend", mq_timedsend).of(&["mq_timedsend"]).on_wall(),
    Interface::probe("mq_timedreceive", mq_timedreceive).of(&["mq_timedreceive"]).on_wall(),
    Interface::probe("recvmmsg", recvmmsg).of(&["recvmmsg"]),
];

fn rt_sigtimedwait(bench: &Bench) -> Answer {
    sys::block(libc::SIGUSR1)?;
    let set: u64 = 1 << (libc::SIGUSR1 - 1);
    bench.relative(Ends::By(libc::EAGAIN), |time| {
        // SAFETY: the kernel reads a set of this size and one timespec.
        unsafe { call!(libc::SYS_rt_sigtimedwait, &set, NULL, &time, SIGSET_BYTES) }
    })
}

fn semtimedop(bench: &Bench) -> Answer {
    // SAFETY: only numbers are passed.
    let set = unsafe { call!(libc::SYS_semget, libc::IPC_PRIVATE, 1, 0o600) }
        .needed("System V semaphores")?;
    let take = libc::sembuf { sem_num: 0, sem_op: -1, sem_flg: 0 };
    let answer = bench.relative(Ends::By(libc::EAGAIN), |time| {
        // SAFETY: the kernel reads one operation and one timespec.
        unsafe { call!(libc::SYS_semtimedop, set, &take, 1, &time) }
    });
    // SAFETY: only numbers are passed.
    unsafe { call!(libc::SYS_semctl, set, 0, libc::IPC_RMID) }?;
    answer
}

/// A message queue for one message of one byte, without a name.
fn queue() -> io::Result<OwnedFd> {
    let name = format!("eigentime-conformance-{}", std::process::id());
    let name = CString::new(name).expect("no null byte");
    // SAFETY: all fields of mq_attr may be zero.
    let mut shape: libc::mq_attr = unsafe { std::mem::zeroed() };
    shape.mq_maxmsg = 1;
    shape.mq_msgsize = 1;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    // SAFETY: the kernel reads a name and one mq_attr.
    let queue =
        descriptor(unsafe { call!(libc::SYS_mq_open, name.as_c_str(), flags, 0o600, &shape) })?;
    // SAFETY: the kernel reads a name.
    unsafe { call!(libc::SYS_mq_unlink, name.as_c_str()) }?;
    Ok(queue)
}

fn mq_timedsend(bench: &Bench) -> Answer {
    let queue = queue().needed("POSIX message queues")?;
    let fd = queue.as_raw_fd();
    // SAFETY: the kernel reads one byte.
    unsafe { call!(libc::SYS_mq_timedsend, fd, &0u8, 1, 0, NULL) }?;
    bench.absolute(libc::CLOCK_REALTIME, Ends::By(libc::ETIMEDOUT), |until| {
        // SAFETY: the kernel reads one byte and one timespec.
        unsafe { call!(libc::SYS_mq_timedsend, fd, &0u8, 1, 0, &until) }
    })
}

fn mq_timedreceive(bench: &Bench) -> Answer {
    let queue = queue().needed("POSIX message queues")?;
    let mut byte = 0u8;
    bench.absolute(libc::CLOCK_REALTIME, Ends::By(libc::ETIMEDOUT), |until| {
        let fd = queue.as_raw_fd();
        // SAFETY: the kernel writes one byte and reads one timespec.
        unsafe { call!(libc::SYS_mq_timedreceive, fd, &mut byte, 1, NULL, &until) }
    })
}

/// The number of datagrams sent within the requested time, and the maximum received.
const DATAGRAMS: i64 = 10;
const AT_MOST: usize = 64;

/// The kernel checks the time only when a datagram has arrived, so datagrams are sent continually.
fn recvmmsg(bench: &Bench) -> Answer {
    let receiver = UdpSocket::bind("127.0.0.1:0").needed("the loopback device")?;
    let to = receiver.local_addr()?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    let done = Arc::new(AtomicBool::new(false));
    let (apart, stop) = (bench.ask() / DATAGRAMS, Arc::clone(&done));
    let mut bytes = [0u8; AT_MOST];
    let mut parts = bytes
        .each_mut()
        .map(|byte| libc::iovec { iov_base: std::ptr::from_mut(byte).cast(), iov_len: 1 });
    let mut messages = parts.each_mut().map(|part| {
        // SAFETY: all fields of a mmsghdr may be zero.
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
        message
    });
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            sleep(apart);
            let _ = sender.send_to(b"x", to);
        }
    });
    bench.relative(Ends::With(0), |mut time| {
        let fd = receiver.as_raw_fd();
        // SAFETY: the kernel writes at most `AT_MOST` datagrams of a byte and one timespec.
        let got = unsafe { call!(libc::SYS_recvmmsg, fd, &mut messages, AT_MOST, 0, &mut time) };
        done.store(true, Ordering::Relaxed);
        // Any number may arrive; only the end by timeout matters.
        got.map(|count| if (1..AT_MOST as i64).contains(&count) { 0 } else { count })
    })
}
