"""A clock with a known error, punctual sleeps and periodic events.

    >>> import eigentime
    >>> reading = eigentime.now_with_error()     # nanoseconds, and how far they can be off
    >>> eigentime.Sleeper().sleep(0.001)         # a millisecond, not one and a bit

Times are nanoseconds where a name ends in ``_ns``, otherwise seconds. Monotonic times are those of
time.monotonic_ns(), wall times those of time.time_ns(). Inside a timeline of Eigentime both are
virtual, and sleeps and events follow them.

Other Python threads run while one waits. A refused argument raises ValueError, which states the
value, the reason and a remedy.
"""

from eigentime._eigentime import (
    Event,
    Sleeper,
    Ticker,
    Ticks,
    boottime_ns,
    frequency,
    now_ns,
    now_ordered_ns,
    now_with_error,
    recent_ns,
    ticks,
    trust,
    upkeep,
    wall_ns,
)
from eigentime._values import (
    Degradation,
    EventStatistics,
    Reading,
    SleeperStatistics,
    Slept,
    Tick,
    TickerStatistics,
    Trust,
)

__all__ = [
    "Degradation",
    "Event",
    "EventStatistics",
    "Reading",
    "Sleeper",
    "SleeperStatistics",
    "Slept",
    "Tick",
    "Ticker",
    "TickerStatistics",
    "Ticks",
    "Trust",
    "boottime_ns",
    "frequency",
    "now_ns",
    "now_ordered_ns",
    "now_with_error",
    "recent_ns",
    "ticks",
    "trust",
    "upkeep",
    "wall_ns",
]
