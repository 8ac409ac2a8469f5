//! Waits by the usual means of Rust's standard library. `clocks MS` makes every
//! wait last MS milliseconds.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::{Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Prints when a wait starts and ends, and how long it took on both clocks.
fn measure(name: &str, wanted: Duration, wait: impl FnOnce()) {
    println!("{name} begin");
    let (start, wall) = (Instant::now(), SystemTime::now());
    wait();
    println!(
        "{name} end wanted_ms={:.3} mono_ms={:.3} wall_ms={:.3}",
        wanted.as_secs_f64() * 1e3,
        start.elapsed().as_secs_f64() * 1e3,
        wall.elapsed().map_or(-1.0, |d| d.as_secs_f64() * 1e3)
    );
}

fn main() {
    let milliseconds = std::env::args().nth(1).expect("usage: clocks MS");
    let wanted = Duration::from_millis(milliseconds.parse().expect("a number"));
    let date = SystemTime::now().duration_since(UNIX_EPOCH).expect("a date");
    println!("date={}", date.as_secs());
    measure("sleep", wanted, || thread::sleep(wanted));
    measure("park", wanted, || {
        let until = Instant::now() + wanted;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            thread::park_timeout(left);
        }
    });
    measure("condvar", wanted, || {
        let (mutex, condition) = (Mutex::new(()), Condvar::new());
        let guard = mutex.lock().expect("a lock");
        let (_guard, result) =
            condition.wait_timeout_while(guard, wanted, |_| true).expect("a lock");
        assert!(result.timed_out());
    });
    measure("channel", wanted, || {
        let (_sender, receiver) = mpsc::channel::<()>();
        assert!(receiver.recv_timeout(wanted).is_err());
    });
    measure("read_timeout", wanted, || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut stream =
            TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        stream.set_read_timeout(Some(wanted)).expect("a timeout");
        let error = stream.read(&mut [0]).expect_err("nothing to read");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    });
    measure("threads", wanted, || {
        let sleepers: Vec<_> =
            (0..100).map(|_| thread::spawn(move || thread::sleep(wanted))).collect();
        for sleeper in sleepers {
            sleeper.join().expect("a thread");
        }
    });
}
