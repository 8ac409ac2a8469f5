//! The library's own source, with loom's atomics.

pub mod atomic {
    pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

#[path = "../../src/latch.rs"]
pub mod latch;

use atomic::AtomicU64;
use loom::sync::Arc;
use loom::thread;

const WORDS: usize = 2;

fn zeroes() -> latch::Latch<WORDS> {
    let copy = || std::array::from_fn(|_| AtomicU64::new(0));
    latch::Latch::new(AtomicU64::new(0), [copy(), copy()])
}

/// Three writes are the fewest by which a reader can meet a copy that is written again.
#[test]
fn no_value_is_torn_in_any_order() {
    let mut model = loom::model::Builder::new();
    // The loop of `read` has no end if the writer is never let on.
    model.preemption_bound = Some(3);
    model.check(|| {
        let latch = Arc::new(zeroes());
        let reader = {
            let latch = Arc::clone(&latch);
            thread::spawn(move || (latch.read(), latch.read()))
        };
        for value in 1..=3 {
            latch.write(&[value; WORDS]);
        }
        let (first, second) = reader.join().unwrap();
        assert!(first[0] == first[1] && second[0] == second[1], "torn: {first:?} {second:?}");
        assert!(first[0] <= second[0], "backwards: {first:?} {second:?}");
    });
}

/// Who announces itself and then reads the old value keeps it from being replaced, if the writer
/// looked before.
#[test]
fn a_value_that_is_read_by_announcement_is_not_replaced() {
    loom::model(|| {
        let latch = Arc::new(zeroes());
        let reader = {
            let latch = Arc::clone(&latch);
            thread::spawn(move || {
                latch.announce();
                latch.read()[0]
            })
        };
        let before = latch.seen();
        let written = latch.write_if(before, &[1; WORDS]);
        let read = reader.join().unwrap();
        // A reader that came before the writer looked is one that the writer reckons with.
        let reckoned = before != 0;
        assert!(!written || reckoned || read == 1, "{read} was replaced");
        assert_eq!(latch.read()[0], u64::from(written));
    });
}
