"""What the papers have published, from the TOML files here, to stand beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import tomllib


@dataclass(frozen=True)
class Source:
    """Where numbers come from."""

    title: str
    authors: tuple[str, ...]
    published: str
    year: int
    where: str
    setting: str
    doi: str = ""
    url: str = ""

    @property
    def citation(self) -> str:
        """One line for a note: who, what, where, when."""
        address = f"https://doi.org/{self.doi}" if self.doi else self.url
        return (
            f"{', '.join(self.authors)}: “{self.title}”, {self.published}, {self.year} "
            f"({self.where}; {self.setting}). {address}"
        ).strip()


@dataclass(frozen=True)
class PostHoc:
    """A row of the post hoc test: mean of `i` minus mean of `j`."""

    i: str
    j: str
    difference_ns: float
    significance: str
    lower_ns: float
    upper_ns: float


@dataclass(frozen=True)
class Metric:
    """A metric of Table IV, as it is printed there; means and deviations by level."""

    metric: str
    means_ns: Mapping[str, float]
    sds_ns: Mapping[str, float]
    test: str
    df1: int
    df2: int
    # What stands in the column F: see `Overhead.remarks`.
    f_column: float
    significance: str
    post_hoc: tuple[PostHoc, ...]

    def change_percent(self, level: str, base: str) -> float:
        """By how much the mean at `level` is above that at `base`."""
        return (self.means_ns[level] / self.means_ns[base] - 1) * 100


@dataclass(frozen=True)
class Overhead:
    """Table IV of the paper on time namespaces in containers."""

    source: Source
    levels: tuple[str, ...]
    records: int
    remarks: tuple[str, ...]
    metrics: Mapping[str, Metric]


@dataclass(frozen=True)
class TimingRow:
    """A row of Table 1 or 2 of the timing paper; None where the text at hand is cut off."""

    function: str
    platform: str
    load: str
    mad_ns: float | None = None
    max_ns: float | None = None
    median_ns: float | None = None
    min_ns: float | None = None


@dataclass(frozen=True)
class Timing:
    """Tables 1 and 2 of the timing paper, and what its names are called here."""

    source: Source
    # Table, the paper's function, and our quantity (`timer_cost`) or way to sleep (`miss_time`).
    functions: Mapping[str, Mapping[str, str]]
    # Ours, and the paper's.
    platforms: Mapping[str, str]
    loads: Mapping[str, str]
    tables: Mapping[str, tuple[TimingRow, ...]]

    def row(self, table: str, function: str, level: str, load: str) -> TimingRow | None:
        """The paper's row for one of our levels and loads."""
        wanted = (function, self.platforms.get(level), self.loads.get(load))
        rows = self.tables[table]
        return next((it for it in rows if (it.function, it.platform, it.load) == wanted), None)


@dataclass(frozen=True)
class Events:
    """What can be read of the timer-event paper's numbers: platform, load, interval, deviation."""

    source: Source
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Side:
    """One of two published numbers, for one call, and which quantity it is here."""

    name: str
    level: str
    value: float
    ours: str


@dataclass(frozen=True)
class Pair:
    """Two published numbers."""

    source: Source
    what: str
    unit: str
    first: Side
    second: Side


@cache
def overhead() -> Overhead:
    """Table IV."""
    table = _read("time-namespaces-in-containers")
    found = table["overhead"]
    levels = tuple(found["levels"])
    metrics = {
        row["metric"]: Metric(
            **{
                **row,
                "means_ns": dict(zip(levels, row["means_ns"], strict=True)),
                "sds_ns": dict(zip(levels, row["sds_ns"], strict=True)),
                "post_hoc": tuple(PostHoc(**it) for it in row.get("post_hoc", ())),
            }
        )
        for row in found["metrics"]
    }
    remarks = tuple(found["remarks"])
    return Overhead(_source(table), levels, found["records"], remarks, metrics)


@cache
def timing() -> Timing:
    """Tables 1 and 2 of the timing paper."""
    table = _read("timing-precision")
    tables = {
        # Where a number is from, table or text, is for those who check the file.
        name: tuple(
            TimingRow(**{key: it for key, it in row.items() if key != "from"}) for row in rows
        )
        for name, rows in table["tables"].items()
    }
    names = {it: table[it] for it in ("functions", "platforms", "loads")}
    return Timing(source=_source(table), tables=tables, **names)


@cache
def events() -> Events:
    """The timer-event paper's deviations."""
    table = _read("timer-events")
    return Events(_source(table), tuple(table["events"]))


@cache
def pairs() -> tuple[Pair, ...]:
    """Pairs of numbers: the patch set's, and the article's on EC2."""
    found = []
    for name in ("time-namespace-patch-set", "system-calls-on-ec2"):
        table = _read(name)
        for row in table["pairs"]:
            first = _side(row["first"], row["ours"])
            second = _side(row["second"], row.get("second_ours", row["ours"]))
            source = _source(table)
            found.append(Pair(source, row["what"], row["unit"], first, second))
    return tuple(found)


def _side(row: Mapping[str, Any], ours: str) -> Side:
    value = row["value"] if "value" in row else row["seconds"] * 1e9 / row["calls"]
    return Side(row["name"], row["level"], value, ours)


def _source(table: Mapping[str, Any]) -> Source:
    found = table["source"]
    return Source(**{**found, "authors": tuple(found["authors"])})


def _read(name: str) -> dict[str, Any]:
    file = files(__package__) / f"{name}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))
