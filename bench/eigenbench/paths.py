"""Two hosts on one machine and a path between them: temporary network namespaces."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

from eigenbench.processes import POLL_S, Deadline, child, run

# The hosts: the measuring one, the measured one, and the source of cross traffic.
LEFT, MIDDLE, RIGHT, OTHER = "l", "m", "r", "o"
ADDRESS = "10.99.0.2"
PORT = 5201
READY_S = 10.0
# The kernel's token bucket counts the Ethernet header, unlike rates of IP packets.
HEADER = 14
# A higher priority than the measuring programs', which would delay cross traffic while they send.
FIRST = ("chrt", "--fifo", "60")
PACKET = 1500
# Reads the counters of an interface in its network namespace, once per line: between two clock
# readings, and again if these are too far apart.
COUNT = """
import sys, time
def row():
    with open("/proc/net/dev") as rows:
        return next(it.split(":")[1].split() for it in rows if it.split(":")[0].strip() == sys.argv[1])
for _ in sys.stdin:
    begin, end = 0, 1 << 62
    while end - begin > 200_000:
        begin, found, end = time.monotonic_ns(), row(), time.monotonic_ns()
    print((begin + end) // 2, found[0], found[1])
"""
COUNTING = (sys.executable, "-u", "-c", COUNT)
# Removes network namespaces with all their processes, once nobody holds its input open any more.
REMOVE = """
read -r _
for name; do
    ip netns pids "$name" | xargs --no-run-if-empty kill -KILL
    ip netns del "$name"
done
"""
REMOVING = ("sh", "-c", REMOVE, "sh")


class PathError(Exception):
    """Why such a path is not possible here."""


@dataclass(frozen=True)
class Iperf3:
    """A kind of traffic by iperf3, whose IP packets have `PACKET` bytes."""

    options: tuple[str, ...]
    # What `--bitrate` counts of a packet.
    payload: int
    # How many packets it sends at a time, whenever it is behind its rate.
    burst: int = 1

    def command(self, rate: float) -> list[str]:
        """The client, with this rate of IP packets."""
        bitrate = f"{rate * self.payload / PACKET:.0f}/{self.burst}"
        client = ("iperf3", "-c", ADDRESS, "-p", str(PORT), "-t", "60", "--forceflush")
        return [*client, *self.options, "-b", bitrate]


# Without the headers of IP and UDP; of IP, TCP and its timestamp.
UDP_PAYLOAD, TCP_PAYLOAD = PACKET - 28, PACKET - 52
UDP = Iperf3(("-u", "-l", str(UDP_PAYLOAD)), UDP_PAYLOAD)
BURSTS = Iperf3(UDP.options, UDP_PAYLOAD, burst=10)
# Its own blocks, of 128 KiB, would occupy these paths for longer than any train.
TCP = Iperf3(("-l", "8K"), TCP_PAYLOAD)


@dataclass(frozen=True)
class PathSpec:
    """The specification of a path: bits per second of IP packets."""

    capacity: float
    cross: float
    delay: str = "1ms"
    mtu: int = PACKET
    # With the kernel's token bucket and this cross traffic; None: with the emulator.
    real: Iperf3 | None = None


@dataclass(frozen=True)
class Truth:
    """What was available on a path, between two instants of CLOCK_MONOTONIC."""

    capacity: float
    # The nanoseconds at the end of each span, and the bits of cross traffic until then.
    times: Sequence[int]
    cross: Sequence[float]

    def available(self, begin_ns: int, end_ns: int) -> float:
        """The capacity minus the cross traffic during this time, in bits per second."""
        carried = self._until(end_ns) - self._until(begin_ns)
        return self.capacity - carried / (end_ns - begin_ns) * 1e9

    def _until(self, at_ns: int) -> float:
        before = 0.0
        for time_ns, bits in zip(self.times, self.cross, strict=True):
            if time_ns > at_ns:
                break
            before = bits
        return before


def truth_of(text: str) -> Truth:
    """The truth that the emulator has written, for its first direction."""
    times, cross, capacity, sum_bits = [], [], 0.0, 0.0
    for line in text.splitlines():
        told = json.loads(line)
        if told["line"] == "path":
            capacity = told["forward"]["capacity"]
            times.append(told["from_ns"])
            cross.append(0.0)
        elif told["line"] == "span" and told["way"] == "forward":
            sum_bits += 8 * told["cross"]["bytes"]
            times.append(told["to_ns"])
            cross.append(sum_bits)
    return Truth(capacity, times, cross)


@dataclass(frozen=True)
class Network:
    """The namespaces and their cables."""

    mtu: int

    def name(self, side: str) -> str:
        """The host's name for `ip`."""
        return f"et-bench-{os.getpid()}{side}"

    def there(self, side: str, *command: str) -> list[str]:
        """A command line that runs on that host."""
        return ["ip", "netns", "exec", self.name(side), *command]

    @contextmanager
    def counted(self, side: str, interface: str = "eth") -> Iterator["Counter"]:
        """The counter of the bits that come to a host, as long as it is needed."""
        with counting(self.there(side, *COUNTING, interface)) as counter:
            yield counter


@dataclass(frozen=True)
class Counter:
    """A process in a host's namespace that reads its interface's counters on request.

    Starting a process for each reading would count what comes while it starts and ends.
    """

    process: subprocess.Popen[str]

    def came(self) -> tuple[int, float]:
        """When it was read, on CLOCK_MONOTONIC in nanoseconds, and the bits of IP packets by then."""
        asked, told = self.process.stdin, self.process.stdout
        assert asked is not None
        assert told is not None
        try:
            asked.write("\n")
            asked.flush()
        except BrokenPipeError as error:
            raise PathError("the counter of what comes to a host has ended") from error
        words = told.readline().split()
        if len(words) != len(("when", "bytes", "packets")):
            raise PathError("the counter of what comes to a host has ended")
        at, received, packets = map(int, words)
        return at, 8.0 * (received - HEADER * packets)


@contextmanager
def counting(command: Sequence[str]) -> Iterator[Counter]:
    """A counter, as long as it is needed."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            counter = Counter(process)
            # It has started once it answers.
            counter.came()
            yield counter
        finally:
            process.kill()


@contextmanager
def laid(mtu: int) -> Iterator[Network]:
    """A network, as long as it is needed."""
    network = Network(mtu)
    hosts = [network.name(side) for side in (LEFT, MIDDLE, RIGHT, OTHER)]
    with removed(hosts):
        for host in hosts:
            _ip(f"netns add {host}")
        middle = network.name(MIDDLE)
        for side, number in (LEFT, 1), (RIGHT, 2), (OTHER, 3):
            own = network.name(side)
            _ip(
                f"link add eth netns {own} mtu {mtu} type veth "
                f"peer name {side} netns {middle} mtu {mtu}"
            )
            _ip(f"-n {own} addr add 10.99.0.{number}/24 dev eth")
            _ip(f"-n {own} link set dev eth up")
            _ip(f"-n {middle} link set dev {side} up")
        yield network


@contextmanager
def removed(namespaces: Sequence[str]) -> Iterator[None]:
    """Removes network namespaces at the end, which for this process may be SIGKILL, too."""
    with subprocess.Popen(
        (*REMOVING, *namespaces),
        stdin=subprocess.PIPE,
        # What could not be created does not exist.
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ):
        yield


@contextmanager
def emulated(network: Network, emulator: Path, spec: PathSpec) -> Iterator[Path]:
    """The path of a specification, with the emulator; yields the file with its truth."""
    with TemporaryDirectory() as folder:
        truth = Path(folder) / "truth"
        command = [str(emulator), "--capacity", f"{spec.capacity:.0f}"]
        command += ["--delay", spec.delay, "--truth", str(truth), "--duration", "60s"]
        if spec.cross:
            seed = time.monotonic_ns() % 2**32
            command += ["--cross", f"poisson:{spec.cross:.0f}", "--seed", str(seed)]
        with _waited(network.there(MIDDLE, *command, LEFT, RIGHT), "ready"):
            yield truth


@contextmanager
def shaped(network: Network, spec: PathSpec) -> Iterator[None]:
    """The same, with a bridge, the kernel's token bucket, and iperf3 as cross traffic."""
    middle = network.name(MIDDLE)
    with ExitStack() as stack:
        _ip(f"-n {middle} link add name bridge type bridge")
        stack.callback(_ip, f"-n {middle} link del dev bridge")
        for port in LEFT, RIGHT, OTHER:
            _ip(f"-n {middle} link set dev {port} master bridge")
        _ip(f"-n {middle} link set dev bridge up")
        rate = round(spec.capacity * (PACKET + HEADER) / PACKET)
        tbf = f"root tbf rate {rate} burst 3200 limit 1000000"
        _run(network.there(MIDDLE, "tc", *f"qdisc add dev {RIGHT} {tbf}".split()))
        stack.callback(
            _run,
            network.there(MIDDLE, "tc", *f"qdisc del dev {RIGHT} root".split()),
        )
        if spec.real and spec.cross:
            if shutil.which("iperf3") is None:
                raise PathError("iperf3 not installed")
            listen = network.there(
                RIGHT, *FIRST, "iperf3", "-s", "-p", str(PORT), "--forceflush"
            )
            stack.enter_context(_waited(listen, "listening"))
            # Each packet is on its own from the start, so that counters count its headers.
            _ip(f"-n {network.name(OTHER)} link set dev eth gso_max_segs 1")
            client = spec.real.command(spec.cross)
            send = network.there(OTHER, *FIRST, *client)
            stack.enter_context(_waited(send, "connected to"))
        yield


@contextmanager
def served(network: Network, eigentime: Path, token: str) -> Iterator[None]:
    """A server on the right-hand host."""
    command = ["env", f"EIGENTIME_TOKEN={token}", str(eigentime)]
    command += ["bandwidth", "serve", "--json"]
    with _waited(network.there(RIGHT, *command), "listening"):
        yield


@contextmanager
def _waited(command: Sequence[str], word: str) -> Iterator[None]:
    """A child, once it has printed the word."""
    with TemporaryFile() as out, child(command, out=out, err=out) as process:
        end = Deadline(READY_S)
        while word not in _content(out):
            if process.poll() is not None or not end.remaining():
                text = _content(out).strip().splitlines()
                raise PathError(text[-1] if text else f"{command[-1]}: no word")
            time.sleep(POLL_S)
        yield


def _content(file: IO[bytes]) -> str:
    """What a file has, without moving where its writer is."""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode(errors="replace")


def _ip(command: str) -> None:
    _run(["ip", *command.split()])


def _run(command: Sequence[str]) -> None:
    finished = run(command, Deadline(READY_S))
    if not finished.succeeded:
        raise PathError(f"{' '.join(command)}: {finished.complaint}")
