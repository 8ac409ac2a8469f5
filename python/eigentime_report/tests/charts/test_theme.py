from itertools import combinations

import numpy as np
import pytest

from eigentime_report.charts import DARK, LIGHT

THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)

# Machado, Oliveira and Fernandes 2009, at full severity, for linear RGB.
EYES = {
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
    "all colours": np.eye(3).tolist(),
}
TO_XYZ = [
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
]


def linear(colour):
    part = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """The contrast ratio of WCAG 2."""
    luminance = [linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other)]
    return (max(luminance) + 0.05) / (min(luminance) + 0.05)


def lab(light):
    """CIE L*a*b* of linear sRGB, D65."""
    xyz = np.array(TO_XYZ) @ np.clip(light, 0, 1) / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one, other, eyes):
    """How different two colours look to somebody, as the distance in L*a*b*."""
    seen = [lab(np.array(EYES[eyes]) @ linear(colour)) for colour in (one, other)]
    return np.linalg.norm(seen[0] - seen[1])


@THEMES
def test_marks_and_words_stand_out_from_every_background(theme):
    verdicts = [theme.roles[it] for it in ("differs", "same", "undecided")]
    words = [theme.roles[it] for it in ("ink", "muted", "accent")]
    for background in (theme.roles[it] for it in ("surface", "page", "raised")):
        assert min(contrast(it, background) for it in words) >= 4.5
    for background in (theme.roles[it] for it in ("surface", "page")):
        assert min(contrast(it, background) for it in [*theme.levels, *verdicts]) >= 3


@THEMES
@pytest.mark.parametrize("eyes", EYES)
def test_colours_are_told_apart_by_everybody(theme, eyes):
    verdicts = [theme.roles[it] for it in ("differs", "same", "undecided")]
    # Most reports have up to four levels; with more, colours are nearer to each other.
    for colours, least in (theme.levels[:4], 20), (theme.levels, 9), (verdicts, 9):
        for one, other in combinations(colours, 2):
            assert distance(one, other, eyes) >= least, f"{one} and {other}"
