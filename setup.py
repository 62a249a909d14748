"""The compiled loops are optional: without a C compiler the package installs all the same and uses NumPy instead.

They are loaded by ctypes and know nothing of Python, so one wheel per system (abi3) serves every Python from 3.11 on.
"""

from __future__ import annotations

import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# No contraction and no reordering: the bits of a round must not depend on the compiler. The last two only forget errno and traps.
FLAGS = (
    ["/O2", "/std:c11"]
    if sys.platform == "win32"
    else ["-O3", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
)


class OptionalBuild(build_ext):
    """Whatever goes wrong with the compiler is a warning."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as problem:  # noqa: BLE001 - any failure of any compiler means: go on without
            self.warn(f"caribou: the compiled loops were not built ({problem}); the package works without, slower")

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []  # it is loaded by ctypes and has no Python entry point


setup(
    cmdclass={"build_ext": OptionalBuild},
    ext_modules=[
        Extension(
            "caribou.engines.kernels._fused",
            ["src/caribou/engines/kernels/_fused.c"],
            extra_compile_args=FLAGS,
            libraries=[] if sys.platform == "win32" else ["m"],
            optional=True,
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
