//! Small blocks over UDP: lost ones are requested again.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use super::Traffic;
use super::store::{HEADER, Request, Store};
use crate::loads::load::{Threads, Within};

/// Bytes of a block.
const BLOCK: usize = 512;
/// After this time a datagram counts as lost, and the end of the load is checked.
const LOST: Duration = Duration::from_millis(100);

/// Starts a server with one client.
pub fn start(threads: &Threads, traffic: &Arc<Traffic>) -> io::Result<()> {
    let [server, client] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
    let (server, client) = (server?, client?);
    // They receive only from each other.
    server.connect(client.local_addr()?)?;
    client.connect(server.local_addr()?)?;
    for end in [&server, &client] {
        end.set_read_timeout(Some(LOST))?;
    }
    let traffic = Arc::clone(traffic);
    threads.start(move |within| serve(within, &server))?;
    threads.start(move |within| ask(within, &client, &traffic))
}

fn serve(within: &Within, socket: &UdpSocket) -> io::Result<()> {
    let (mut store, mut header) = (Store::new(), [0; HEADER]);
    while !within.is_over() {
        if receive(socket, &mut header)?.is_some()
            && let Some((_, block)) = Request::parse(header)
        {
            send(socket, &store.block(block)[..BLOCK])?;
        }
    }
    Ok(())
}

fn ask(within: &Within, socket: &UdpSocket, traffic: &Traffic) -> io::Result<()> {
    let mut block = [0; BLOCK];
    let mut number = 0_u32;
    while !within.is_over() {
        send(socket, &Request::Read.header(number))?;
        if let Some(length) = receive(socket, &mut block)? {
            traffic.count(HEADER + length);
            number = number.wrapping_add(1);
        }
    }
    Ok(())
}

/// The other end may be gone at the end.
fn send(socket: &UdpSocket, message: &[u8]) -> io::Result<()> {
    match socket.send(message) {
        Err(error) if error.kind() != ErrorKind::ConnectionRefused => Err(error),
        _ => Ok(()),
    }
}

/// The number of bytes; None if nothing has arrived.
fn receive(socket: &UdpSocket, message: &mut [u8]) -> io::Result<Option<usize>> {
    match socket.recv(message) {
        Ok(length) => Ok(Some(length)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(None),
            ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(error),
        },
    }
}
