"""A wait for a process outside the timeline, beside a thread that sleeps for a day.

idle_held.py outside|inside KIND FOLDER

Outside, it answers when it receives a line; inside, it waits for that answer. The kinds are the keys
of the two tables.
"""

import fcntl
import os
import pathlib
import select
import socket
import sys
import threading
import time
import tty
from collections.abc import Callable

DAY = 86_400.0

Place = pathlib.Path
Answer = Callable[[], object]


def inet(place: Place) -> tuple[socket.socket, Place]:
    """Datagrams, at a port that is written to a file."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("127.0.0.1", 0))
    (place / "new").write_text(str(one.getsockname()[1]))
    (place / "new").rename(place / "port")
    return one, place


def answers_datagram(one: socket.socket) -> Answer:
    """Replies to the sender."""

    def answer() -> None:
        _, asker = one.recvfrom(1)
        one.sendto(b"b", asker)

    return answer


def local(kind: socket.SocketKind, place: Place) -> socket.socket:
    """A local socket of this host."""
    one = socket.socket(socket.AF_UNIX, kind)
    one.bind(str(place / "socket"))
    return one


def serves(place: Place) -> Answer:
    """A stream."""
    listener = local(socket.SOCK_STREAM, place)
    listener.listen()
    return lambda: listener.accept()[0].send(b"b")


def writes(place: Place) -> Answer:
    """A named pipe, both ends of which this process has."""
    os.mkfifo(place / "fifo")
    end = os.open(place / "fifo", os.O_RDWR)
    return lambda: os.write(end, b"b")


def writes_by_another_name(place: Place) -> Answer:
    """A named pipe with two names."""
    os.mkfifo(place / "other")
    (place / "fifo").hardlink_to(place / "other")
    end = os.open(place / "other", os.O_RDWR)
    return lambda: os.write(end, b"b")


def takes_long(place: Place) -> Answer:
    """Listens, and accepts no connection yet."""
    listener = local(socket.SOCK_STREAM, place)
    listener.listen(0)
    return lambda: [listener.accept() for _ in range(2)]


def types(place: Place) -> Answer:
    """A terminal."""
    keyboard, screen = os.openpty()
    tty.setraw(screen)
    (place / "terminal").symlink_to(os.ttyname(screen))
    return lambda: os.write(keyboard, b"b")


def locks(place: Place, lock: Callable[[int, int], None]) -> Answer:
    """A file."""
    end = os.open(place / "file", os.O_RDWR | os.O_CREAT)
    lock(end, fcntl.LOCK_EX)
    return lambda: lock(end, fcntl.LOCK_UN)


OUTSIDE: dict[str, Callable[[Place], Answer]] = {
    "named_pipe": writes,
    "linked_pipe": writes_by_another_name,
    "reused_number": writes,
    "terminal": types,
    "stream": serves,
    "backlog": takes_long,
    "datagram": lambda place: answers_datagram(local(socket.SOCK_DGRAM, place)),
    "datagram_connected": lambda place: answers_datagram(
        local(socket.SOCK_DGRAM, place)
    ),
    "udp": lambda place: answers_datagram(inet(place)[0]),
    "udp_connected": lambda place: answers_datagram(inet(place)[0]),
    "record_lock": lambda place: locks(place, fcntl.lockf),
    "file_lock": lambda place: locks(place, fcntl.flock),
}


def read(path: Place) -> None:
    """A byte from it."""
    os.read(os.open(path, os.O_RDWR | os.O_NOCTTY), 1)


def stream(place: Place) -> None:
    """A byte of a stream."""
    one = socket.socket(socket.AF_UNIX)
    one.connect(str(place / "socket"))
    one.recv(1)


def datagram(place: Place) -> None:
    """Asks, and waits for the answer."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.bind("")
    one.sendto(b"a", str(place / "socket"))
    one.recv(1)


def datagram_connected(place: Place) -> None:
    """Asks the peer it has connected to."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.bind(str(place / "asker"))
    one.connect(str(place / "socket"))
    one.send(b"a")
    one.recv(1)


def backlog(place: Place) -> None:
    """Connects more often than the backlog allows."""
    all_of_them = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    for one in all_of_them:
        one.connect(str(place / "socket"))


def reused_number(place: Place) -> None:
    """Waits with epoll for a pipe whose descriptor number has changed since."""
    end = os.open(place / "fifo", os.O_RDWR)
    poll = select.epoll()
    poll.register(end, select.EPOLLIN)
    os.dup(end)
    os.dup2(os.open("/dev/null", os.O_RDONLY), end)
    poll.poll()


def udp(place: Place) -> None:
    """Asks a peer it does not connect to."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.sendto(b"a", ("127.0.0.1", int((place / "port").read_text())))
    one.recv(1)


def udp_connected(place: Place) -> None:
    """Asks the peer it has connected to."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.connect(("127.0.0.1", int((place / "port").read_text())))
    one.send(b"a")
    one.recv(1)


def take(place: Place, lock: Callable[[int, int], None]) -> None:
    """Locks a file."""
    lock(os.open(place / "file", os.O_RDWR), fcntl.LOCK_EX)


INSIDE: dict[str, Callable[[Place], None]] = {
    "named_pipe": lambda place: read(place / "fifo"),
    "linked_pipe": lambda place: read(place / "fifo"),
    "reused_number": reused_number,
    "terminal": lambda place: read(place / "terminal"),
    "stream": stream,
    "backlog": backlog,
    "datagram": datagram,
    "datagram_connected": datagram_connected,
    "udp": udp,
    "udp_connected": udp_connected,
    "record_lock": lambda place: take(place, fcntl.lockf),
    "file_lock": lambda place: take(place, fcntl.flock),
}


def a_day() -> None:
    """Prints a line when it has passed."""
    time.sleep(DAY)
    print("a day", flush=True)


def main(role: str, kind: str, place: Place) -> None:
    """Runs one of the two."""
    if role == "outside":
        answer = OUTSIDE[kind](place)
        print("ready", flush=True)
        sys.stdin.readline()
        answer()
        sys.stdin.read()
    else:
        threading.Thread(target=a_day, daemon=True).start()
        INSIDE[kind](place)
        print("an answer", flush=True)


main(sys.argv[1], sys.argv[2], Place(sys.argv[3]))
