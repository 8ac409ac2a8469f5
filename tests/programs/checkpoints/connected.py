"""Two processes that are connected, through `tcp`, `unix` or `pipe`: one sends numbers as fast as it can, and the other
prints a number, the wall clock and the monotonic clock for each piece that it has received. Both ways stay full. With
sockets, two threads wait for what nobody sends, and print by how much later than after WAIT seconds they end."""

import os
import select
import socket
import struct
import sys
import threading
import time

PIECE = 4096
WAIT = 8


def pair(way):
    """Two ends, for the one that receives and the one that sends."""
    if way == "pipe":
        return [os.fdopen(end, mode, 0) for end, mode in zip(os.pipe(), ("rb", "wb"))]
    if way == "unix":
        ends = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            sender = socket.create_connection(listener.getsockname())
            ends = [listener.accept()[0], sender]
    return [end.makefile(mode, 0) for end, mode in zip(ends, ("rwb", "rwb"))]


def numbers(first):
    return struct.pack(f"<{PIECE // 8}Q", *range(first, first + PIECE // 8))


def send(end):
    first = 0
    while True:
        left = memoryview(numbers(first))
        while left:
            left = left[end.write(left) :]
        first += PIECE // 8


def receive(end):
    index = 0
    while True:
        piece = b""
        while len(piece) < PIECE:
            more = end.read(PIECE - len(piece))
            if not more:
                sys.exit("CLOSED")
            piece += more
        if piece != numbers(index * (PIECE // 8)):
            sys.exit(f"LOST in piece {index}")
        tell(index, time.time(), time.monotonic())
        index += 1
        time.sleep(0.02)


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def wait(kind, end):
    begun = time.monotonic()
    if kind == "poll":
        poll = select.poll()
        poll.register(end, select.POLLIN)
        answered = bool(poll.poll(WAIT * 1000))
    else:
        try:
            os.read(end.fileno(), 1)
            answered = True
        except BlockingIOError:
            answered = False
    tell("ANSWERED" if answered else kind, time.monotonic() - begun - WAIT)


def main(way):
    silent = [] if way == "pipe" else [pair(way) for _ in range(2)]
    receiver, sender = pair(way)
    if os.fork() == 0:
        # Each has only its own ends.
        receiver.close()
        for end, _ in silent:
            end.close()
        send(sender)
    sender.close()
    for kind, (end, other) in zip(("poll", "timeout"), silent):
        other.close()
        if kind == "timeout":
            span = struct.pack("ll", WAIT, 0)
            option = socket.SO_RCVTIMEO
            with socket.socket(fileno=os.dup(end.fileno())) as same:
                same.setsockopt(socket.SOL_SOCKET, option, span)
        threading.Thread(target=wait, args=(kind, end), daemon=True).start()
    receive(receiver)


main(*sys.argv[1:])
