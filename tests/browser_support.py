"""A real browser for tests of pages: Chromium, driven through a pipe. It needs no package; without Chromium tests are skipped.

The DevTools protocol is JSON, one message after the other, each ended by a zero byte, on two pipes that Chromium finds as its
file descriptors 3 and 4 (``--remote-debugging-pipe``). axe-core, the accessibility check, comes from npm (`make browser-tools`).
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
AXE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"
WIDTHS = (390, 768, 1400)
"""A phone, a tablet, a desk. [px]"""
PATIENCE = 60.0
"""How long an answer may take on a busy machine. [s]"""

MOVE_PIPES = """
import fcntl, os, sys
theirs = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(theirs[0], 3)
os.dup2(theirs[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""

needs_browser = pytest.mark.skipif(
    CHROMIUM is None or os.name != "posix", reason="no Chromium is installed to look with"
)
needs_axe = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (make browser-tools)")


class Browser:
    """One Chromium without a window. Close it, or use `open_browser`."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="caribou-browser-", ignore_cleanup_errors=True)
        self._read, theirs_out = os.pipe()
        theirs_in, self._write = os.pipe()
        arguments = [
            str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe",
            f"--user-data-dir={self._folder.name}",
        ]  # fmt: skip
        # a process of its own moves the pipes: code between fork and exec would be unsafe in one with threads
        moved = [sys.executable, "-S", "-c", MOVE_PIPES, str(theirs_in), str(theirs_out), *arguments]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        self._process = subprocess.Popen(moved, pass_fds=(theirs_in, theirs_out), **quiet)  # type: ignore[call-overload]
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._number = b"", 0
        self._events: list[dict[str, Any]] = []

    def close(self) -> None:
        self.send("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._folder.cleanup()

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Ask, and wait for the answer; what happens meanwhile is kept for `events`."""
        self._number += 1
        message = {
            "id": self._number,
            "method": method,
            "params": params,
            **({"sessionId": session} if session else {}),
        }
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while True:
            answer = self._next(end)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._events.append(answer)

    def events(self, session: str) -> Iterator[dict[str, Any]]:
        """What has happened in a page since the last call."""
        mine = [event for event in self._events if event.get("sessionId") == session]
        self._events = [event for event in self._events if event.get("sessionId") != session]
        yield from mine

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self._read, 1 << 20) if ready else b""
            assert chunk, f"the browser did not answer within {PATIENCE:g} s"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


@dataclass
class Tab:
    """One page in the browser."""

    browser: Browser
    session: str
    problems: list[str] = field(default_factory=list)

    def run(self, code: str) -> Any:
        """The value of a JavaScript expression, awaited."""
        asked = {"expression": code, "awaitPromise": True, "returnByValue": True, "userGesture": True}
        answer = self.browser.send("Runtime.evaluate", self.session, **asked)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, code: str) -> None:
        """Until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(code):
            assert time.monotonic() < end, f"never true: {code}"
            time.sleep(0.02)

    def enter(self, field: str, value: object) -> None:
        """Put a value into a control, by its id, as a user does; a box is ticked. Returns when the page has followed."""
        self.run(
            f"""(() => {{
                const control = document.getElementById({json.dumps(field)});
                if (control.type === "radio") control.checked = true; else control.value = {json.dumps(str(value))};
                control.dispatchEvent(new Event("input", {{ bubbles: true }}));
                return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
            }})()"""
        )

    def press(self, key: str, code: int) -> None:
        """One key on whatever has the focus."""
        for kind in ("keyDown", "keyUp"):
            asked = {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
            self.browser.send("Input.dispatchKeyEvent", self.session, **asked)
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def resize(self, width: int, height: int = 900) -> None:
        # not as a mobile device: that would widen its viewport to whatever sticks out, and find nothing
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.send("Emulation.setDeviceMetricsOverride", self.session, **metrics)
        self.settle()

    def settle(self) -> None:
        """Until fonts are loaded, nothing is animated and the layout stayed the same over a few frames: observers redraw late."""
        self.run(
            """(async () => {
                await document.fonts.ready;
                const frame = () => new Promise((done) => requestAnimationFrame(done));
                const look = () => JSON.stringify([...document.querySelectorAll("body, body *")].map((e) => {
                    const box = e.getBoundingClientRect();
                    return [box.x, box.y, box.width, box.height];
                }));
                let before = "", calm = 0;
                for (let k = 0; calm < 3 && k < 600; k++) {
                    await frame();
                    const running = document.getAnimations().some((one) => one.playState === "running");
                    const now = look();
                    calm = !running && now === before ? calm + 1 : 0;
                    before = now;
                }
            })()"""
        )

    def scheme(self, name: str) -> None:
        """light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.browser.send("Emulation.setEmulatedMedia", self.session, features=features)

    def overflowing(self) -> list[str]:
        """Elements that stick out of the screen without a frame that scrolls; none on a good page."""
        return self.run(
            """[...document.querySelectorAll("body *")].filter((e) => {
                const box = e.getBoundingClientRect();
                if (box.width === 0 || (box.right <= innerWidth + 1 && box.left >= -1)) return false;
                return !e.closest(".scroll, .figure, .skip");
            }).map((e) => `${e.tagName} ${e.className.baseVal ?? e.className} ${e.textContent.slice(0, 40)}`)
            .concat(document.documentElement.scrollWidth > innerWidth ? ["the page scrolls sideways"] : [])"""
        )

    def cut_text(self) -> list[str]:
        """Texts inside pictures that lie outside of them, and are cut off."""
        return self.run(
            """[...document.querySelectorAll("[role=img] text")].filter((text) => {
                const inner = text.getBoundingClientRect(), outer = text.ownerSVGElement.getBoundingClientRect();
                const outside = inner.right > outer.right + 1 || inner.left < outer.left - 1 || inner.bottom > outer.bottom + 1;
                return inner.width > 0 && outside;
            }).map((text) => text.textContent)"""
        )

    def complaints(self) -> list[str]:
        """Errors and warnings on the console, exceptions, and requests that left the file."""
        self.run("0")
        for event in self.browser.events(self.session):
            kind, params = event["method"], event["params"]
            if kind == "Runtime.exceptionThrown":
                self.problems.append(json.dumps(params["exceptionDetails"])[:500])
            elif kind == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                self.problems.append(json.dumps(params["args"])[:500])
            elif kind == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                self.problems.append(params["entry"]["text"])
            elif kind == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
                self.problems.append(f"requested {params['request']['url']}")
        return self.problems

    def violations(self) -> list[str]:
        """What axe-core finds by WCAG 2.2 A and AA, with the element."""
        self.run(AXE.read_text(encoding="utf-8") + "; 0")
        found = self.run("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice']})")
        return [
            f"{rule['id']}: {node['target']} {node['failureSummary']}"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]


@contextmanager
def open_browser() -> Iterator[Callable[[Path], Tab]]:
    """A function that opens a file in a new tab and returns when it is loaded."""
    browser = Browser()

    def look(path: Path) -> Tab:
        assert path.exists(), path  # the browser would show a page of its own
        target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        tab = Tab(browser, browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            browser.send(f"{domain}.enable", tab.session)
        browser.send("Page.navigate", tab.session, url=path.resolve().as_uri())
        tab.wait("document.readyState === 'complete' && location.href !== 'about:blank'")
        return tab

    try:
        yield look
    finally:
        browser.close()
