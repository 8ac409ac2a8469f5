"""The formatting of numbers: with units, and with no more digits than are meaningful."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

MINUS = "−"
# Significant digits of a number.
FIGURES = 3
# A probability below this is not written as a number.
LEAST_P = 0.001
# Nor is any number closer to 0 than this.
LEAST = 0.0001


@dataclass(frozen=True)
class Unit:
    """A unit of time."""

    name: str
    ns: float
    # As it is typed, and written in names.
    typed: str


NANOSECONDS = Unit("ns", 1.0, "ns")
MICROSECONDS = Unit("µs", 1e3, "us")
MILLISECONDS = Unit("ms", 1e6, "ms")
SECONDS = Unit("s", 1e9, "s")
UNITS = (NANOSECONDS, MICROSECONDS, MILLISECONDS, SECONDS)

_TYPED = {name: unit for unit in UNITS for name in (unit.typed, unit.name)}
# The Greek letter as well as the micro sign.
_TYPED["μs"] = MICROSECONDS
_LENGTH = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(\D+?)\s*", re.IGNORECASE)


def unit_for(lengths: Iterable[float | None]) -> Unit:
    """A unit in which all these nanoseconds are readable, for a row, a column or an axis.

    The lowest of them decides, as in the table of `eigentime bench`, so that none loses its
    digits: it is at least ten units.
    """
    least = min((abs(it) for it in lengths if it), default=0.0)
    return _unit(least / 10)


def duration(ns: float, unit: Unit | None = None, figures: int = FIGURES) -> str:
    """A duration: `19.8 ns`, `1.02 ms`; in the suitable unit, or in this one."""
    # What is rounded up to the next unit is written in it.
    if unit is None:
        unit = _unit(abs(float(f"{_finite(ns):.{figures - 1}e}")))
    return f"{number(ns / unit.ns, figures)} {unit.name}"


def number(value: float, figures: int = FIGURES) -> str:
    """A number with this many significant digits, keeping all digits before the point."""
    if _finite(value) == 0:
        return "0"
    # After rounding: 9.999 then has one more digit before the point.
    exponent = int(f"{abs(value):.{figures - 1}e}".partition("e")[2])
    if abs(value) < LEAST:
        return f"< {LEAST}" if value > 0 else f"> {MINUS}{LEAST}"
    return _signed(f"{value:,.{max(figures - 1 - exponent, 0)}f}")


def percent(part: float, figures: int = 2, sign: bool = True) -> str:
    """A relative difference as a percentage: `+3.1 %`."""
    value = 100 * _finite(part)
    text = _signed(f"{value:{'+' if sign else ''},.{_places(value, figures)}f}")
    nothing = not text.strip("+−0.")
    return f"{text.lstrip('+−') if nothing else text} %"


def margin(part: float) -> str:
    """A limit as it was given: `1 %`, `0.5 %`."""
    return f"{100 * part:g} %"


def times(ratio: float, figures: int = 2) -> str:
    """A factor: `4.1 times`."""
    return f"{number(ratio, figures)} times"


def count(things: int) -> str:
    """A count: `1,234,567`."""
    return _signed(f"{things:,}")


def p_value(p: float) -> str:
    """The p of a test: `0.012`, `< 0.001`."""
    if _finite(p) < LEAST_P:
        return f"< {LEAST_P}"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def span(ns: float) -> str:
    """A requested duration, in full: `100 µs`, `1 ms`, `70.5 µs`."""
    value, unit = _in_full(ns)
    return f"{value} {unit.name}"


def typed_span(ns: float) -> str:
    """The same as typed, for names: `100us`, `1ms`."""
    value, unit = _in_full(ns)
    return f"{value}{unit.typed}"


def nanoseconds(text: str) -> float:
    """The nanoseconds of a typed duration: `200us`, `1.5 ms`, `-3ns`."""
    match = _LENGTH.fullmatch(text)
    unit = _TYPED.get(match[2].lower()) if match else None
    if match is None or unit is None:
        known = ", ".join(it.typed for it in UNITS)
        raise ValueError(f"{text!r} is no length of time: a number and one of {known}")
    return float(match[1]) * unit.ns


def _unit(ns: float) -> Unit:
    """The largest unit that it is at least one of."""
    return next((it for it in reversed(UNITS) if ns >= it.ns), NANOSECONDS)


def _in_full(ns: float) -> tuple[str, Unit]:
    unit = _unit(abs(ns))
    return f"{ns / unit.ns:.12g}", unit


def _places(value: float, figures: int) -> int:
    """The digits after the point: at least one for values below ten, and at most two."""
    if value == 0:
        return 1
    return min(max(figures - 1 - math.floor(math.log10(abs(value))), 0), 2)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number to show: whoever counted it has to say why")
    return value


def _signed(text: str) -> str:
    return text.replace("-", MINUS)
