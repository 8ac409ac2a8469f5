"""Published numbers, read from the TOML files beside this one."""

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
    from_text: bool = False


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
        rows = (
            row
            for row in self.tables[table]
            if (row.function, row.platform, row.load) == wanted
        )
        return next(rows, None)


@dataclass(frozen=True)
class Event:
    """A number of the timer-event paper."""

    platform: str
    load: str
    interval_ns: int
    sd_ns: float
    about: bool = False


@dataclass(frozen=True)
class Side:
    """One of two published numbers, for one call."""

    name: str
    level: str
    value: float


@dataclass(frozen=True)
class Pair:
    """Two published numbers, and which quantities they are here."""

    source: Source
    what: str
    unit: str
    first: Side
    second: Side
    first_quantity: str
    second_quantity: str


@cache
def overhead() -> Overhead:
    """Table IV."""
    table = _read("time-namespaces-in-containers")
    found = table["overhead"]
    levels = tuple(found["levels"])
    return Overhead(
        source=_source(table),
        levels=levels,
        records=found["records"],
        remarks=tuple(found["remarks"]),
        metrics={row["metric"]: _metric(row, levels) for row in found["metrics"]},
    )


@cache
def timing() -> Timing:
    """Tables 1 and 2 of the timing paper."""
    table = _read("timing-precision")
    return Timing(
        source=_source(table),
        functions=table["functions"],
        platforms=table["platforms"],
        loads=table["loads"],
        tables={
            name: tuple(
                TimingRow(
                    from_text=row.get("from") == "text",
                    **{key: value for key, value in row.items() if key != "from"},
                )
                for row in rows
            )
            for name, rows in table["tables"].items()
        },
    )


@cache
def events() -> tuple[Source, tuple[Event, ...]]:
    """What can be read of the timer-event paper's numbers."""
    table = _read("timer-events")
    return _source(table), tuple(Event(**row) for row in table["events"])


@cache
def pairs() -> tuple[Pair, ...]:
    """Pairs of numbers: the patch set's, and the article's on EC2."""
    tables = [
        _read(name) for name in ("time-namespace-patch-set", "system-calls-on-ec2")
    ]
    return tuple(
        _pair(_source(table), row) for table in tables for row in table["pairs"]
    )


def _metric(row: Mapping[str, Any], levels: tuple[str, ...]) -> Metric:
    by_level = {
        key: dict(zip(levels, row[key], strict=True)) for key in ("means_ns", "sds_ns")
    }
    post_hoc = tuple(PostHoc(**pair) for pair in row.get("post_hoc", ()))
    return Metric(**{**row, **by_level, "post_hoc": post_hoc})


def _pair(source: Source, row: Mapping[str, Any]) -> Pair:
    return Pair(
        source=source,
        what=row["what"],
        unit=row["unit"],
        first=_side(row["first"]),
        second=_side(row["second"]),
        first_quantity=row["ours"],
        second_quantity=row.get("second_ours", row["ours"]),
    )


def _side(row: Mapping[str, Any]) -> Side:
    value = row["value"] if "value" in row else row["seconds"] * 1e9 / row["calls"]
    return Side(row["name"], row["level"], value)


def _source(table: Mapping[str, Any]) -> Source:
    found = table["source"]
    return Source(**{**found, "authors": tuple(found["authors"])})


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(
        files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    )
