//! Keeps running while it is moved between timelines: see `moved.c`.

use std::process::{Command, exit};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

const PAUSE: Duration = Duration::from_millis(20);

static BACK: AtomicU64 = AtomicU64::new(0);
static LOOPS: AtomicU64 = AtomicU64::new(0);

fn live() {
    let mut last = Instant::now();
    loop {
        let next = Instant::now();
        BACK.fetch_add(u64::from(next < last), Relaxed);
        last = next;
        thread::sleep(PAUSE);
        LOOPS.fetch_add(1, Relaxed);
    }
}

fn measure(name: &str, span: Duration) {
    println!("{name} begin");
    thread::sleep(span);
    println!("{name} end");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    for _ in 0..arguments[1].parse().expect("a number of threads") {
        thread::spawn(live);
    }
    println!("ready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let span = Duration::from_millis(line.parse().expect("milliseconds"));
        let date = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
        println!("date={:.3}", date.as_secs_f64());
        println!("back={}", BACK.load(Relaxed));
        println!("failed=0");
        println!("loops={}", LOOPS.load(Relaxed));
        measure("old", span);
        thread::spawn(move || measure("new", span)).join().expect("it ends");
        let seconds = span.as_secs_f64().to_string();
        let status = Command::new("sh").args([&arguments[2], &seconds]).status();
        assert!(status.expect("there is a shell").success());
        println!("done");
    }
    exit(7);
}
