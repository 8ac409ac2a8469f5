//! `eigentime-path` between namespaces: whether it is the path that it says it is.
//!
//! Rates are compared within 1 %, by the receiving kernel's stamps. Where the machine has kept the
//! emulator or the sender from its work, which both know, a measurement is made again.

#[macro_use]
extern crate eigentime_harness;

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::Instant;

use common::emulator::{Emulator, Ended};
use common::udp::{self, Come};
use common::{Net, Place, gro};
use eigentime_bandwidth::BitRate;
use eigentime_path::emulator::flow::{Count, Flow};
use eigentime_path::emulator::host::{End, Header, Port, Received, Sent};
use eigentime_path::emulator::truth::Direction;
use nix::sys::socket::sockopt;
use rustix::process::Signal;

/// How often something is measured that the machine disturbs.
const TRIES: usize = 6;
/// The emulator does not take a processor from what else there is more than it must.
const PLAIN: &str = "--duration 30s";

/// A train from the left to the right.
struct Train {
    come: Vec<Come>,
    /// When the first and the last packet were sent.
    sent_ns: (i64, i64),
    packets: u64,
    bytes: usize,
}

impl Train {
    fn send(net: &Net, packets: u64, bytes: usize, gap_ns: f64) -> Self {
        let receiver = net.within(Place::Right, || udp::receiver("10.99.0.2:0"));
        let to = receiver.local_addr().unwrap();
        thread::scope(|scope| {
            let come = scope.spawn(|| udp::receive(&receiver, packets));
            let sent_ns = net.within(Place::Left, || {
                udp::knock("10.99.0.2");
                udp::send(to, packets, bytes, gap_ns)
            });
            Self { come: come.join().unwrap(), sent_ns, packets, bytes }
        })
    }

    /// What came, between two of the packets that did.
    fn received(&self, from: usize, to: usize) -> f64 {
        let [first, last] = [self.come[from], self.come[to]];
        let bytes = (to - from) * self.bytes;
        BitRate::of(bytes as f64, (last.came_ns - first.came_ns) as f64).bits()
    }

    fn offered(&self) -> f64 {
        let bytes = (self.packets - 1) as f64 * self.bytes as f64;
        BitRate::of(bytes, (self.sent_ns.1 - self.sent_ns.0) as f64).bits()
    }

    fn is_in_order(&self) -> bool {
        self.come.windows(2).all(|pair| pair[0].number < pair[1].number)
    }
}

/// Measures until the machine lets it be right: the error of each try, and the least of them.
fn within_one_percent(what: &str, mut error: impl FnMut() -> f64) {
    let mut errors = Vec::new();
    for _ in 0..TRIES {
        let error = error();
        if error.abs() <= 0.01 {
            return;
        }
        errors.push(error);
    }
    panic!("{what}: off by {errors:.4?}, each time");
}

fn adds_up(ended: &Ended) -> [Flow; 2] {
    assert!(ended.status.success(), "{}", ended.status);
    let (punctuality, on_its_way) = ended.truth.end.expect("the end of the truth");
    assert_eq!(ended.summary["punctuality"]["stalls"], punctuality.stalls);
    assert_eq!(ended.truth.stalls.len() as u64, punctuality.stalls);
    [Direction::Forward, Direction::Back].map(|way| {
        let flow = ended.truth.total(way);
        let mut gone = on_its_way[way as usize];
        for part in [flow.sent, flow.dropped, flow.oversize, flow.lost, flow.refused] {
            gone += part;
        }
        assert_eq!(flow.arrived, gone, "{way:?}: {flow:?}");
        let spans = &ended.truth.spans[&way];
        assert!(spans.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "spans with holes");
        assert_eq!(spans[0].from_ns, ended.truth.from_ns);
        flow
    })
}

#[test]
fn a_saturating_sender_gets_the_capacity_and_in_order() {
    let net = Net::new(1500);
    for (mega, packets) in [(100.0, 3000), (300.0, 9000)] {
        let path = Emulator::start(&net, &format!("--capacity {mega}M --queue 1s {PLAIN}"));
        within_one_percent(&format!("{mega} Mbit/s"), || {
            // A third more than it carries.
            let train = Train::send(&net, packets, 1500, 9000.0 * 1000.0 / mega);
            assert!(train.is_in_order(), "first in, first out");
            let last = train.come.len() - 1;
            train.received(last / 10, last) / (mega * 1e6) - 1.0
        });
        let [forward, _] = adds_up(&path.end());
        assert!(forward.sent.packets >= packets, "{forward:?}");
    }
}

