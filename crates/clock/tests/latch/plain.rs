//! The library's own source, with the standard library's atomics: for Miri, too.

use std::sync::atomic;

#[path = "../../src/latch.rs"]
pub mod latch;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

const WORDS: usize = 8;

fn zeroes() -> latch::Latch<WORDS> {
    let copy = || std::array::from_fn(|_| AtomicU64::new(0));
    latch::Latch::new(AtomicU64::new(0), [copy(), copy()])
}

#[test]
fn what_was_written_is_read() {
    let latch = zeroes();
    assert_eq!(latch.read(), [0; WORDS]);
    for value in 1..5 {
        latch.write(&[value; WORDS]);
        assert_eq!(latch.read(), [value; WORDS]);
    }
}

#[test]
fn a_value_is_replaced_unless_a_reader_has_announced_itself() {
    let latch = zeroes();
    let seen = latch.seen();
    latch.announce();
    assert!(!latch.write_if(seen, &[1; WORDS]));
    assert_eq!(latch.read(), [0; WORDS]);
    assert!(latch.write_if(latch.seen(), &[2; WORDS]));
    assert_eq!(latch.read(), [2; WORDS]);
}

#[test]
fn readers_see_whole_values_in_order() {
    let values = if cfg!(miri) { 50 } else { 200_000 };
    let (latch, done) = (zeroes(), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Relaxed) {
                    let words = latch.read();
                    assert!(words.iter().all(|word| *word == words[0]), "torn: {words:?}");
                    assert!(words[0] >= last, "{} after {last}", words[0]);
                    last = words[0];
                }
            });
        }
        for value in 1..=values {
            latch.write(&[value; WORDS]);
        }
        done.store(true, Relaxed);
    });
    assert_eq!(latch.read(), [values; WORDS]);
}
