"""A real Chromium without a window, spoken to over a pipe in its DevTools protocol."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 120
KEYS = {
    "ArrowDown": 40,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowLeft": 37,
    "Enter": 13,
    "End": 35,
    "Tab": 9,
}


def found_browser() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


class LeftError(Exception):
    """The page that was asked is not there any more: another one comes."""


@contextlib.contextmanager
def browser_of_tests() -> Iterator[Browser]:
    """A headless Chromium; without one, tests fail in CI and skip elsewhere."""
    program = found_browser()
    if program is None:
        assert not os.environ.get("CI"), "CI needs chromium: apt-get install chromium"
        pytest.skip("no chromium here")
    started = Browser(program)
    try:
        yield started
    finally:
        started.close()


class Page:
    """One tab. ``asked`` are the addresses it wanted from anywhere but its own file, ``said``
    what its scripts complained of."""

    def __init__(self, browser: Browser, width: int, height: int, *, dark: bool, script: bool):
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        self._opened, self._script = False, script
        self._target, self._session = target, attached["sessionId"]
        self.asked: list[str] = []
        self.said: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, still])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        if not script:
            self.call("Emulation.setScriptExecutionDisabled", value=True)

    def call(self, method: str, **parameters: Any) -> Any:
        return self._browser.call(method, self, **parameters)

    @property
    def session(self) -> str:
        return self._session

    def open(self, path: Path, view: str = "") -> None:
        self.visit(path.as_uri() + (f"#{view}" if view else ""))

    def visit(self, url: str) -> None:
        # Another place in the page that is open would not load it anew.
        for address in ["about:blank", url] if self._opened else [url]:
            self._browser.forget()
            self.call("Page.navigate", url=address)
            self._browser.wait(self, "Page.loadEventFired")
        self._opened = True

    def run(self, script: str) -> Any:
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def frame(self) -> None:
        """Wait until what is to be drawn is drawn, or another page comes."""
        if not self._script:  # then nothing says when
            return
        script = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        with contextlib.suppress(LeftError):
            self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=False)

    def texts(self, selector: str) -> list[str]:
        script = f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)"
        return self.run(script)

    def press(self, key: str) -> None:
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        printed = {"text": text} if text else {}
        code = KEYS.get(key, ord(key[0].upper()))
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                **(printed if kind == "keyDown" else {}),
            )
        self.frame()

    def write(self, text: str) -> None:
        """Type *text* into the field that has the focus."""
        self.call("Input.insertText", text=text)

    def until(self, script: str) -> None:
        """Wait until *script* is true in the page, or in the one that follows it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(AssertionError, LeftError):  # between two pages
                if self.run(f"Boolean({script})"):
                    return
            time.sleep(0.05)
        raise TimeoutError(f"it does not happen: {script}")

    def mouse(self, x: float, y: float, *kinds: str) -> None:
        for kind in kinds or ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)
        self.frame()

    def click(self, selector: str) -> None:
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.mouse(*box)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def heard(self, method: str, given: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            url = given["request"]["url"]
            if not url.startswith(("file:", "data:", "about:", "blob:")):
                self.asked.append(url)
        elif method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(given["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.said.append(given["entry"]["text"])

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)


class Browser:
    """The browser itself; answers come in order, events are given to their pages."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="browser")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # It speaks on file descriptors 3 and 4; the shell puts ours there.
        command = (
            f'exec "$0" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage '
            f"--remote-debugging-pipe --no-first-run --disable-background-networking "
            f'--hide-scrollbars --user-data-dir="{self._folder}" 3<&{to_read} 4>&{to_write}'
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command, program],
            pass_fds=(to_read, to_write),
            env={**os.environ, "HOME": self._folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._number = 0
        self._buffer = b""
        self._pages: dict[str, Page] = {}
        self._events: list[tuple[str | None, str]] = []

    @contextlib.contextmanager
    def page(
        self, width: int = 1280, height: int = 800, *, dark: bool = False, script: bool = True
    ) -> Iterator[Page]:
        page = Page(self, width, height, dark=dark, script=script)
        try:
            yield page
        finally:
            page.close()

    def call(self, method: str, page: Page | None = None, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if page is not None:
            message["sessionId"] = page.session
            self._pages[page.session] = page
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._event(answer)
        if "navigated or closed" in answer.get("error", {}).get("message", ""):
            raise LeftError(method)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def wait(self, page: Page, method: str) -> None:
        while (page.session, method) not in self._events:
            self._event(self._next())
        self._events.remove((page.session, method))

    def forget(self) -> None:
        """Nothing that happened so far is waited for."""
        self._events.clear()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._write, b'{"id": 0, "method": "Browser.close"}\0')
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
        for _ in range(20):  # its helpers may still be writing there
            shutil.rmtree(self._folder, ignore_errors=True)
            if not Path(self._folder).exists():
                break
            time.sleep(0.1)

    def _event(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            return
        session, method = message.get("sessionId"), message["method"]
        self._events.append((session, method))
        if session in self._pages:
            self._pages[session].heard(method, message["params"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], PATIENCE)
            if not ready:
                raise TimeoutError(f"the browser said nothing for {PATIENCE} seconds")
            read = os.read(self._read, 1 << 20)
            if not read:
                raise RuntimeError("the browser ended")
            self._buffer += read
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found
