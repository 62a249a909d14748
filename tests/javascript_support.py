"""Run functions of a page's script outside of a page: in Node where it is installed, else in the browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from browser_support import CHROMIUM, open_browser
from caribou.pages.base import asset

NODE = shutil.which("node")
# JSON has no infinity
ANSWER = """((object, calls) => calls.map(([name, ...given]) => {
  try { return { value: object[name](...given) }; } catch (error) { return { error: error.message }; }
}))"""
WRITE = '(key, value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value)'


def call(calls: list[list[Any]], folder: Path) -> list[Any]:
    """The value of each ``[name, *arguments]`` of the calculus; ``{"error": words}`` where it was refused."""
    answers = run(asset("calculus.js"), f"{ANSWER}(Calculus, {json.dumps(calls)})", folder)
    return [answer.get("value", answer) for answer in answers]


def run(script: str, expression: str, folder: Path) -> Any:
    """The value of an expression after a script, as JSON."""
    code = f"JSON.stringify({expression}, {WRITE})"
    if NODE is not None:
        whole = f"{script}\nprocess.stdout.write({code});"
        done = subprocess.run([NODE, "-"], input=whole, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        text = done.stdout
    elif CHROMIUM is not None:
        page = folder / "calculus.html"
        page.write_text(f"<!doctype html><title>x</title><script>{script}</script>", encoding="utf-8")
        with open_browser() as look:
            text = look(page).run(code)
    else:
        pytest.skip("neither Node nor Chromium is installed to run JavaScript with")
    return json.loads(text)
