"""Two processes that talk: one takes half an hour for each answer, the other has an hour's patience.

    idle_talk.py pipe|pair|tcp
"""

import os
import socket
import sys
import time

ROUNDS = 20
SLOW = 1800.0
PATIENCE = 3600.0


def ends(kind: str) -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection."""
    if kind == "pair":
        return socket.socketpair()
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    listener.close()
    return server, client


def answer(read, write) -> None:
    """Answers until nobody asks any more."""
    while read(1):
        time.sleep(SLOW)
        write(b"b")


def ask(read, write, patient) -> None:
    """Asks, and waits for each answer."""
    begin = time.monotonic()
    for _ in range(ROUNDS):
        write(b"a")
        if not patient(PATIENCE):
            sys.exit("no answer within an hour")
        assert read(1) == b"b"
    print(f"passed={time.monotonic() - begin}", flush=True)


def main(kind: str) -> None:
    """Talks with a child."""
    import select

    if kind == "pipe":
        (questions, asks), (answers, says) = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(asks)
            answer(lambda count: os.read(questions, count), lambda it: os.write(says, it))
            os._exit(0)
        fd, read, write = answers, lambda count: os.read(answers, count), lambda it: os.write(asks, it)
        close = lambda: os.close(asks)
    else:
        server, client = ends(kind)
        if os.fork() == 0:
            client.close()
            answer(server.recv, server.sendall)
            os._exit(0)
        server.close()
        fd, read, write, close = client.fileno(), client.recv, client.sendall, client.close
    ask(read, write, lambda span: select.select([fd], [], [], span)[0])
    close()
    os.wait()


main(sys.argv[1])