#[test]
fn cross_traffic_takes_the_share_of_the_fluid_model() {
    let net = Net::new(1500);
    for (capacity, offered, cross) in
        [(100.0, 80.0, "cbr:50M"), (300.0, 250.0, "cbr:100M"), (300.0, 250.0, "poisson:100M")]
    {
        // For 100 ms.
        let packets = (offered * 1e6 * 0.1 / 12_000.0) as u64;
        let gap_ns = 12_000.0 * 1000.0 / offered;
        let mut errors = Vec::new();
        for _ in 0..TRIES {
            let options = format!("--capacity {capacity}M --cross {cross} --queue 2s {PLAIN}");
            let path = Emulator::start(&net, &options);
            let train = Train::send(&net, packets, 1500, gap_ns);
            let ended = path.end();
            let [forward, back] = adds_up(&ended);
            assert_eq!((forward.dropped, back.cross), (Count::default(), Count::default()));
            assert_eq!(train.come.len() as u64, packets, "nothing is lost");
            // What the truth says of this time.
            let (from, to) = train.sent_ns;
            let available = ended.truth.available(from, to).unwrap().bits();
            let realised = capacity * 1e6 - available;
            let offers = train.offered();
            let expected = offers * capacity * 1e6 / (offers + realised);
            let got = train.received(0, train.come.len() - 1);
            errors.push(got / expected - 1.0);
            let asked: f64 =
                cross.split(':').next_back().unwrap().trim_end_matches('M').parse().unwrap();
            assert!((realised / (asked * 1e6) - 1.0).abs() < 0.25, "{realised} of {cross}");
            if errors.last().unwrap().abs() <= 0.01 {
                break;
            }
        }
        assert!(errors.last().unwrap().abs() <= 0.01, "{cross} of {capacity}: {errors:.4?}");
    }
}

#[test]
fn a_packet_takes_the_delay_and_is_never_early() {
    let net = Net::new(1500);
    let path =
        Emulator::start(&net, &format!("--capacity 1G --delay 20ms --delay-back 3ms {PLAIN}"));
    let train = Train::send(&net, 200, 500, 1e6);
    assert_eq!(train.come.len(), 200);
    let mut delays: Vec<i64> = train.come.iter().map(|it| it.came_ns - it.sent_ns).collect();
    delays.sort_unstable();
    assert!(delays[0] >= 20_000_000, "early: {} ns", delays[0]);
    assert!(delays[100] < 30_000_000, "the median is {} ns", delays[100]);
    let settings = adds_up_and_settings(path.end());
    assert_eq!(settings, [20, 3]);
}

fn adds_up_and_settings(ended: Ended) -> [u128; 2] {
    adds_up(&ended);
    ended.truth.settings.map(|it| it.delay.as_millis())
}

#[test]
fn what_the_queue_has_no_room_for_is_dropped() {
    let net = Net::new(1500);
    // A packet takes 1.2 ms, and 100 may wait.
    let path = Emulator::start(&net, &format!("--capacity 10M --queue 150000 {PLAIN}"));
    let train = Train::send(&net, 300, 1500, 0.0);
    let [forward, _] = adds_up(&path.end());
    // Those that have left while the burst came make room for others, and so does a part of one.
    let burst_ns = (train.sent_ns.1 - train.sent_ns.0) as f64;
    let most = 100.0 + (burst_ns / 1.2e6).ceil() + 1.0;
    let come = train.come.len();
    assert!(come >= 99 && come as f64 <= most, "{come}, and not 100 to {most}");
    assert_eq!(forward.dropped.packets, 300 - come as u64);
    let first_dropped = train.come.iter().zip(0..).find(|(it, number)| it.number != *number);
    let first_dropped = first_dropped.map_or(come as u64, |(_, number)| number);
    assert!(first_dropped >= 99, "the tail is dropped, not packet {first_dropped}");
}

