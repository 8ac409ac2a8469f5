"""Return values of calls: named tuples whose field names state the unit."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Reading(NamedTuple):
    """An instant on the kernel's clocks, and how accurately it is known."""

    monotonic_ns: int
    """CLOCK_MONOTONIC, nanoseconds."""
    wall_ns: int
    """CLOCK_REALTIME, nanoseconds since the Unix epoch; negative before it."""
    error_ns: int | None
    """How far monotonic_ns can be from the kernel's clock; None if no bound is known."""
    wall_error_ns: int | None
    """How far wall_ns can be from the kernel's clock; None if no bound is known."""
    utc_error_ns: int | None
    """How far wall_ns can be from UTC; None if the kernel reports it as not synchronized."""


class Trust(NamedTuple):
    """What the clock reads, and why; str() of it is the reason."""

    counter: bool
    """Whether the processor's counter is read; otherwise the kernel's clock is."""
    reason: str
    """What is read and why, in a sentence."""

    def __str__(self) -> str:
        return self.reason


class Degradation(NamedTuple):
    """Something that was requested and not granted; str() of it is a sentence."""

    what: str
    """What was requested."""
    why: str
    """The obstacle, and what would help."""

    def __str__(self) -> str:
        return f"no {self.what}: {self.why}"


class Slept(NamedTuple):
    """How a sleep went. Times are on the monotonic clock."""

    target_ns: int
    """When it should have ended, nanoseconds."""
    woke_ns: int
    """When it ended, nanoseconds; Python continues once the interpreter is free."""
    miss_ns: int
    """How late that was, nanoseconds; never early."""
    spun_ns: int
    """How long it spun, nanoseconds."""
    kernel_miss_ns: int | None
    """How late the kernel's part ended, nanoseconds; None if the sleep was too short for one."""
    guard_ns: int
    """How long before the target the kernel's part should end, nanoseconds."""
    lateness: Literal["on time", "woken late", "preempted"]
    """What delayed it: nothing, the kernel, or something else that ran on its processor."""


class SleeperStatistics(NamedTuple):
    """The totals of a sleeper's sleeps so far."""

    sleeps: int
    """Sleeps that ended by themselves."""
    asked_late: int
    """Of these: requested after their target had passed."""
    woken_late: int
    """Of these: woken late by the kernel."""
    preempted: int
    """Of these: kept off the processor while spinning."""
    interrupted: int
    """Sleeps ended by a signal; those that resumed afterwards count again."""
    worst_ns: int
    """How late the latest sleep requested in time ended, nanoseconds."""
    slept_ns: int
    """Total time slept, nanoseconds."""
    spun_ns: int
    """Total time spun, nanoseconds."""
    cpu: float
    """The share of one processor spent spinning while it sleeps, 0 to 1."""


class Tick(NamedTuple):
    """A deadline of an event that has come. Times are on the monotonic clock."""

    number: int
    """The number of the deadline, from 0, including missed ones."""
    due_ns: int
    """The deadline, nanoseconds."""
    fired_ns: int
    """When the ticker's thread got to it, nanoseconds; Python, when the interpreter is free."""
    missed: int
    """Deadlines since the previous tick that were not delivered."""
    stolen_ns: int
    """How long the ticker's thread was kept from its processor before this, nanoseconds."""


class EventStatistics(NamedTuple):
    """What was observed of a ticker's event."""

    fired: int
    """Deadlines that the ticker's thread delivered."""
    missed: int
    """Deadlines that it did not deliver, because a later one had come by then."""
    last_miss_ns: int | None
    """How late the last delivery was, nanoseconds; None before the first."""
    worst_miss_ns: int
    """How late the latest delivery was, nanoseconds."""
    preempted: int
    """Ticks before which the thread was kept from its processor."""
    stolen_ns: int
    """The total time of that, nanoseconds."""
    longest_delivery_ns: int
    """The longest time that a delivery took in that thread, nanoseconds, without the callback."""
    delayed_others: int
    """How many deadlines of other events came while this one was being delivered."""
    withheld: int
    """How often it was held back for the shielded event."""
    undelivered: int
    """How often its eventfd could not be written to."""
    ended: str | None
    """Why nothing more will come, if so."""


class TickerStatistics(NamedTuple):
    """What a ticker's thread has done so far."""

    fired: int
    """Deadlines delivered, including those of events that are gone."""
    missed: int
    """Deadlines missed, including those of events that are gone."""
    spun_ns: int
    """The time it spun, nanoseconds."""
    waits: int
    """Waits in the kernel."""
    waited_ns: int
    """The time spent in those, nanoseconds."""
    gaps: int
    """How often it was kept from spinning: by interrupts, other threads, the hypervisor."""
    stolen_ns: int
    """The total time of those, nanoseconds."""
    longest_gap_ns: int
    """The longest of those, nanoseconds."""
