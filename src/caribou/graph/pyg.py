"""PyTorch Geometric: a graph from a ``torch_geometric.data.Data``, and back.

What a ``Data`` may hold is checked here, before it becomes a graph: errors name the attribute of the ``Data``, not the
argument that it would have become. The rules are in `Graph.from_pyg` and `Graph.to_pyg`, which are the way in.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou._validate import integer
from caribou.errors import InputError, needs_training
from caribou.graph import MAX_NODES, Graph, Split
from caribou.graph.checks import reading_call
from caribou.graph.classes import Classes


def graph_from_pyg(data: Any, name: str, classes: Classes | None = None) -> Graph:
    """The graph in a ``Data``; see `Graph.from_pyg`."""
    if getattr(data, "edge_index", None) is None:
        raise InputError(f"data.edge_index must be a 2 x E integer tensor, got none{reading_call(data)}")
    edges = _tensor_array("data.edge_index", data.edge_index)
    features = _pyg_features(data)
    n = features.shape[0]
    for key in ("edge_weight", "edge_attr"):
        if getattr(data, key, None) is not None:
            # Level 3: the line that called Graph.from_pyg.
            warnings.warn(f"data.{key} is ignored: edges are unweighted here", UserWarning, stacklevel=3)
    y = getattr(data, "y", None)
    return Graph.from_edges(
        features=features,
        edges=edges,
        labels=None if y is None else _pyg_labels(_tensor_array("data.y", y), n, declared=classes is not None),
        split=_pyg_split(data, n),
        name=name,
        classes=classes,
    )


@needs_training("Graph.to_pyg")
def graph_to_pyg(graph: Graph) -> Any:
    """The graph as a new ``Data``; see `Graph.to_pyg`."""
    import torch
    from torch_geometric.data import Data

    if sp.issparse(graph.features):
        coo = graph.features.tocoo()
        place = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
        x = torch.sparse_coo_tensor(
            place, torch.from_numpy(coo.data.copy()), coo.shape, check_invariants=True, is_coalesced=True
        )
    else:
        x = torch.from_numpy(graph.features.copy())
    data = Data(x=x, edge_index=torch.from_numpy(graph.edge_index), num_nodes=graph.num_nodes)
    if graph.labels is not None:
        data.y = torch.from_numpy(graph.labels.copy())
    if graph.split is not None:
        for part in ("train", "val", "test"):
            mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
            mask[torch.from_numpy(getattr(graph.split, part).copy())] = True
            data[f"{part}_mask"] = mask
    return data


def _tensor_array(name: str, value: Any) -> np.ndarray:
    import torch

    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.is_quantized:
        raise InputError(f"{name} must be a dense tensor, got {type(value).__name__}")
    return _widened(value).numpy()


def _widened(tensor: Any) -> Any:
    """The tensor on the CPU; half precision, which NumPy and SciPy know in part only, becomes float32."""
    import torch

    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    wide = not tensor.is_floating_point() or tensor.dtype in (torch.float32, torch.float64)
    return tensor if wide else tensor.float()


def _pyg_features(data: Any) -> Any:
    import torch

    x, y = getattr(data, "x", None), getattr(data, "y", None)
    if x is None:
        return np.zeros((_stated_nodes(data), 0), np.float32)
    if not isinstance(x, torch.Tensor) or x.layout == torch.strided:
        dense = _tensor_array("data.x", x)
        if dense.ndim != 2:
            raise InputError(f"data.x must be 2-D, got shape {dense.shape}")
        return dense
    if x.dim() != 2 or (x.layout == torch.sparse_coo and x.sparse_dim() != 2):
        raise InputError(f"data.x must be 2-D and sparse in both dimensions, got shape {tuple(x.shape)}")
    if isinstance(y, torch.Tensor) and y.dim() and y.shape[0] != x.shape[0]:
        # Before the rows are laid out: the shape of a sparse tensor is only a claim.
        raise InputError(f"data.y must have one entry per row of x ({x.shape[0]}), got {y.shape[0]}")
    coo = x.detach().cpu().to_sparse_coo().coalesce()
    return sp.coo_array((_widened(coo.values()).numpy(), tuple(coo.indices().numpy())), shape=tuple(x.shape))


def _stated_nodes(data: Any) -> int:
    """The number of nodes as the Data states it. Never what PyG guesses from the edges: an edge would then change all shapes."""
    if "num_nodes" in data:
        nodes = data.num_nodes
        if hasattr(nodes, "shape"):
            raise InputError(f"data.num_nodes must be a whole number >= 1, got a tensor of shape {tuple(nodes.shape)}")
        return integer(at_least=1, num_nodes=nodes)
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        value = getattr(data, name, None)
        if value is not None and getattr(value, "ndim", 0) > 0:
            return integer(at_least=1, num_nodes=len(value))
    raise InputError("data must state its number of nodes by x, y, a mask or num_nodes, got edges only")


def _pyg_labels(y: np.ndarray, n: int, *, declared: bool) -> np.ndarray:
    """One label per node. With ``declared`` classes a value that is no whole number is unknown, and no error."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InputError(f"data.y must hold one class per node (multi-label is not supported), got shape {y.shape}")
    if len(y) != n:
        raise InputError(f"data.y must have one entry per node ({n}), got {len(y)}")
    if y.dtype.kind == "f":
        bad = ~np.isfinite(y) | (y != np.round(y)) | (np.abs(y) > MAX_NODES)
        if declared:
            y = np.where(bad, -1, y)
        elif bad.any():
            raise InputError(f"data.y must hold whole numbers, got {y[bad][0]} at node {int(np.flatnonzero(bad)[0])}")
    elif y.dtype.kind not in "iub":
        raise InputError(f"data.y must hold whole numbers, got {y.dtype}")
    return y.astype(np.int64)


def _pyg_split(data: Any, n: int) -> Split | None:
    parts = []
    for part in ("train", "val", "test"):
        name = f"data.{part}_mask"
        mask = getattr(data, f"{part}_mask", None)
        if mask is None:
            parts.append(np.empty(0, np.int64))
            continue
        array = _tensor_array(name, mask)
        if array.ndim == 2 and array.shape[1] >= 1:
            array = array[:, 0]
        if array.shape != (n,):
            raise InputError(f"{name} must have one entry per node ({n}), got shape {array.shape}")
        if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
            raise InputError(f"{name} must hold true or false for each node, got {array.dtype} values")
        parts.append(np.flatnonzero(array))
    return Split(*parts) if any(len(part) for part in parts) else None
