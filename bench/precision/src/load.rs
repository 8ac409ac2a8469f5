//! A load that keeps the machine busy during a measurement: one process, ended by the one that
//! started it, or by the kernel if that ends first.

use std::error::Error;
use std::fs::{File, OpenOptions, remove_file};
use std::hint::black_box;
use std::io::Write;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::thread;

use clap::{Args, ValueEnum};

use crate::kernel;

/// What `load` can be told.
#[derive(Args)]
pub struct Options {
    /// What to keep busy.
    kind: Kind,
    /// The CPU to stay on.
    #[arg(long)]
    cpu: usize,
    /// Where the file may be that is written to.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// The processor, by arithmetic.
    Cpu,
    /// A disk, by writes that are waited for, and the loopback network, by datagrams.
    Io,
}

/// The bytes written before waiting for the disk, and the number of such chunks in the file.
const CHUNK: usize = 1 << 20;
const CHUNKS: usize = 16;
/// Bytes in a datagram.
const DATAGRAM: usize = 1_024;

/// Runs forever.
///
/// # Errors
/// When the file or the sockets are unavailable.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    kernel::end_with_parent()?;
    kernel::pin(options.cpu)?;
    match options.kind {
        Kind::Cpu => calculate(),
        Kind::Io => {
            let file = nameless(options)?;
            let (sender, receiver) = sockets()?;
            // Both inherit the CPU from this thread.
            thread::spawn(move || send(&sender));
            thread::spawn(move || receive(&receiver));
            write_for_ever(file)?;
        }
    }
    Ok(())
}

fn calculate() -> ! {
    let mut number = 1_u64;
    loop {
        for _ in 0..1_000_000 {
            number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// A file without a name, so that nothing is left of it however this process ends.
fn nameless(options: &Options) -> Result<File, Box<dyn Error>> {
    let path = options.folder.join(format!("precision-load-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    remove_file(&path)?;
    Ok(file)
}

fn write_for_ever(mut file: File) -> Result<(), Box<dyn Error>> {
    let chunk = vec![0x5a; CHUNK];
    loop {
        for _ in 0..CHUNKS {
            file.write_all(&chunk)?;
            file.sync_data()?;
        }
        kernel::forget_cached(file.as_raw_fd());
        file.set_len(0)?;
        std::io::Seek::rewind(&mut file)?;
    }
}

fn sockets() -> std::io::Result<(UdpSocket, UdpSocket)> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    Ok((sender, receiver))
}

fn send(sender: &UdpSocket) {
    // Datagrams that the receiver is too slow for are lost.
    while sender.send(&[0; DATAGRAM]).is_ok() {}
}

fn receive(receiver: &UdpSocket) {
    let mut datagram = [0; DATAGRAM];
    while receiver.recv(&mut datagram).is_ok() {}
}
