"""Imports that wait until a name is used, so that settings and plans of a method load no numerical library.

Python 3.15 has a statement for it (PEP 810, ``lazy import``); this is the same for the versions before.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import threading
from collections.abc import Mapping
from typing import Any

_LOCK = threading.RLock()
_WAITING: list[dict[str, Any]] = []
"""The namespaces of modules that hold a name whose import waits."""


class Deferred:
    """A name that is imported when it is first called or asked for an attribute. Its whole module is then as if it never waited.

    Operators are not among that: a constant is used beside a function of its module, or imported at once.
    """

    def __init__(self, module: str, name: str | None, namespace: dict[str, Any]) -> None:
        self.__dict__.update(_module=module, _name=name, _namespace=namespace)

    def _loaded(self) -> Any:
        module = importlib.import_module(self._module)
        if self._name is None:
            return module
        if not hasattr(module, self._name):
            return importlib.import_module(f"{self._module}.{self._name}")
        return getattr(module, self._name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # whoever looks at a module must not load what it defers
        _load(self._namespace)
        return getattr(self._loaded(), name)

    def __call__(self, *values: Any, **named: Any) -> Any:
        _load(self._namespace)
        return self._loaded()(*values, **named)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._loaded())


class _Parts:
    """What ``from module import name`` takes its names from."""

    def __init__(self, module: str, namespace: dict[str, Any]) -> None:
        self.__dict__.update(_module=module, _namespace=namespace)

    def __getattr__(self, name: str) -> Any:
        return Deferred(self._module, name, self._namespace)


class deferred_imports:  # noqa: N801, it is read as a statement
    """Import statements inside, in the body of a module, wait until one of their names is used.

    >>> with deferred_imports():
    ...     import fractions
    ...     from decimal import Decimal
    >>> type(Decimal).__name__, Decimal("1.50") + 1, type(Decimal).__name__
    ('Deferred', Decimal('2.50'), 'type')
    """

    def __enter__(self) -> None:
        _LOCK.acquire()
        self._before = builtins.__import__
        namespace = sys._getframe(1).f_globals
        _WAITING.append(namespace)

        def deferring(
            name: str,
            globals: Mapping[str, Any] | None = None,
            locals: Mapping[str, Any] | None = None,
            fromlist: Any = (),
            level: int = 0,
        ) -> Any:
            if globals is not namespace:
                return self._before(name, globals, locals, fromlist, level)
            if fromlist:
                return _Parts(name, namespace)
            package, _, inner = name.partition(".")
            return _Parts(package, namespace) if inner else Deferred(name, None, namespace)

        builtins.__import__ = deferring

    def __exit__(self, *error: object) -> None:
        builtins.__import__ = self._before
        _LOCK.release()


def _load(namespace: dict[str, Any]) -> None:
    """Put what was imported in the place of every name that waits."""
    for key, value in list(namespace.items()):
        if type(value) is Deferred:
            namespace[key] = value._loaded()


def load_deferred() -> None:
    """Import all that waits: before anything is charged, so that a library that cannot be loaded costs nothing."""
    while _WAITING:
        namespace = _WAITING.pop()
        try:
            _load(namespace)
        except BaseException:
            _WAITING.append(namespace)  # a second try must not pass for one that has loaded everything
            raise
