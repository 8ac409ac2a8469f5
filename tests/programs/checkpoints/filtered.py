"""Forbids itself `ppoll`, waits for a signal, and then becomes a program that calls `poll`."""

import ctypes
import os
import signal
import struct
import sys

PPOLL = 271
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
REFUSE, ALLOW = 0x0005_0000 | 1, 0x7FFF_0000
# Loads the number of the call; jumps; returns.
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
POLLING = (
    "import select\n"
    "try:\n"
    "    for _ in range(100):\n"
    "        select.poll().poll(1)\n"
    "except OSError as error:\n"
    "    print(error, flush=True)\n"
    "else:\n"
    "    print('polled', flush=True)\n"
)

instructions = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, PPOLL), (RETURN, 0, 0, REFUSE)]
instructions += [(RETURN, 0, 0, ALLOW)]
program = b"".join(struct.pack("HBBI", *one) for one in instructions)
buffer = ctypes.create_string_buffer(program)
header = struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
for request in (NO_NEW_PRIVILEGES, 1, 0, 0, 0), (SECCOMP, FILTER, header, 0, 0):
    if libc.prctl(*request) != 0:
        sys.exit(f"prctl: {ctypes.get_errno()}")
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
print("filtered", flush=True)
signal.sigwait({signal.SIGUSR1})
os.execv(sys.executable, [sys.executable, "-c", POLLING])
