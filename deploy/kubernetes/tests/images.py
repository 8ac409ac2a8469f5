"""Images for tests, made from what this machine has."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import image

# Each repeatedly prints its wall clock in seconds and how long a sleep of two seconds took, in milliseconds.
# With an argument, it prints what its clock shows now, in nanoseconds.
GO = """
package main

import ("fmt"; "os"; "time")

func main() {
	if len(os.Args) > 1 {
		fmt.Println(time.Now().UnixNano())
		return
	}
	for {
		began := time.Now()
		time.Sleep(2 * time.Second)
		fmt.Println(time.Now().Unix(), time.Since(began).Milliseconds())
	}
}
"""

JAVA = """
import java.time.Instant;

public class Clock {
    public static void main(String[] words) throws Exception {
        if (words.length > 0) {
            Instant now = Instant.now();
            System.out.println(now.getEpochSecond() * 1_000_000_000L + now.getNano());
            return;
        }
        while (true) {
            long began = System.nanoTime();
            Thread.sleep(2000);
            System.out.println(System.currentTimeMillis() / 1000 + " " + (System.nanoTime() - began) / 1000000);
        }
    }
}
"""

PYTHON = """
import sys, time
if len(sys.argv) > 1:
    print(time.time_ns())
    sys.exit()
while True:
    began = time.monotonic()
    time.sleep(2)
    print(int(time.time()), int((time.monotonic() - began) * 1000), flush=True)
"""

# Prints each leap of its wall clock that is longer than half an hour: the last reading before and the first after
# it, in nanoseconds; it reads again after PAUSE of its time. With an argument, it prints the current reading.
SAMPLER = """
package main

import ("fmt"; "os"; "time")

func main() {
	if len(os.Args) > 1 {
		fmt.Println(time.Now().UnixNano())
		return
	}
	pause, err := time.ParseDuration(os.Getenv("PAUSE"))
	if err != nil {
		panic(err)
	}
	last := time.Now().UnixNano()
	for {
		if pause > 0 {
			time.Sleep(pause)
		}
		now := time.Now().UnixNano()
		if now - last > int64(30 * time.Minute) {
			fmt.Println(last, now)
		}
		last = now
	}
}
"""

RUN_JAVA = ["/java/bin/java", "-Xshare:off", "-cp", "/", "Clock"]
RUN_PYTHON = [str(Path(sys.executable).resolve()), "/clock.py"]


def libraries(*programs):
    """The libraries that programs are linked with, at their paths."""
    found = {}
    for program in programs:
        listed = subprocess.run(
            ["ldd", program], capture_output=True, text=True, check=True
        )
        for line in listed.stdout.splitlines():
            path = next((word for word in line.split() if word.startswith("/")), None)
            if path:
                found[path.lstrip("/")] = Path(path).read_bytes()
    return [(name, data, 0o755) for name, data in found.items()]


def busybox(archive, reference):
    """A shell and its tools."""
    data = Path("/bin/busybox").read_bytes()
    listed = subprocess.run(
        ["/bin/busybox", "--list"], capture_output=True, text=True, check=True
    )
    files = [("bin/busybox", data, 0o755)]
    files += [
        (f"bin/{name}", "busybox", 0o777)
        for name in listed.stdout.split()
        if name != "busybox"
    ]
    image.write(
        archive, reference, files, {"Entrypoint": ["/bin/sh"], "Env": ["PATH=/bin"]}
    )


def go(archive, reference, scratch, source=GO):
    """A static program in Go."""
    (scratch / "program.go").write_text(source)
    command = ["go", "build", "-o", scratch / "program", scratch / "program.go"]
    subprocess.run(command, check=True, env=os.environ | {"CGO_ENABLED": "0"})
    files = [("program", (scratch / "program").read_bytes(), 0o755)]
    image.write(archive, reference, files, {"Entrypoint": ["/program"]})


def postgres_programs():
    """The path of the server installed here, if any."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


def postgres(archive, reference):
    """The server installed here, with a shell."""
    programs = postgres_programs()
    version = programs.parent.name
    modules = programs.parent / "lib"
    used = [programs / name for name in ("postgres", "initdb", "psql")]
    used += [modules / name for name in ("plpgsql.so", "dict_snowball.so")]
    share = Path("/usr/share/postgresql") / version
    files = [(str(path).lstrip("/"), path.read_bytes(), 0o755) for path in used]
    files += libraries(*used)
    files += [
        (str(share / name).lstrip("/"), data, mode)
        for name, data, mode in image.contents(share)
        if isinstance(data, bytes) and not name.startswith("man/")
    ]
    files += [("etc/passwd", b"postgres:x:65532:65532::/:/bin/sh\n", 0o644)]
    files += [("bin/busybox", Path("/bin/busybox").read_bytes(), 0o755)]
    files += [("bin/sh", "busybox", 0o777)]
    image.write(archive, reference, files, {"Env": [f"PATH=/bin:{programs}"]})


def java(archive, reference, scratch):
    """A Java virtual machine with only the base module."""
    (scratch / "Clock.java").write_text(JAVA)
    subprocess.run(["javac", "-d", scratch, str(scratch / "Clock.java")], check=True)
    runtime = scratch / "java"
    command = [
        "jlink",
        "--add-modules",
        "java.base",
        "--strip-debug",
        "--output",
        str(runtime),
    ]
    subprocess.run(command, check=True)
    files = [
        (f"java/{name}", data, mode) for name, data, mode in image.contents(runtime)
    ]
    files += [("Clock.class", (scratch / "Clock.class").read_bytes(), 0o644)]
    files += libraries(runtime / "bin/java", runtime / "lib/server/libjvm.so")
    image.write(archive, reference, files, {"Entrypoint": RUN_JAVA})


def python(archive, reference, _):
    """This machine's Python, without packages."""
    executable = Path(RUN_PYTHON[0])
    library = Path(sys.modules["os"].__file__).parent
    skipped = (
        "/test/",
        "/idlelib/",
        "/tkinter/",
        "/ensurepip/",
        "/__pycache__/",
        "-packages/",
        "/config-",
    )
    files = [
        (str(library / name).lstrip("/"), data, mode)
        for name, data, mode in image.contents(library)
        if not any(part in f"/{name}" for part in skipped)
    ]
    files += [(str(executable).lstrip("/"), executable.read_bytes(), 0o755)]
    modules = [str(path) for path in (library / "lib-dynload").glob("*.so")]
    files += libraries(executable, *modules)
    files += [("clock.py", PYTHON.encode(), 0o644)]
    image.write(archive, reference, files, {"Entrypoint": RUN_PYTHON})


class Language(NamedTuple):
    """How a program's image is made, what that needs, and what starts the program."""

    image: Callable
    needs: list
    run: list


LANGUAGES = {
    "go": Language(go, ["go"], ["/program"]),
    "java": Language(java, ["javac", "jlink"], RUN_JAVA),
    "python": Language(python, [], RUN_PYTHON),
}
