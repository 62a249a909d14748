"""Methods: complete recipes from a graph and a budget to predictions. They contain no formula and no mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from caribou.methods.catalogue import (
    FAMILIES,
    METHODS,
    MethodInfo,
    load_own_methods,
    method_info,
    names_of,
    register,
    resolve,
)

if TYPE_CHECKING:
    from caribou.methods.base import Fitted, Method, Outputs, fit, predict_graph

__all__ = [
    "FAMILIES",
    "METHODS",
    "Fitted",
    "Method",
    "MethodInfo",
    "Outputs",
    "fit",
    "load_own_methods",
    "method_info",
    "names_of",
    "predict_graph",
    "register",
    "resolve",
]


def __getattr__(name: str) -> Any:
    """What fits is imported when it is first used: the table of methods alone needs no numerical library."""
    if name not in ("Fitted", "Method", "Outputs", "fit", "predict_graph"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from caribou.methods import base

    return getattr(base, name)