#[test]
fn loss_is_as_frequent_as_asked_and_the_same_with_the_same_seed() {
    let net = Net::new(1500);
    let lost = |seed: u32| {
        let options = format!("--capacity 1G --queue 1s --loss 10 --seed {seed} {PLAIN}");
        let path = Emulator::start(&net, &options);
        let train = Train::send(&net, 5000, 200, 20_000.0);
        let [forward, _] = adds_up(&path.end());
        let lost = 5000 - train.come.len() as u64;
        // The packet that asks for the address, and the asking itself, may be lost as well.
        assert!(forward.lost.packets >= lost && forward.lost.packets <= lost + 20, "{forward:?}");
        lost
    };
    // Binomial: 500, with a standard deviation of 21; five of them.
    for seed in [7, 8] {
        let lost = lost(seed);
        assert!((394..=606).contains(&lost), "{lost} of 5000");
    }
}

#[test]
fn packets_are_overtaken_where_that_was_asked_for() {
    let net = Net::new(1500);
    let options = format!("--capacity 1G --reorder 5 --reorder-by 1ms {PLAIN}");
    let path = Emulator::start(&net, &options);
    let train = Train::send(&net, 2000, 500, 100_000.0);
    adds_up(&path.end());
    assert_eq!(train.come.len(), 2000);
    let overtaken = train.come.windows(2).filter(|pair| pair[0].number > pair[1].number).count();
    // Binomial: 100, with a standard deviation of 10; the last ones are overtaken by nobody, and of
    // two that are late in a row one overtakes nobody.
    assert!((45..=150).contains(&overtaken), "{overtaken}");
}

#[test]
fn the_capacity_changes_midway() {
    let net = Net::new(1500);
    within_one_percent("100 Mbit/s and then 50", || {
        let path = Emulator::start(
            &net,
            "--capacity 100M --change 900ms\u{a0}50M --queue 5s --duration 30s",
        );
        // All of it waits in the queue after 0.39 s: how even the sender was does not matter then.
        let train = Train::send(&net, 10_000, 1500, 39_000.0);
        let ended = path.end();
        adds_up(&ended);
        let change_ns = ended.truth.from_ns + 900_000_000;
        let before = train.come.partition_point(|it| it.came_ns < change_ns);
        let last = train.come.len() - 1;
        if before < 1000 || last - before < 1000 {
            return f64::INFINITY;
        }
        let [fast, slow] =
            [train.received(before / 2, before - 1), train.received(before + 1, last)];
        let errors = [fast / 100e6 - 1.0, slow / 50e6 - 1.0];
        errors
            .into_iter()
            .fold(0.0, |one: f64, other| if other.abs() > one.abs() { other } else { one })
    });
}

#[test]
fn longer_packets_than_the_mtu_are_dropped() {
    let net = Net::new(1500);
    let path = Emulator::start(&net, &format!("--capacity 1G --mtu 1400 {PLAIN}"));
    assert_eq!(Train::send(&net, 20, 1400, 1e5).come.len(), 20);
    assert_eq!(Train::send(&net, 20, 1401, 1e5).come.len(), 0);
    let [forward, _] = adds_up(&path.end());
    assert_eq!(forward.oversize, Count { packets: 20, bytes: 20 * 1401 });
}

/// Bytes that are not the same where something is missing.
fn data(bytes: u32) -> Vec<u8> {
    (0..bytes).map(|it| (it.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// What comes of data that is sent over TCP from the left to this address of the right.
fn through_tcp(net: &Net, address: &str, data: &[u8]) -> Vec<u8> {
    let listener = net.within(Place::Right, || TcpListener::bind(address).unwrap());
    let to = listener.local_addr().unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
            let mut come = Vec::new();
            stream.read_to_end(&mut come).unwrap();
            come
        });
        net.within(Place::Left, || {
            let mut stream = TcpStream::connect(to).unwrap();
            stream.set_write_timeout(Some(common::PATIENCE)).unwrap();
            stream.write_all(data).unwrap();
        });
        reader.join().unwrap()
    })
}

#[test]
fn tcp_comes_through_whole_and_in_packets() {
    let net = Net::new(1500);
    for address in ["10.99.0.2:0", "[fd99::2]:0"] {
        let path =
            Emulator::start(&net, &format!("--capacity 200M --delay 1ms --queue 20ms {PLAIN}"));
        let data = data(8_000_000);
        let come = through_tcp(&net, address, &data);
        assert!(come == data, "{} bytes came of {}", come.len(), data.len());
        let ended = path.end();
        let [forward, _] = adds_up(&ended);
        assert_eq!(forward.oversize.packets, 0, "a super-packet is none");
        assert_eq!((forward.missed, forward.refused.packets), (0, 0));
        assert!(forward.sent.packets > 8_000_000 / 1500, "{forward:?}");
        // With all that it sent again it was not faster than the link.
        let spans = &ended.truth.spans[&Direction::Forward];
        let time = (spans.last().unwrap().to_ns - spans[0].from_ns) as f64;
        assert!(BitRate::of(forward.sent.bytes as f64, time).bits() < 202e6);
    }
}

