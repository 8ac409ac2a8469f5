//! What trains over simulated paths say of them.

use eigentime_bandwidth::BitRate;
use eigentime_bandwidth::methods::Path;
use eigentime_bandwidth::methods::rate_response::{RateResponse, rate_response};
use eigentime_bandwidth::train::Train;
use eigentime_path::simulated::{Cross, Simulated};

fn path(cross: f64) -> Simulated {
    Simulated::new(BitRate::mega(1000.0), BitRate::mega(cross), Cross::Even, 1)
}

fn of(mut path: Simulated, mega: f64) -> RateResponse {
    let train = Train { packets: 1000, bytes: 1500, rate: BitRate::mega(mega) };
    rate_response(&path.send(&train).unwrap()).unwrap()
}

#[test]
fn a_train_is_stretched_by_what_it_shares_the_capacity_with() {
    for (cross, mega, ratio) in [
        (500.0, 800.0, 1.3),
        (500.0, 400.0, 1.0),
        (0.0, 1200.0, 1.2),
        (830.0, 200.0, 1.03),
        (830.0, 1000.0, 1.83),
    ] {
        let response = of(path(cross), mega);
        assert!((response.ratio - ratio).abs() < 0.006, "{cross}, {mega}: {response:?}");
        assert!((response.offered / 1e6 / mega - 1.0).abs() < 1e-3, "{response:?}");
        assert_eq!(response.overflowed, None);
    }
}

#[test]
fn what_is_lost_or_overtaken_at_random_does_not_matter() {
    let by = std::time::Duration::from_micros(30);
    for (path, lost) in [(path(500.0).losing(0.2), 0.2), (path(500.0).reordering(0.1, by), 0.0)] {
        let response = of(path, 800.0);
        assert!((response.ratio - 1.3).abs() < 0.006, "{response:?}");
        assert!((response.lost - lost).abs() < 0.04, "{response:?}");
        assert_eq!(response.overflowed, None);
    }
}

#[test]
fn a_queue_that_overflows_is_told_from_loss_at_random() {
    // Overloaded by 300 Mbit/s: 100 kB are full after 2.7 ms of 15.
    let response = of(path(500.0).buffered(100_000), 800.0);
    let room = response.overflowed.unwrap();
    assert!((room / 0.8e-3 - 1.0).abs() < 0.05, "{response:?}");
    assert!((response.ratio - 1.3).abs() < 0.02, "until then: {response:?}");
}

#[test]
fn what_a_bucket_lets_through_at_first_shows_as_a_bend() {
    let shaped = |burst| path(0.0).shaped(burst, BitRate::mega(10_000.0));
    // 30 kB are through in the head of a train of 1.5 MB, 600 kB are not.
    let short = of(shaped(30_000), 1200.0);
    assert!((short.ratio - 1.2).abs() < 0.002 && short.bend.abs() < 0.01, "{short:?}");
    let long = of(shaped(150_000), 1200.0);
    assert!(long.bend > 0.05, "{long:?}");
}
