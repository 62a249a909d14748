"""``caribou doctor``: what this installation is made of."""

from __future__ import annotations

import os
import platform
import sqlite3
from typing import Any

from caribou.cli.command import as_json, command, record
from caribou.cli.output import print_facts, print_json
from caribou.errors import MissingExtra, needs_training

PACKAGES = (
    *(
        "caribou-gnn",
        "torch",
        "torch_geometric",
        "numpy",
        "scipy",
        "dp-accounting",
        "cryptography",
        "pandas",
        "pyarrow",
    ),
    "matplotlib",
)


@record
class DoctorOptions:
    """What caribou doctor takes."""

    as_json: bool = as_json()


@command
def doctor(given: DoctorOptions) -> None:
    """Show versions, cores, available kernels, the data folder and runs that wait for their place, and test the noise source.

    Example: caribou doctor --json
    """
    report = diagnose()
    if given.as_json:
        print_json(report)
        return
    sections = {name: values if isinstance(values, dict) else {"": values} for name, values in report.items()}
    print_facts((name, key, str(value)) for name, values in sections.items() for key, value in values.items())


def diagnose() -> dict[str, Any]:
    """Everything worth knowing when something does not work."""
    from caribou.cli.spool import spooled_runs
    from caribou.datasets import available
    from caribou.engines import kernels
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.privacy.certificate import package_version

    draw = NoiseSource.secure().gaussian((100_000,), std=1.0)
    folder = os.environ.get("CARIBOU_DATA")
    found = [info.name for info in available() if info.kind == "public" and not info.where.startswith("needs")]
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {name: package_version(name) for name in PACKAGES} | {"sqlite": sqlite3.sqlite_version},
        "cores": {"usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()},
        "kernels": {
            "fused round": kernels.name(),
            "registers": f"{kernels.register_bits()} bits" if kernels.register_bits() else "not asked for",
            **_torch(),
        },
        "noise": {
            "source": "AES-256-CTR, key from the operating system",
            "self-test": "ok" if abs(float(draw.std()) - 1) < 0.02 and abs(float(draw.mean())) < 0.02 else "FAILED",
        },
        "data": {
            "CARIBOU_DATA": folder or "not set",
            "found": ", ".join(found) or "none",
        },
        "runs": {"waiting in the spool folder": ", ".join(map(str, spooled_runs())) or "none"},
    }


def _torch() -> dict[str, Any]:
    """What torch can do here; without it, how to install it."""
    try:
        with needs_training("training"):
            import torch
    except MissingExtra as error:
        return {"torch": str(error)}
    return {"torch threads": torch.get_num_threads()}
