"""Hosts on this machine: each has a network, processes, shared memory and a folder for Ray of its own. One switch joins them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
PRIVATE = ("/tmp/ray", "/dev/shm")
"""Folders that hosts do not share; all others they do."""


def can_have_hosts() -> bool:
    """Whether this user may make hosts: root, with the tools of Linux for it."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        return False
    bridge = ("ip", "link", "add", "switch", "type", "bridge")
    return subprocess.run(["unshare", *NAMESPACES, *bridge], capture_output=True).returncode == 0


class Hosts:
    """So many hosts with the addresses 10.77.0.1, 10.77.0.2, ..., until the context ends. Nothing reaches them from outside."""

    def __init__(self, count: int) -> None:
        self._opened = ExitStack()
        self._errors = self._opened.enter_context(tempfile.TemporaryFile("a+"))  # noqa: SIM115 - closed with the context
        for folder in PRIVATE:
            Path(folder).mkdir(exist_ok=True)
        self._switch = self._process("ip link add switch type bridge && ip link set switch up")
        mounts = " && ".join(f"mount -t tmpfs none {folder}" for folder in PRIVATE)
        self._hosts = [self._process(f"ip link set lo up && {mounts}") for _ in range(count)]
        for number, host in enumerate(self._hosts):
            port = f"port{number}"
            self._inside(self._switch, f"ip link add {port} type veth peer name eth0 netns /proc/{host}/ns/net")
            self._inside(self._switch, f"ip link set {port} master switch up")
            self._inside(host, f"ip address add {self.address(number)}/24 dev eth0 && ip link set eth0 up")

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @staticmethod
    def address(number: int) -> str:
        return f"10.77.0.{number + 1}"

    def run(self, number: int, *command: str, env: Mapping[str, str]) -> Any:
        """Start a command on a host, with pipes to its input and from its output."""
        entered = ("nsenter", "--target", str(self._hosts[number]), "--net", "--mount", "--pid", *command)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        return self._opened.enter_context(subprocess.Popen(entered, text=True, env=env, **pipes))

    def errors(self) -> str:
        """The last of what commands have said on standard error."""
        self._errors.seek(0)
        return self._errors.read()[-4000:]

    def kill(self, number: int) -> None:
        """Take a host's power away: all its processes end at once, and nothing it had open is closed."""
        os.kill(self._hosts[number], signal.SIGKILL)

    def _process(self, setup: str) -> int:
        """The first process of a new host, which ends with this one."""
        waiting = ["unshare", *NAMESPACES, "sh", "-c", f"{setup} && echo up && exec sleep infinity"]
        process = self._opened.enter_context(
            subprocess.Popen(waiting, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        )
        self._opened.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())

    def _inside(self, host: int, command: str) -> None:
        subprocess.run(["nsenter", "--target", str(host), "--net", "sh", "-c", command], check=True)
