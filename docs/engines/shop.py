"""A shop whose carts last for a day: `shop.py web` fills them, `shop.py worker` counts them."""

import datetime
import http.server
import socket
import sys
import time

DAY = 24 * 3600


def database(*words):
    """What redis answers to a command."""
    connection = socket.create_connection(("database", 6379))
    with connection, connection.makefile("rwb") as stream:
        stream.write(b"*%d\r\n" % len(words))
        for word in words:
            data = str(word).encode()
            stream.write(b"$%d\r\n%s\r\n" % (len(data), data))
        stream.flush()
        return stream.readline().decode().strip()


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")


class Shop(http.server.BaseHTTPRequestHandler):
    """Every visit is a cart of its own."""

    def do_GET(self):
        database("SET", f"cart-{time.time_ns()}", "full", "EX", DAY)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{now()}: a cart for you\n".encode())

    def log_message(self, format, *args):
        """Without a line for every visit."""


def work():
    while True:
        print(f"{now()}: carts: {database('DBSIZE').lstrip(':')}")
        time.sleep(6 * 3600)


if __name__ == "__main__":
    if sys.argv[1:] == ["web"]:
        http.server.HTTPServer(("", 8000), Shop).serve_forever()
    elif sys.argv[1:] == ["worker"]:
        work()
    else:
        sys.exit(__doc__)
