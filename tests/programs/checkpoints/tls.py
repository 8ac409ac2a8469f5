"""Connects to a server that it has started, whenever it is sent SIGUSR1, by Python's ssl and by the command
openssl. Prints the wall clock before and after, and what each of the two says of the server's certificate: 0, or
the number of OpenSSL's error.

    tls.py AUTHORITY CERTIFICATE KEY
"""

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time

PLACE = "tls.sock"
NAME = "server.test"


def serve(listener, certificate, key):
    while True:
        accepted, _ = listener.accept()
        # It may have been renewed.
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        try:
            with context.wrap_socket(accepted, server_side=True) as connection:
                connection.sendall(b"!")
        except OSError:
            # The client has said why it does not like the certificate.
            accepted.close()


def by_python(authority):
    context = ssl.create_default_context(cafile=authority)
    with socket.socket(socket.AF_UNIX) as plain:
        plain.connect(PLACE)
        try:
            with context.wrap_socket(plain, server_hostname=NAME) as connection:
                connection.recv(1)
        except ssl.SSLCertVerificationError as refused:
            return refused.verify_code
    return 0


def by_openssl(authority):
    words = ["openssl", "s_client", "-unix", PLACE, "-CAfile", authority]
    done = subprocess.run(
        [*words, "-servername", NAME, "-verify_hostname", NAME],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    found = re.search(r"Verify return code: (\d+)", done.stdout)
    return found[1] if found else f"{done.stdout}{done.stderr}"


def main(authority, certificate, key):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(PLACE)
        listener.listen()
        if os.fork() == 0:
            serve(listener, certificate, key)
    while True:
        began = time.time()
        told = f"{by_python(authority)} {by_openssl(authority)}"
        print(began, time.time(), told, flush=True)
        signal.sigwait({signal.SIGUSR1})


if __name__ == "__main__":
    main(*sys.argv[1:])
