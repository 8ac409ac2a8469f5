"""Two processes that talk: one takes half an hour for each answer, the other waits an hour at most.

idle_talk.py pipe|pair|tcp
"""

import os
import select
import socket
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

ROUNDS = 20
SLOW = 1800.0
PATIENCE = 3600.0


class End(NamedTuple):
    """What one of the two reads from and writes to."""

    descriptor: int
    read: Callable[[int], bytes]
    write: Callable[[bytes], object]
    close: Callable[[], None]


def of_socket(one: socket.socket) -> End:
    """An end of a connection."""
    return End(one.fileno(), one.recv, one.sendall, one.close)


def of_pipes(read: int, write: int) -> End:
    """An end of two pipes; closing it closes the one it writes to."""
    return End(
        read,
        lambda count: os.read(read, count),
        lambda data: os.write(write, data),
        lambda: os.close(write),
    )


def ends(kind: str) -> tuple[End, End]:
    """Both ends."""
    if kind == "pipe":
        (questions, asks), (answers, says) = os.pipe(), os.pipe()
        return of_pipes(questions, says), of_pipes(answers, asks)
    if kind == "pair":
        one, other = socket.socketpair()
    else:
        listener = socket.create_server(("127.0.0.1", 0))
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
        listener.close()
    return of_socket(one), of_socket(other)


def answer(end: End) -> None:
    """Answers until no more requests come."""
    while end.read(1):
        time.sleep(SLOW)
        end.write(b"b")


def ask(end: End) -> None:
    """Asks, and waits for each answer."""
    begin = time.monotonic()
    for _ in range(ROUNDS):
        end.write(b"a")
        if not select.select([end.descriptor], [], [], PATIENCE)[0]:
            sys.exit("no answer within an hour")
        if end.read(1) != b"b":
            sys.exit("another answer")
    print(f"passed={time.monotonic() - begin}", flush=True)


def main(kind: str) -> None:
    """Talks with a child."""
    server, client = ends(kind)
    if os.fork() == 0:
        client.close()
        answer(server)
        os._exit(0)
    server.close()
    ask(client)
    client.close()
    os.wait()


main(sys.argv[1])
