"""Declared classes, and the labels found among them.

At node level a label is private. If classes were read from labels, one person's label could add a class: a column of every
prediction, a name in every file. So classes are declared, and every label is looked up on its own: one that is none of them is
unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from caribou._validate import integer
from caribou.errors import InputError

Classes = int | Sequence[str | int]
"""The number C of classes 0 .. C - 1, or the classes themselves in their order: names, or whole numbers."""

_MAX_CLASSES = 1_000_000


def is_count(classes: Any) -> bool:
    """Whether classes are declared by their number."""
    return isinstance(classes, int | np.integer) and not isinstance(classes, bool)


def declared_names(classes: Classes) -> tuple[str, ...]:
    """The names of the declared classes; those of a number of classes are 0, 1, 2, ...

    >>> declared_names(3), declared_names(["red", "blue"]), declared_names([1, 2, 5])
    (('0', '1', '2'), ('red', 'blue'), ('1', '2', '5'))
    """
    if is_count(classes):
        count = integer(at_least=2, classes=classes)
        if count > _MAX_CLASSES:
            raise InputError(f"classes must be at most {_MAX_CLASSES}, got {count}")
        return tuple(map(str, range(count)))
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise InputError(f"classes must be a list of classes, or their number, got {classes!r}")
    names = tuple(_name(word) for word in classes)
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise InputError(f"classes must differ, got {repeated[0]!r} more than once")
    if len(names) < 2:
        raise InputError(f"classes must be at least 2, got {len(names)}")
    return names


def _name(word: Any) -> str:
    if not is_count(word) and not isinstance(word, str):
        raise InputError(f"classes must be text or whole numbers, got {word!r}")
    name = str(word).strip()
    if not name:
        raise InputError(f"classes must have a name each, got {word!r}")
    return name


def places_of_names(cells: Sequence[str | None], names: Sequence[str]) -> np.ndarray:
    """Labels in words as places among the names; -1 for an empty one, and for one that is none of them. [n], int64

    >>> places_of_names(["b", None, "c", "a"], ["a", "b"]).tolist()
    [1, -1, -1, 0]
    """
    place = {name: k for k, name in enumerate(names)}
    return np.array([-1 if cell is None else place.get(cell, -1) for cell in cells], dtype=np.int64)


def places_of_numbers(labels: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Labels in numbers as places among the names; -1 for one that is none of them. [n] -> [n], int64

    If one of the names is a whole number, the names are values: label 5 is the class "5". Otherwise label k is the k-th name.
    Which of the two holds follows from the declaration alone.

    >>> places_of_numbers(np.array([5, 1, 0, -1]), ["1", "5"]).tolist()
    [1, 0, -1, -1]
    >>> places_of_numbers(np.array([0, 1, 2, -1]), ["red", "blue"]).tolist()
    [0, 1, -1, -1]
    """
    values = [_whole(name) for name in names]
    if all(value is None for value in values):
        values = list(range(len(names)))
    found = np.full(labels.shape, -1, dtype=np.int64)
    for place, value in enumerate(values):
        if value is not None:
            found[labels == value] = place
    return found


def _whole(name: str) -> int | None:
    digits = name.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and len(digits) <= 18 and str(int(name)) == name
    return int(name) if plain and int(name) >= 0 else None
