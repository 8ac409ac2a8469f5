"""The measurements: a value for every round, level and probe, or why there is none."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

# A round, and the index of the value if a round has several.
Turn = tuple[int, int]
# In the probe's base unit.
Rounds = dict[Turn, float]


@dataclass(frozen=True)
class Unit:
    """The unit in which values are shown; they are stored in the base unit."""

    symbol: str
    base: str
    # Base units per unit.
    scale: float


NANOSECONDS = Unit("ns", "ns", 1.0)
MICROSECONDS = Unit("µs", "ns", 1e3)
MILLISECONDS = Unit("ms", "ns", 1e6)
SECONDS = Unit("s", "ns", 1e9)
KIBIBYTES = Unit("KiB", "B", 2.0**10)
MEBIBYTES = Unit("MiB", "B", 2.0**20)
PERCENT = Unit("%", "%", 1.0)
PPM = Unit("ppm", "ppm", 1.0)
COUNT = Unit("", "", 1.0)
PER_SECOND = Unit("/s", "/s", 1.0)
REQUESTS = Unit("requests/s", "requests/s", 1.0)


@dataclass(frozen=True)
class Probe:
    """A quantity that is measured at every level of a suite."""

    key: str
    title: str
    unit: Unit
    # Whether it has rows of its own in the table, or only columns of other rows.
    row: bool = True


@dataclass
class Samples:
    """All values of a run, and the reasons for missing ones."""

    _rounds: defaultdict[tuple[str, str], Rounds] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    _gaps: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(
        self, probe: str, level: str, number: int, value: float, part: int = 0
    ) -> None:
        """Adds a value of one round."""
        self._rounds[probe, level][number, part] = value

    def explain(self, probe: str, level: str, reason: str) -> None:
        """Records why a value is missing; the first reason is shown."""
        self._reasons.setdefault((probe, level), reason)

    def leave_out(self, probe: str, level: str, reason: str) -> None:
        """Records why there is no value in one round; there may be one in the next."""
        self._gaps[probe, level, reason] += 1

    def of(self, probe: str, level: str) -> Rounds:
        """The values of a probe at a level, by round."""
        return self._rounds.get((probe, level), {})

    def reason(self, probe: str, level: str) -> str:
        """Why there are no more values, or none at all; empty if there are."""
        failed = self._reasons.get((probe, level), "")
        if failed or self.of(probe, level):
            return failed
        gaps = [it for it in self._gaps if it[:2] == (probe, level)]
        return max(gaps, key=self._gaps.__getitem__)[2] if gaps else ""
