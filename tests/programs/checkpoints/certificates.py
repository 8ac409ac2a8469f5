"""A TLS client is moved, and sees a fresh certificate by the clock that the policy says."""

import os
import signal
import ssl
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path

from moving import EIGENTIME, Moving, catches_up, ensure

# What Python's ssl and the command openssl say of a certificate.
VALID, NOT_YET_VALID = ["0", "0"], ["9", "9"]


class Authority:
    """Issues certificates by the command openssl, whose clock is what it is told."""

    def __init__(self):
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        own = ["-keyout", "authority.key", "-out", "authority.pem", "-days", "7300"]
        self.openssl("req", "-x509", *new, "-subj", "/CN=authority", *own)
        name = ["-subj", "/CN=server.test", "-addext", "subjectAltName=DNS:server.test"]
        request = ["-keyout", "server.key", "-out", "server.csr"]
        self.openssl("req", *new, *name, *request)

    @staticmethod
    def openssl(*words, date=None):
        at = [] if date is None else [EIGENTIME, "run", "--date", date, "--"]
        words = [*at, "openssl", *words]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        ensure(done.returncode == 0, f"{words}: {done.stderr}")
        return done.stdout

    def issue(self, date):
        """A fresh one, and from when on it is valid."""
        by = ["-CA", "authority.pem", "-CAkey", "authority.key", "-days", "1"]
        request = ["-req", "-in", "server.csr", "-copy_extensions", "copy"]
        self.openssl("x509", *request, *by, "-out", "fresh.pem", date=date)
        Path("fresh.pem").rename("server.pem")
        told = self.openssl("x509", "-in", "server.pem", "-noout", "-startdate")
        return ssl.cert_time_to_seconds(told.strip().removeprefix("notBefore="))


def tls(program, timeline, rate, policy):
    """A certificate that was issued meanwhile is valid for a client whose wall clock has caught up."""
    authority = Authority()
    # Half a day before the timeline begins.
    authority.issue(None if timeline is None else "2037-12-31T12:00:00")
    files = ["authority.pem", "server.pem", "server.key"]
    moving = Moving("tls", [*program, *files], timeline)

    def connect():
        """When it did, and what it says of the certificate."""
        written = len(moving.lines())
        os.kill(moving.pid, signal.SIGUSR1)
        moving.await_lines(written + 1)
        began, ended, *told = moving.lines()[-1].split()
        return int(float(began)), int(float(ended)), told

    moving.await_lines(1)
    ensure(connect()[2] == VALID, f"{moving.lines()}")
    moving.checkpoint()
    moving.reap()
    time.sleep(3)
    saved = moving.stood()
    stood, host = saved["clocks"]["realtime"] / 1e9, saved["host_realtime_ns"] / 1e9
    now = datetime.fromtimestamp(stood + (time.time() - host) * rate, timezone.utc)
    valid_from = authority.issue(None if timeline is None else now.isoformat())
    moving.restore("--policy", policy, elsewhere=True)
    _, ended, told = connect()
    first = (
        VALID
        if catches_up(policy, "realtime") or ended >= valid_from
        else NOT_YET_VALID
    )
    # It may have become valid between the two.
    ensure(
        told == first or ended == valid_from,
        f"valid from {valid_from} on: {moving.lines()}",
    )
    end = time.monotonic() + 60
    while told != VALID:
        began, ended, told = connect()
        # It may have become valid between the two.
        is_right = told == VALID if began >= valid_from else "0" not in told
        ensure(
            is_right or began < valid_from <= ended,
            f"valid from {valid_from} on: {moving.lines()}",
        )
        ensure(time.monotonic() < end, f"valid from {valid_from} on: {moving.lines()}")
    moving.end()