#[test]
fn everything_is_as_before_when_it_ends() {
    let net = Net::new(1500);
    let is_on = || net.within(Place::Middle, || ["a", "b"].map(gro::is_on));
    net.within(Place::Middle, || gro::switch_on("a"));
    let before = (net.links(Place::Middle), is_on());
    assert_eq!(before.1, [true, false], "veth has none unless it is asked for");
    for signal in [Some(Signal::TERM), Some(Signal::INT), None] {
        let options = if signal.is_some() { PLAIN } else { "--duration 300ms" };
        let path = Emulator::start(&net, &format!("--capacity 1G {options}"));
        if let Some(signal) = signal {
            assert_eq!(is_on(), [false, false]);
            path.signal(signal);
        }
        let ended = path.ended();
        assert!(ended.status.success(), "{signal:?}: {}", ended.status);
        assert_eq!(ended.summary["ends"][0]["switched_off"][0], "gro");
        assert_eq!((net.links(Place::Middle), is_on()), before, "{signal:?}");
    }
}

#[test]
fn killed_it_leaves_nothing_but_what_it_has_switched_off() {
    let net = Net::new(1500);
    net.within(Place::Middle, || gro::switch_on("a"));
    let before = net.links(Place::Middle);
    let mut path = Emulator::start(&net, &format!("--capacity 1G {PLAIN}"));
    path.signal(Signal::KILL);
    assert!(!path.wait().success());
    assert_eq!(net.links(Place::Middle), before, "nor is it promiscuous");
    assert_eq!(net.within(Place::Middle, || ["a", "b"].map(gro::is_on)), [false, false]);
}

/// The kernel takes tags from frames before it gives them to who receives them.
#[test]
fn frames_of_a_vlan_stay_in_it() {
    let net = Net::new(1500);
    let [left, mut right] = [Place::Left, Place::Right].map(|place| {
        let end: End = format!("{}:eth", net.name(place)).parse().unwrap();
        Port::open(&end, 0).unwrap()
    });
    let path = Emulator::start(&net, &format!("--capacity 1G {PLAIN}"));
    // 802.1Q, VLAN 7 with a priority of 1, and a type for experiments.
    let mut sent = vec![0; Header::BYTES];
    sent.extend_from_slice(&[0xff; 6]);
    sent.extend_from_slice(&[2, 0, 0, 0, 0, 9, 0x81, 0x00, 0x20, 0x07, 0x88, 0xb5]);
    sent.extend(0..100);
    assert_eq!(left.send(&sent).unwrap(), Sent::Sent);
    let until = Instant::now() + common::PATIENCE;
    let come = loop {
        assert!(Instant::now() < until, "it has not come");
        // What the hosts say to each other on their own comes, too.
        let Some((Received::Packet(slot), _)) = right.receive() else { continue };
        let frame = right.bytes(&slot)[Header::BYTES..].to_vec();
        right.give_back(slot);
        if frame[6..12] == [2, 0, 0, 0, 0, 9] {
            break frame;
        }
    };
    assert_eq!(come, sent[Header::BYTES..]);
    adds_up(&path.end());
}

#[test]
fn large_datagrams_that_are_many_come_as_many() {
    let net = Net::new(1500);
    let path = Emulator::start(&net, &format!("--capacity 100M {PLAIN}"));
    let receiver = net.within(Place::Right, || udp::receiver("10.99.0.2:0"));
    let to = receiver.local_addr().unwrap();
    net.within(Place::Left, || {
        udp::knock("10.99.0.2");
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        nix::sys::socket::setsockopt(&socket, sockopt::UdpGsoSegment, &1000).unwrap();
        // Twenty of 1000 bytes and one of 16.
        let payload: Vec<u8> = (0..20_016).map(|it| (it / 1000) as u8).collect();
        assert_eq!(socket.send_to(&payload, to).unwrap(), 20_016);
    });
    let come = udp::receive(&receiver, 21);
    // Each has its number all over.
    let numbers: Vec<u64> = come.iter().map(|it| it.number & 0xff).collect();
    assert_eq!(numbers, (0..21).collect::<Vec<_>>());
    let gaps = come.windows(2).map(|pair| pair[1].came_ns - pair[0].came_ns).sum::<i64>();
    let [forward, _] = adds_up(&path.end());
    // Of 1028 bytes each, but for the last one: they came one after the other, and not at once. The first
    // may have been late.
    assert!(gaps as f64 > 0.5 * (19.0 * 1028.0 + 44.0) * 80.0, "{gaps} ns");
    assert!(forward.arrived.bytes >= 20 * 1028 + 44, "{forward:?}");
}

