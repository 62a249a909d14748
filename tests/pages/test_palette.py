"""Colours of methods: told apart by everybody, on both grounds, and the same in Python and in the browser."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from caribou.pages.base import asset
from caribou.pages.palette import COLOURS, DARK_COLOURS, MARKERS, OTHER_COLOUR, OTHER_DARK_COLOUR, style_sheet

# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB
SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
# Ottosson 2020, "A perceptual color space for image processing"
TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear(colour: str) -> np.ndarray:
    c = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def distance(one: str, other: str, sight: str) -> float:
    seen = [TO_LAB @ np.cbrt(TO_LMS @ np.clip(SIGHT[sight] @ linear(c), 0, 1)) for c in (one, other)]
    return 100 * float(np.linalg.norm(seen[0] - seen[1]))


@pytest.mark.parametrize(("colours", "ground"), [(COLOURS, "#ffffff"), (DARK_COLOURS, "#292524")])
def test_colours_are_told_apart_by_everybody(colours: dict[str, str], ground: str) -> None:
    assert {name: contrast(c, ground) for name, c in colours.items() if contrast(c, ground) < 3} == {}
    pairs = [(a, b, s) for a, b in itertools.combinations(colours, 2) for s in SIGHT]
    assert [p for p in pairs if distance(colours[p[0]], colours[p[1]], p[2]) < 8] == []


def test_a_red_and_a_green_of_one_lightness_are_found_to_be_alike() -> None:
    assert distance("#c2410c", "#4d7c0f", "deuteranopia") < 8 < distance("#c2410c", "#4d7c0f", "normal")


def test_every_family_has_a_colour_on_both_grounds_and_a_marker_of_its_own() -> None:
    assert COLOURS.keys() == DARK_COLOURS.keys() == MARKERS.keys()
    assert len(set(MARKERS.values())) == len(MARKERS)
    sheet = style_sheet()
    for name, colour in (
        *COLOURS.items(),
        *DARK_COLOURS.items(),
        ("other", OTHER_COLOUR),
        ("other", OTHER_DARK_COLOUR),
    ):
        assert f"--{name}: {colour};" in sheet


def test_the_script_of_charts_draws_every_marker() -> None:
    shapes = asset("charts.js").split("const SHAPES = {")[1].split("};")[0]
    assert all(re.search(rf'(?<!\w)"?{re.escape(marker)}"?: "M', shapes) for marker in MARKERS.values())
