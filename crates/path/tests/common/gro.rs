//! Generic receive offload of an interface, asked for and set without the program's own code.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Commands of linux/ethtool.h.
const GET: u32 = 0x2b;
const SET: u32 = 0x2c;

#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Whether it is on, of an interface of the thread's namespace.
pub fn is_on(interface: &str) -> bool {
    switch(interface, GET, 0) != 0
}

/// Switches it on.
pub fn switch_on(interface: &str) {
    switch(interface, SET, 1);
}

fn switch(interface: &str, command: u32, data: u32) -> u32 {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let mut value = Value { command, data };
    // SAFETY: it is a structure of numbers and pointers, which may all be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the kernel reads and writes the request and the value, which outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    value.data
}
