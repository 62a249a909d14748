"""A PyG ``Data`` saved with ``torch.save``, loaded without running any code that the file names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from caribou.errors import CaribouError, DataError, needs_training
from caribou.graph import Graph
from caribou.graph.classes import Classes


@needs_training("a file of torch.save")
def read_saved(path: Path, name: str, classes: Classes | None = None) -> Graph:
    """Read one ``.pt`` file; whatever is wrong with it is a `DataError`. ``classes`` declares the classes, as in `read_graph`.

    Formal guarantees: the file is unpickled with ``weights_only=True``, which constructs tensors, plain containers and the
    few classes listed in `_allowed` and refuses everything else before it is imported.
    """
    import torch
    from torch_geometric.data import Data

    try:
        with _allowed():
            data = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises pickle, zip, runtime and type errors for damaged or unsafe files
        raise DataError(
            f"{path}: not a PyG Data that can be loaded safely (tensors and plain values only); {_found(error)}"
        ) from error
    if not isinstance(data, Data):
        raise DataError(f"{path}: must hold one torch_geometric.data.Data, got {type(data).__name__}")
    try:
        _check_claims(data, path)
        return Graph.from_pyg(data, name=name, classes=classes)
    except DataError:
        raise
    except CaribouError as error:
        raise DataError(f"{path}: {error}") from error
    except Exception as error:  # a Data restored from a damaged file may fail in any accessor
        raise DataError(f"{path}: the saved Data is damaged, an attribute cannot be read") from error


def _found(error: Exception) -> str:
    """What stood in the way. torch's own text advises to load the file without care, or is a bare key."""
    refused = re.search(r"GLOBAL ([\w.]+)", str(error))
    if refused:
        return f"got an object of {refused[1][:100]}"
    return "the file is damaged, or torch.save did not write it"


@contextmanager
def _allowed() -> Iterator[None]:
    """Allow exactly the classes of a plain ``Data``, also where an import has allowed more for the whole process."""
    import torch
    from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    before = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage])
    try:
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


def _check_claims(data: Any, path: Path) -> None:
    """Refuse tensors that claim more entries than the file holds: copying them could ask for any memory."""
    import torch

    tensors = {key: value for key, value in data.to_dict().items() if isinstance(value, torch.Tensor)}
    for key, value in tensors.items():
        if value.layout != torch.strided:
            continue
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise DataError(f"{path}: tensor {key} claims {value.numel()} entries, more than the file holds")
    x, y = tensors.get("x"), tensors.get("y")
    if y is None and (x is None or x.layout != torch.strided):
        raise DataError(f"{path}: needs a dense x or a y, which say the number of nodes, got neither")
