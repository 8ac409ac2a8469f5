//! The library's own source, with loom's atomics.

pub mod atomic {
    pub use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
}

#[path = "../../src/latch.rs"]
pub mod latch;

use atomic::{AtomicU64, AtomicUsize};
use loom::sync::Arc;
use loom::thread;

const WORDS: usize = 2;

fn zeroes() -> latch::Latch<WORDS> {
    let copy = || std::array::from_fn(|_| AtomicU64::new(0));
    latch::Latch::new(AtomicUsize::new(0), [copy(), copy()])
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