#[test]
fn it_says_that_it_is_ready_where_it_is_told_to() {
    let net = Net::new(1500);
    let [first, second] = net.ends();
    let program = env!("CARGO_BIN_EXE_eigentime-path");
    let options = "--capacity 1G --ready-fd 3 --duration 100ms";
    let command = format!("exec {program} {first} {second} {options} 3>&1 >/dev/null");
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "ready\n");
    assert!(output.status.success());
}

#[test]
fn an_interface_that_goes_away_ends_it() {
    let net = Net::new(1500);
    let mut path = Emulator::start(&net, &format!("--capacity 1G {PLAIN}"));
    net.ip(Place::Middle, "link set dev a down");
    assert_eq!(path.wait().code(), Some(1));
}

/// What it complains of.
fn complaint(arguments: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_eigentime-path");
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_is_wrong_is_told() {
    for (options, expected) in [
        ("lo eth0", "--capacity <RATE>"),
        ("lo lo --capacity 1G", "both ends are lo"),
        ("x:lo y --capacity fast", "'fast' is no bit rate"),
        ("x y --capacity 1G --loss 101", "from 0 to 100"),
        ("x y --capacity 1G --queue 0", "no such number of bytes"),
        ("x y --capacity 1G --queue much", "neither bytes"),
        ("x y --capacity 1G --cross burst:1M", "no such kind"),
        ("x y --capacity 1G --change 2s", "'2s 100M'"),
        ("x y --capacity 1G --mtu 20", "not in 68..=65535"),
        ("x y --capacity 1G --delay=-1s", "below zero"),
        ("x y --capacity 1G --duration 0s", "more than nothing"),
        ("x y --capacity 1G --truth-every 1us", "100us at least"),
        ("x: y --capacity 1G", "the interface has no name"),
        ("x y --capacity 1G --ready-fd 99", "--ready-fd 99 cannot be written to"),
        ("et-none:x et-none:y --capacity 1G", "no network namespace 'et-none'"),
    ] {
        let words: Vec<&str> = options.split(' ').collect();
        let told = complaint(&words);
        assert!(told.contains(expected), "{options}: {told}");
    }
    let net = Net::new(1500);
    let [first, second] = net.ends();
    let told = complaint(&[&first, &second, "--capacity", "1M", "--queue", "10ms"]);
    assert!(told.contains("a queue of 1250 bytes has no room for a packet of 1500"), "{told}");
    let gone = format!("{}:eth7", net.name(Place::Middle));
    let told = complaint(&[&first, &gone, "--capacity", "1G"]);
    assert!(told.contains(&format!("no interface {gone}; there are: ")), "{told}");
    let told = complaint(&[&first, &second, "--capacity", "1G", "--mtu", "9000"]);
    assert!(told.contains(&format!("more than {first} takes, which is 1500")), "{told}");
    let told = complaint(&[&first, &second, "--capacity", "1G", "--truth", "/nowhere/truth"]);
    assert!(told.contains("cannot write the truth to /nowhere/truth"), "{told}");
    net.ip(Place::Middle, "link set dev b down");
    let told = complaint(&[&first, &second, "--capacity", "1G"]);
    assert!(told.contains(&format!("{second} is down: `ip link set dev b up`")), "{told}");
}

#[test]
fn without_the_rights_it_says_which() {
    let net = Net::new(1500);
    let [first, second] = net.ends();
    for (ends, needs) in
        [([first.as_str(), &second], "CAP_SYS_ADMIN"), (["lo", "eth0"], "CAP_NET_RAW")]
    {
        // Nobody: and with that none of root's capabilities.
        let mut command = Command::new(env!("CARGO_BIN_EXE_eigentime-path"));
        let output = command.args(ends).args(["--capacity", "1G"]).uid(65_534).output();
        let Ok(output) = output else {
            skip!("a folder of programs that everybody may use");
        };
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(&format!("is not allowed: it needs {needs}")), "{told}");
    }
}

fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}
