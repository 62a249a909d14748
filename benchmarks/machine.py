"""What a table of measurements was measured on: processor, caches, instruction set, bandwidth."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from caribou.engines import kernels

INSTRUCTIONS = ("avx512f", "avx2", "sse2", "sve", "asimd", "aes", "vaes")
"""Those that decide about the speed of the loops and of the cipher, as Linux names them."""


def cpu_seconds(work: Callable[[], object], repeats: int = 3, clock: Callable[[], float] = time.process_time) -> float:
    """The smallest CPU time of a few runs: the least disturbed one."""
    best = float("inf")
    for _ in range(repeats):
        start = clock()
        work()
        best = min(best, clock() - start)
    return best


def bandwidth() -> float:
    """Bytes per CPU second that one thread reads in order."""
    array = np.ones(32_000_000)
    return array.nbytes / cpu_seconds(array.sum, 5)


def caches(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, str]:
    """Level to size, instruction caches left out; empty where the system does not tell."""
    found = {}
    for cache in sorted(folder.glob("index*")):
        level, kind, size = ((cache / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            found[f"L{level}"] = size
    return found


def machine() -> dict[str, Any]:
    """Processor, cores, caches, instruction set, what the loops and torch take of it, and the bandwidth of one thread in GB/s."""
    info = Path("/proc/cpuinfo")
    lines = [line.partition(":") for line in info.read_text().splitlines()] if info.exists() else []
    said = {key.strip(): value.strip() for key, _, value in reversed(lines)}  # the first processor is the last to say
    flags = (said.get("flags") or said.get("Features") or "").split()
    family = " ".join(
        f"{name} {said[key]}" for name, key in (("family", "cpu family"), ("model", "model")) if key in said
    )
    return {
        "processor": ", ".join(
            filter(None, (said.get("model name") or platform.processor() or platform.machine(), family))
        ),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "caches": caches(),
        "instructions": [name for name in INSTRUCTIONS if name in flags],
        "loops": kernels.name(),
        "register_bits": kernels.register_bits(),
        "torch": torch.backends.cpu.get_cpu_capability(),
        "bandwidth_gb_per_s": bandwidth() / 1e9,
    }


def described(found: dict[str, Any]) -> str:
    """The same in one line, to stand above a table."""
    sizes, names = found["caches"], found["instructions"]
    return (
        f"{found['processor']}; {found['cores']} cores; {', '.join(f'{k} {v}' for k, v in sizes.items()) or 'caches unknown'}; "
        f"{' '.join(names) or 'instruction set unknown'}; loops: {found['loops']}, {found['register_bits']} bits; "
        f"torch: {found['torch']}; one thread reads {found['bandwidth_gb_per_s']:.1f} GB/s"
    )
