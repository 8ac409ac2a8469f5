//! How far `eigentime-path` goes on this machine. It is no test of right or wrong: it is run by
//! `cargo test --release -p eigentime-bandwidth --test path_speed -- --ignored --nocapture`.

#[macro_use]
extern crate eigentime_harness;

mod common;

use common::emulator::Emulator;
use common::{Net, Place, udp};
use eigentime_bandwidth::BitRate;
use eigentime_path::emulator::truth::Direction;

/// How long a train is, in seconds: as long as what an estimate sends, and more. What is not read
/// before its end must not be much: new memory for it costs the path's processor 10 µs per packet.
const SECONDS: f64 = 0.03;
/// How many are sent over a path.
const TRAINS: usize = 5;

#[test]
#[ignore = "measures how far the machine goes"]
fn how_far_it_goes() {
    for (bytes, options, rates) in [
        (1500, "--capacity 10.1G --delay 1ms", &[300.0, 1000.0, 3000.0][..]),
        (1500, "--capacity 10.1G --delay 10ms", &[3000.0]),
        (9000, "--capacity 10.1G --delay 0ms", &[1000.0, 5000.0, 10_000.0]),
        (9000, "--capacity 10.1G --delay 10ms", &[9000.0, 10_000.0]),
        (1500, "--capacity 300M --delay 10ms --cross cbr:150M", &[200.0, 300.0]),
        (1500, "--capacity 1G --delay 10ms --cross poisson:500M", &[600.0, 1000.0]),
        (9000, "--capacity 10G --delay 10ms --cross poisson:1G", &[9500.0, 10_000.0]),
    ] {
        let net = Net::new(bytes as u32);
        for mega in rates {
            let path = Emulator::start(&net, &format!("{options} --queue 20ms --duration 20s"));
            println!("{bytes} B at {}, {options}", BitRate::mega(*mega));
            let trains: Vec<_> =
                (0..TRAINS).map(|_| train(&net, bytes, BitRate::mega(*mega))).collect();
            let ended = path.end();
            for ((from, until), received) in trains {
                let capacity = ended.truth.settings[0].capacity.bits();
                let crossed = capacity - ended.truth.available(from, until).unwrap().bits();
                let fluid = (mega * 1e6).min(mega * 1e6 * capacity / (mega * 1e6 + crossed));
                println!("  {:+.3} % of the fluid model", (received / fluid - 1.0) * 100.0);
            }
            let flow = ended.truth.total(Direction::Forward);
            println!(
                "  dropped {}, missed {}, refused {}, behind {}; {}",
                flow.dropped.packets,
                flow.missed,
                flow.refused.packets,
                ended.summary["ends"][1]["dropped"],
                ended.summary["punctuality"],
            );
        }
    }
}

fn train(net: &Net, bytes: usize, rate: BitRate) -> ((i64, i64), f64) {
    let receiver = net.within(Place::Right, || udp::receiver("10.99.0.2:0"));
    let to = receiver.local_addr().unwrap();
    let gap_ns = rate.ns_of(bytes as f64);
    let packets = (SECONDS * 1e9 / gap_ns) as u64;
    let (from, until) = net.within(Place::Left, || {
        udp::knock("10.99.0.2");
        udp::send(to, packets, bytes, gap_ns)
    });
    // Read afterwards: who waits for packets has to be woken for them, by the path's processor.
    let come = udp::receive(&receiver, packets);
    let rate = |from, until, packets: usize| {
        BitRate::of(((packets - 1) * bytes) as f64, (until - from) as f64)
    };
    let received = rate(come[0].came_ns, come[come.len() - 1].came_ns, come.len());
    let mut delays: Vec<i64> = come.iter().map(|it| it.came_ns - it.sent_ns).collect();
    delays.sort_unstable();
    let micros = |part: usize| delays[(delays.len() - 1) * part / 100] as f64 / 1e3;
    println!(
        "  {packets} packets: offered {}, received {}, {} came, delay p1 {:.1} µs, p50 {:.1} µs, \
         p99 {:.1} µs",
        rate(from, until, packets as usize),
        received,
        come.len(),
        micros(1),
        micros(50),
        micros(99),
    );
    ((from, until), received.bits())
}

fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}
