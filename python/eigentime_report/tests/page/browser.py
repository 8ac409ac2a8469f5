"""Chromium without a window, told what to do through a pipe (the DevTools protocol)."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
WAIT_S = 120.0

# No window, no graphics card, and nothing that the browser does by itself over the network.
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)

# It reads commands from 3, and answers on 4.
AT_3_AND_4 = 'read=$1 write=$2; shift 2; exec "$@" 3<&"$read" 4>&"$write"'

# A page that nobody looks at may be painted late.
PAINTED = """Promise.race([
    new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30))),
    new Promise((done) => setTimeout(done, 1000)),
])"""

# By their names in DOM: their codes.
KEYS = {"Tab": 9, "ArrowUp": 38, "ArrowDown": 40}

Json = dict[str, Any]


def program() -> str | None:
    """Where Chromium is."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """A browser with one page; it ends with its `with` block."""

    def __init__(self, executable: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="eigentime-chromium-")
        here_in, there_out = os.pipe()
        there_in, here_out = os.pipe()
        self._read, self._write = here_in, here_out
        self._rest = b""
        self._number = 0
        self._events: list[Json] = []

        there = str(there_in), str(there_out)
        self._process = subprocess.Popen(
            [
                *("bash", "-c", AT_3_AND_4, "bash", *there, executable),
                *OPTIONS,
                f"--user-data-dir={self._profile.name}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(there_in, there_out),
        )
        os.close(there_in)
        os.close(there_out)
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._send("Browser.close")
            self._process.wait(10)
        except (OSError, TimeoutError, RuntimeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        # Its helpers may be a moment longer at their files.
        self._profile._ignore_cleanup_errors = True
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> Json:
        """One command for the page."""
        return self._send(method, self._session, **parameters)

    def open(self, path: Path) -> None:
        """A file, until it is loaded; what was said before is forgotten."""
        self._events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self._until(lambda event: event["method"] == "Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of an expression; promises are waited for."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """How large the window is, and whether the system prefers the dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        value = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def press(self, key: str) -> None:
        """One of `KEYS`, as somebody at the keyboard does."""
        for kind in "keyDown", "keyUp":
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=KEYS[key],
            )

    def scroll_through(self) -> None:
        """Down the whole page, as a reader does it, and up again."""
        place, end = 0, self.run("document.body.scrollHeight")
        while place < end:
            self._scroll(place)
            place += self.run("innerHeight / 2")
            end = self.run("document.body.scrollHeight")
        self._scroll(0)

    def _scroll(self, place: float) -> None:
        """To there, until the browser has painted, and has told what it has come to."""
        self.run(f"scrollTo({{ top: {place}, behavior: 'instant' }})")
        self.run(PAINTED)

    def complaints(self) -> list[str]:
        """Errors and warnings that the page has caused."""
        self.run("new Promise((done) => setTimeout(done, 100))")
        found = []
        for event in self._events:
            said = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    found.append(str(said["exceptionDetails"]))
                case "Runtime.consoleAPICalled" if said["type"] in ("error", "warning"):
                    found.append(str(said["args"]))
                case "Log.entryAdded" if said["entry"]["level"] in ("error", "warning"):
                    found.append(said["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """What the page has asked for, itself left out."""
        return [
            event["params"]["request"]["url"]
            for event in self._events
            if event["method"] == "Network.requestWillBeSent"
            and event["params"].get("type") != "Document"
            and not event["params"]["request"]["url"].startswith("data:")
        ]

    def picture(self, path: Path, *, whole: bool = False) -> bytes:
        """What is seen, or the whole page, as PNG."""
        options: Json = {"format": "png"}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options["captureBeyondViewport"] = True
            options["clip"] = {**size, "scale": 1}
        image = base64.b64decode(self.call("Page.captureScreenshot", **options)["data"])
        path.write_bytes(image)
        return image

    def paper(self, path: Path) -> bytes:
        """The page as it is printed on A4, as PDF."""
        found = self.call(
            "Page.printToPDF",
            preferCSSPageSize=True,
            paperWidth=8.27,
            paperHeight=11.69,
            printBackground=False,
        )
        document = base64.b64decode(found["data"])
        path.write_bytes(document)
        return document

    def _send(self, method: str, session: str = "", **parameters: Any) -> Json:
        self._number += 1
        number = self._number
        message: Json = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda event: event.get("id") == number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return dict(answer["result"])

    def _until(self, is_it: Any) -> Json:
        """The message that is waited for; events that come before it are kept."""
        end = time.monotonic() + WAIT_S
        while True:
            while b"\0" in self._rest:
                line, self._rest = self._rest.split(b"\0", 1)
                message: Json = json.loads(line)
                if "method" in message:
                    self._events.append(message)
                if is_it({"method": "", **message}):
                    return message
            if not select.select([self._read], [], [], end - time.monotonic())[0]:
                raise TimeoutError(f"the browser has not answered within {WAIT_S} s")
            more = os.read(self._read, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self._rest += more
