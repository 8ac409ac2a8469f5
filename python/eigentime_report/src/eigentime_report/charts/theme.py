"""Colours: what they stand for, in light and in dark.

A mark names a role, never a colour, so that a level looks the same everywhere. The levels'
colours keep apart for those who do not see red, green or blue, and each has a contrast of at
least 3 with its background (WCAG 2.2, 1.4.11); the tests compute both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Strength: TypeAlias = Literal["solid", "soft", "faint"]

# How much of the background a colour of this strength covers.
OPACITY: Mapping[Strength, float] = {"solid": 1.0, "soft": 0.45, "faint": 0.16}


@dataclass(frozen=True)
class Paint:
    """A colour by what it stands for."""

    role: str
    strength: Strength = "solid"


@dataclass(frozen=True)
class Theme:
    """The colour of each role."""

    name: str
    roles: Mapping[str, str]

    def colour(self, paint: Paint) -> str:
        """The colour as CSS has it."""
        red, green, blue = rgb(self.roles[paint.role])
        opacity = OPACITY[paint.strength]
        return f"rgba({red}, {green}, {blue}, {opacity:g})"

    def colour_of(self, role: str) -> str:
        """The colour of a role at its full strength, as `#rrggbb`."""
        return self.roles[role]


def rgb(colour: str) -> tuple[int, int, int]:
    """`#rrggbb` as three numbers from 0 to 255."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def recolouring(before: Theme, after: Theme) -> dict[str, str]:
    """Each colour of one theme and what it is in the other one."""
    paints = [Paint(role, strength) for role in before.roles for strength in OPACITY]
    return {before.colour(paint): after.colour(paint) for paint in paints}


# Role, in light, in dark. No two roles of a theme have one colour: `recolouring` tells
# roles apart by it.
_ROLES: tuple[tuple[str, str, str], ...] = (
    ("page", "#f6f7f9", "#12151a"),
    ("surface", "#ffffff", "#1a1e25"),
    ("raised", "#eef1f5", "#232933"),
    ("ink", "#1b2330", "#e8ebf0"),
    ("muted", "#5a6575", "#a0abbb"),
    ("grid", "#e3e7ed", "#2d3440"),
    ("edge", "#d3d9e2", "#38414f"),
    ("accent", "#2558b8", "#8ab4ff"),
    ("shade", "#8d99ab", "#7d899b"),
    ("level-0", "#175cab", "#559ff0"),
    ("level-1", "#d4650c", "#f29a4a"),
    ("level-2", "#149a6e", "#3fd6a2"),
    ("level-3", "#8c2a5c", "#f0a6da"),
    ("level-4", "#5c5000", "#efe57a"),
    ("level-5", "#3395c6", "#a8e6fc"),
    ("level-6", "#c73a44", "#ec6464"),
    ("level-7", "#788291", "#8c95a3"),
    ("differs", "#b42318", "#ff8577"),
    ("same", "#14785c", "#4fd0a9"),
    ("undecided", "#6b7585", "#98a3b3"),
)

LIGHT = Theme("light", {role: light for role, light, _ in _ROLES})
DARK = Theme("dark", {role: dark for role, _, dark in _ROLES})
LEVEL_COLOURS = sum(role.startswith("level-") for role, _, _ in _ROLES)
