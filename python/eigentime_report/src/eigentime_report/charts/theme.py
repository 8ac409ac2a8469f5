"""Colours: what they stand for, in light and in dark, and what charts look like in both.

The levels' colours keep apart for those who do not see red, green or blue, and each colour of
a mark has a contrast of at least 3 with its background (WCAG 2.2, 1.4.11); the tests compute both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

# Role, in light, in dark.
_ROLES: tuple[tuple[str, str, str], ...] = (
    ("page", "#f6f7f9", "#12151a"),
    ("surface", "#ffffff", "#1a1e25"),
    ("raised", "#eef1f5", "#232933"),
    ("ink", "#1b2330", "#e8ebf0"),
    ("muted", "#5a6575", "#a0abbb"),
    ("grid", "#e3e7ed", "#2d3440"),
    ("edge", "#d3d9e2", "#38414f"),
    ("accent", "#2558b8", "#8ab4ff"),
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


@dataclass(frozen=True)
class Theme:
    """The colour of each role."""

    name: str
    roles: Mapping[str, str]

    @property
    def levels(self) -> list[str]:
        """The colours of levels, in the order of these; there may be more levels."""
        return [it for role, it in self.roles.items() if role.startswith("level-")]

    @property
    def config(self) -> dict[str, Any]:
        """What Vega-Lite takes for all charts: `ordinal` colours are those of verdicts."""
        its = self.roles
        verdicts = [its[name] for name in ("differs", "same", "undecided", "undecided")]
        return {
            "background": its["surface"],
            "font": FONT,
            "range": {"category": self.levels, "ordinal": verdicts},
            "axis": {
                "gridColor": its["grid"],
                "domainColor": its["edge"],
                "tickColor": its["edge"],
                "labelColor": its["muted"],
                "labelFontSize": 11.5,
                "labelLimit": 260,
                "labelSeparation": 6,
                "titleColor": its["muted"],
                "titleFontSize": 12,
                "titleFontWeight": "normal",
            },
            "header": {"labelColor": its["ink"], "labelFontSize": 12.5},
            "legend": {
                "orient": "top",
                "title": None,
                "labelColor": its["ink"],
                "labelFontSize": 12,
                "labelLimit": 260,
            },
            "style": {"ink": {"color": its["ink"]}, "muted": {"color": its["muted"]}},
            "title": {
                "anchor": "start",
                "color": its["ink"],
                "fontSize": 15,
                "subtitleColor": its["muted"],
                "subtitleFontSize": 11,
            },
            "view": {"stroke": its["edge"]},
        }


LIGHT = Theme("light", {role: light for role, light, _ in _ROLES})
DARK = Theme("dark", {role: dark for role, _, dark in _ROLES})
