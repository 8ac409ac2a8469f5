from itertools import combinations

import numpy as np
import pytest
from eigentime_report.charts.theme import (
    DARK,
    LEVEL_COLOURS,
    LIGHT,
    OPACITY,
    Paint,
    recolouring,
    rgb,
)

THEMES = [LIGHT, DARK]
LEVELS = [f"level-{place}" for place in range(LEVEL_COLOURS)]
VERDICTS = ["differs", "same", "undecided"]

# Machado, Oliveira and Fernandes 2009, at full severity, for linear RGB.
BLINDNESS = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def linear(colour):
    part = np.array(rgb(colour)) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """The contrast ratio of WCAG 2."""
    luminance = [linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other)]
    return (max(luminance) + 0.05) / (min(luminance) + 0.05)


def lab(light):
    """CIE L*a*b* of linear sRGB, D65."""
    to_xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    x, y, z = to_xyz @ np.clip(light, 0, 1) / [0.95047, 1.0, 1.08883]
    f = [
        value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116
        for value in (x, y, z)
    ]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one, other, matrix):
    """How different two colours look to somebody, as the distance in L*a*b*."""
    seen = [lab(np.array(matrix) @ linear(colour)) for colour in (one, other)]
    return np.linalg.norm(seen[0] - seen[1])


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("role", [*LEVELS, *VERDICTS])
def test_marks_stand_out_from_every_background(theme, role):
    for background in "surface", "page":
        assert contrast(theme.roles[role], theme.roles[background]) >= 3


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("role", ["ink", "muted", "accent"])
def test_text_can_be_read_on_every_background(theme, role):
    for background in "surface", "page", "raised":
        assert contrast(theme.roles[role], theme.roles[background]) >= 4.5


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("eyes", [*BLINDNESS, "all colours"])
def test_levels_are_told_apart_by_everybody(theme, eyes):
    matrix = BLINDNESS.get(eyes, np.eye(3))
    # Most reports have up to four levels; with more, colours are nearer to each other.
    for count, least in (4, 20), (LEVEL_COLOURS, 9):
        for one, other in combinations(LEVELS[:count], 2):
            found = distance(theme.roles[one], theme.roles[other], matrix)
            assert found >= least, f"{one} and {other}: {found:.1f}"


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("eyes", [*BLINDNESS, "all colours"])
def test_verdicts_are_told_apart_by_everybody(theme, eyes):
    matrix = BLINDNESS.get(eyes, np.eye(3))
    for one, other in combinations(VERDICTS, 2):
        assert distance(theme.roles[one], theme.roles[other], matrix) >= 9


def test_recolouring_is_one_to_one_and_complete():
    to_dark, to_light = recolouring(LIGHT, DARK), recolouring(DARK, LIGHT)
    assert len(to_dark) == len(LIGHT.roles) * len(OPACITY)
    assert {to_light[dark]: dark for dark in to_dark.values()} == to_dark


def test_a_paint_is_written_as_css_has_it():
    assert LIGHT.colour(Paint("level-0", "soft")) == "rgba(23, 92, 171, 0.45)"
    assert LIGHT.colour(Paint("surface")) == "rgba(255, 255, 255, 1)"
