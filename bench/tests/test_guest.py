"""A virtual machine's files, and the output of its shell."""

import socket
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from eigenbench import guest
from eigenbench.precision import Failed
from eigenbench.processes import Deadline


class Archives(unittest.TestCase):
    def test_each_file_has_its_folders_before_it(self) -> None:
        packed = guest.archive({"lib/x86/libc.so": b"abc"})
        # Names follow headers of 110 bytes, and everything is aligned to four.
        at = [packed.index(f"{it}\0".encode()) for it in ("lib", "lib/x86")]
        file = packed.index(b"lib/x86/libc.so\0")
        self.assertLess(max(at), file)
        self.assertEqual((file - 110) % 4, 0)
        self.assertIn(b"abc\0" + b"070701", packed)
        self.assertTrue(packed.rstrip(b"\0").endswith(b"TRAILER!!!"))

    def test_a_program_brings_its_libraries(self) -> None:
        files = guest.packed([Path("/bin/sh").resolve()], Deadline(10))
        self.assertTrue(any("libc" in name for name in files), sorted(files))
        self.assertFalse(any(name.startswith("/") for name in files))


class Shells(unittest.TestCase):
    def called(self, answer: bytes, seconds: float = 5.0) -> str:
        here, there = socket.socketpair()
        with here, there:
            there.sendall(answer)
            return guest.Guest("", here, here).call("true", Deadline(seconds))

    def test_what_is_said_before_the_status_is_the_answer(self) -> None:
        self.assertEqual(self.called(b"one\r\ntwo\r\n=0=\r\n"), "one\r\ntwo\r\n")

    def test_a_line_that_fails_says_why(self) -> None:
        with self.assertRaisesRegex(Failed, "status 1: true: no such file"):
            self.called(b"no such file\n=1=\n")

    def test_one_that_is_silent_is_not_waited_for(self) -> None:
        with self.assertRaisesRegex(Failed, "timed out"):
            self.called(b"", 0.05)


class Starts(unittest.TestCase):
    def test_what_is_missing_is_said(self) -> None:
        with (
            TemporaryDirectory() as folder,
            mock.patch.object(guest, "QEMU", "sh"),
            mock.patch.object(guest, "SHELL", "sh"),
            self.assertRaisesRegex(Failed, "make vm"),
            guest.guest([], Deadline(5), Path(folder) / "vmlinuz"),
        ):
            self.fail("it has started")
