//! Blocks over TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::Traffic;
use super::store::{BLOCK, HEADER, Request, Store};
use crate::loads::load::{Threads, Within};

/// The timeout: something that forbids the connection may silently drop packets.
const CONNECT: Duration = Duration::from_secs(3);

/// Starts a server with one client, which always makes the same request.
pub fn start(threads: &Threads, request: Request, traffic: &Arc<Traffic>) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    // The kernel connects them before the accept: the backlog has room for one.
    let client = TcpStream::connect_timeout(&address, CONNECT)?;
    // Others may connect here, but not before this one.
    let server = loop {
        let (server, from) = listener.accept()?;
        if from == client.local_addr()? {
            break server;
        }
    };
    for end in [&client, &server] {
        end.set_nodelay(true)?;
    }
    let traffic = Arc::clone(traffic);
    threads.start(move |_| serve(server))?;
    threads.start(move |within| ask(within, client, request, &traffic))
}

/// Serves until the client has gone.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    let (mut store, mut header) = (Store::new(), [0; HEADER]);
    loop {
        match stream.read_exact(&mut header) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        match Request::parse(header) {
            Some((Request::Read, block)) => stream.write_all(store.block(block))?,
            Some((Request::Write, block)) => {
                stream.read_exact(store.block(block))?;
                stream.write_all(&header)?;
            }
            None => return Err(ErrorKind::InvalidData.into()),
        }
    }
}

fn ask(
    within: &Within,
    mut stream: TcpStream,
    request: Request,
    traffic: &Traffic,
) -> io::Result<()> {
    let mut message = vec![0; HEADER + BLOCK];
    let mut number = 0_u32;
    while !within.is_over() {
        message[..HEADER].copy_from_slice(&request.header(number));
        match request {
            Request::Read => {
                stream.write_all(&message[..HEADER])?;
                stream.read_exact(&mut message[HEADER..])?;
            }
            Request::Write => {
                stream.write_all(&message)?;
                stream.read_exact(&mut message[..HEADER])?;
            }
        }
        traffic.count(message.len());
        number = number.wrapping_add(1);
    }
    Ok(())
}
