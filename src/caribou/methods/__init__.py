"""Methods: complete recipes from a graph and a budget to predictions. They contain no formula and no mechanism."""

from caribou.methods.base import (
    METHODS,
    Fitted,
    Method,
    MethodInfo,
    Outputs,
    fit,
    load_own_methods,
    method_info,
    predict_graph,
    register,
)

__all__ = [
    "METHODS",
    "Fitted",
    "Method",
    "MethodInfo",
    "Outputs",
    "fit",
    "load_own_methods",
    "method_info",
    "predict_graph",
    "register",
]
