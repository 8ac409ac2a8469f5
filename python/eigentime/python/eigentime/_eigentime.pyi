# The compiled module, src/; a test compares the two.

from collections.abc import Callable
from types import TracebackType
from typing import final

from typing_extensions import Self

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
    "Event",
    "Sleeper",
    "Ticker",
    "Ticks",
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

def now_ns() -> int: ...
def now_ordered_ns() -> int: ...
def wall_ns() -> int: ...
def boottime_ns() -> int: ...
def recent_ns() -> int: ...
def ticks() -> int: ...
def frequency() -> float: ...
def now_with_error() -> Reading: ...
def trust() -> Trust: ...
def upkeep() -> None: ...

@final
class Sleeper:
    def __new__(
        cls,
        *,
        quantile: float | None = None,
        cpu: float | None = None,
        max_guard: float | None = None,
        realtime: int | None = None,
        hold_latency: bool = False,
        pin: int | None = None,
    ) -> Self: ...
    def sleep(self, seconds: float, /) -> Slept: ...
    def sleep_ns(self, nanoseconds: int, /) -> Slept: ...
    def sleep_until_ns(self, monotonic_ns: int, /) -> Slept: ...
    @property
    def degradation(self) -> tuple[Degradation, ...]: ...
    def statistics(self) -> SleeperStatistics: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
        /,
    ) -> None: ...

@final
class Ticker:
    def __new__(
        cls,
        *,
        realtime: int | None = None,
        pin: int | None = None,
        hold_latency: bool = False,
        lock_memory: bool = False,
        quantile: float | None = None,
        cpu: float | None = None,
        max_guard: float | None = None,
    ) -> Self: ...
    def every(
        self,
        seconds: float,
        callback: Callable[[Tick], object] | None = None,
        *,
        start_ns: int | None = None,
        shielded: bool = False,
        eventfd: bool = False,
    ) -> Event: ...
    def every_ns(
        self,
        nanoseconds: int,
        callback: Callable[[Tick], object] | None = None,
        *,
        start_ns: int | None = None,
        shielded: bool = False,
        eventfd: bool = False,
    ) -> Event: ...
    def once(
        self,
        seconds: float,
        callback: Callable[[Tick], object] | None = None,
        *,
        shielded: bool = False,
        eventfd: bool = False,
    ) -> Event: ...
    def once_at_ns(
        self,
        monotonic_ns: int,
        callback: Callable[[Tick], object] | None = None,
        *,
        shielded: bool = False,
        eventfd: bool = False,
    ) -> Event: ...
    def ticks(
        self, seconds: float, *, start_ns: int | None = None, shielded: bool = False
    ) -> Ticks: ...
    def ticks_ns(
        self, nanoseconds: int, *, start_ns: int | None = None, shielded: bool = False
    ) -> Ticks: ...
    @property
    def degradation(self) -> tuple[Degradation, ...]: ...
    def statistics(self) -> TickerStatistics: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
        /,
    ) -> None: ...

@final
class Event:
    @property
    def counter(self) -> int: ...
    @property
    def missed(self) -> int: ...
    @property
    def delivered(self) -> int: ...
    @property
    def active(self) -> bool: ...
    def statistics(self) -> EventStatistics: ...
    def fileno(self) -> int: ...
    def cancel(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
        /,
    ) -> None: ...

@final
class Ticks:
    def __iter__(self) -> Self: ...
    def __next__(self) -> Tick: ...
    def statistics(self) -> EventStatistics: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
        /,
    ) -> None: ...
