"""A chart: its colours, data, display and export."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True)
class Theme:
    """The colour of each role, and Vega-Lite's common configuration: `ordinal` colours are those
    of verdicts."""

    name: str
    roles: Mapping[str, str]
    config: Mapping[str, Any]

    @classmethod
    def read(cls, name: str, place: int) -> Theme:
        """The theme in `theme.json` with the colours at this index; its configuration names
        colours by role."""
        text = (files("eigentime_report.charts") / "theme.json").read_text("utf-8")
        roles = {role: colours[place] for role, colours in json.loads(text)["roles"].items()}
        for role, colour in roles.items():
            text = text.replace(f'"@{role}"', f'"{colour}"')
        return cls(name, roles, json.loads(text)["config"])

    @property
    def levels(self) -> list[str]:
        """The colours of levels, in this order; there may be more levels than colours."""
        return [it for role, it in self.roles.items() if role.startswith("level-")]


LIGHT, DARK = Theme.read("light", 0), Theme.read("dark", 1)

# The image format, by the suffix of the file.
FORMATS = (".png", ".svg")
Scaled: TypeAlias = Literal["log", "linear"]

# Seconds with units: `12.5µs`.
SECONDS = "format({}, '.3~s') + 's'"

NOTHING = "Nothing was measured here that could be shown."

# The name of the rows in charts.
ROWS = "rows"
# The precision that screens can show.
FIGURES = 5
# Characters per line of the caption, in an image.
LINE = 110


@dataclass(frozen=True, repr=False)
class Chart:
    """A chart: its rows, its specification, and its texts."""

    key: str
    title: str
    # What it shows, how to read it, and what is missing.
    caption: str
    rows: pl.DataFrame
    drawn: alt.FacetChart | None = None

    def __repr__(self) -> str:
        return f"<Chart {self.key}: {self.title}; {len(self.rows)} rows>"

    @property
    def is_empty(self) -> bool:
        """Whether it has only text."""
        return self.drawn is None

    def spec(self) -> dict[str, Any]:
        """Vega-Lite's specification, without title and colours; empty if the chart is empty."""
        if self.drawn is None:
            return {}
        # The rows are added last: Altair would check and copy all of them at each step.
        rows = self.rows.with_columns(pl.col(pl.Float64).round_sig_figs(FIGURES))
        spec = self.drawn.to_dict(validate=False)
        return {**spec, "datasets": {ROWS: rows.to_dicts()}}

    def titled(self, theme: Theme = LIGHT) -> dict[str, Any]:
        """The specification with title, caption and colours."""
        lines = textwrap.wrap(self.caption, LINE)
        title = {"text": self.title, "subtitle": lines}
        spec = self.spec() or {"data": {"values": []}, "mark": "point"}
        return {**spec, "title": title, "config": theme.config}

    def to_altair(self, theme: Theme = LIGHT) -> alt.Chart | alt.FacetChart:
        """The chart as an Altair chart."""
        # Half a second to import.
        import altair as alt

        kind = alt.Chart if self.is_empty else alt.FacetChart
        return kind.from_dict(self.titled(theme))

    def _repr_mimebundle_(self, *asked: Any, **more: Any) -> Any:
        """The display in a notebook."""
        return self.to_altair()._repr_mimebundle_(*asked, **more)

    def save(self, path: str | Path, theme: Theme = LIGHT) -> Path:
        """Writes the chart as an image, atomically; the suffix is .png or .svg."""
        # It contains a browser engine; do not load it unless something is drawn.
        import vl_convert

        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in FORMATS:
            raise ValueError(
                f"{path}: charts are saved as {' or '.join(FORMATS)}, "
                f"and {path.suffix or 'a name without a suffix'} is neither"
            )
        spec = self.titled(theme)
        with replacing(path) as new:
            if suffix == ".png":
                new.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
            else:
                new.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
        return path


def slug(*words: str) -> str:
    """A name of letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")


def sentences(*parts: str) -> str:
    """The non-empty sentences, joined."""
    return " ".join(part for part in parts if part)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write to, which replaces `path` when it is complete.

    If `path` is a link, its target is replaced, and the link stays.
    """
    place = Path(os.path.realpath(path))
    new = place.with_name(f".{os.getpid()}.{place.name}")
    try:
        yield new
        new.replace(place)
    finally:
        new.unlink(missing_ok=True)
