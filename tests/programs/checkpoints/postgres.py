"""Starts PostgreSQL with two sessions, one of which is in a transaction and the other sleeps on the server. Prints when
the former has begun; for how long the latter has slept, by the server's clock; and, when it is sent SIGUSR1, what
the former sees: when it has begun, the server's clock, its row, and how many rows others see once it has committed.

    postgres.py TOOLS
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

SLEEP = 5
CLOCK = "extract(epoch from clock_timestamp())"


class Server:
    def __init__(self, tools):
        self.tools, self.data = Path(tools), Path("data").absolute()
        self.data.mkdir(mode=0o700)
        shutil.chown(self.data, "nobody")
        # It is reached by others.
        for directory in self.data.parents[:2]:
            directory.chmod(directory.stat().st_mode | 0o011)
        base = ["-D", self.data, "-U", "postgres", "-A", "trust", "--no-sync"]
        self.run("initdb", *base)
        own = ["listen_addresses=", "fsync=off", "unix_socket_permissions=0777"]
        settings = [word for one in own for word in ("-c", one)]
        words = self.as_nobody("postgres", "-D", self.data, "-k", self.data, *settings)
        with Path("log").open("w") as log:
            self.process = subprocess.Popen(words, stderr=log)
        while self.ask("select 1") != "1":
            if self.process.poll() is not None:
                sys.exit(Path("log").read_text())

    def as_nobody(self, program, *words):
        other = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        return [*other, self.tools / program, *words]

    def run(self, *words):
        subprocess.run(self.as_nobody(*words), check=True, stdout=subprocess.DEVNULL)

    def client(self, *words):
        to = ["-h", self.data, "-U", "postgres", "-d", "postgres", "-AtqX", "-F", " "]
        return [self.tools / "psql", *to, *words]

    def ask(self, sql):
        words = self.client("-c", sql)
        return subprocess.run(
            words, check=False, capture_output=True, text=True
        ).stdout.strip()


class Session:
    def __init__(self, server):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            server.client(), stdin=pipe, stdout=pipe, text=True, bufsize=1
        )

    def ask(self, sql):
        self.process.stdin.write(f"{sql};\n")
        return self.process.stdout.readline().strip()


def main(tools):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    server = Server(tools)
    transaction, sleeper = Session(server), Session(server)
    begun = transaction.ask(
        "begin; create table kept (it int); insert into kept values (1); "
        "select extract(epoch from now())"
    )
    began = float(sleeper.ask(f"select {CLOCK}"))

    def sleep():
        ended = float(sleeper.ask(f"select {CLOCK} from pg_sleep({SLEEP})"))
        print("slept", ended - began, flush=True)

    thread = threading.Thread(target=sleep)
    thread.start()
    while "PgSleep" not in server.ask("select wait_event from pg_stat_activity"):
        pass
    print("begun", begun, flush=True)
    signal.sigwait({signal.SIGUSR1})
    now = "extract(epoch from now())"
    seen = transaction.ask(f"select {now}, {CLOCK}, count(*) from kept")
    transaction.ask("commit; select 1")
    print("seen", seen, server.ask("select count(*) from kept"), flush=True)
    thread.join()
    server.process.wait()


if __name__ == "__main__":
    os.umask(0o022)
    main(*sys.argv[1:])
