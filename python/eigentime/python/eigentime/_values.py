"""What calls return: named tuples, whose fields say their unit in their names."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Reading(NamedTuple):
    """An instant by the kernel's clocks, and how well that is known."""

    monotonic_ns: int
    """CLOCK_MONOTONIC, nanoseconds."""
    wall_ns: int
    """CLOCK_REALTIME, nanoseconds since the Unix epoch; negative before it."""
    error_ns: int | None
    """How far monotonic_ns can be from the kernel's clock; None where no bound is known."""
    wall_error_ns: int | None
    """How far wall_ns can be from the kernel's clock; None where no bound is known."""
    utc_error_ns: int | None
    """How far wall_ns can be from UTC; None where the kernel says it is not synchronized."""


class Trust(NamedTuple):
    """What the clock reads, and why; str() of it is the reason."""

    counter: bool
    """Whether the processor's counter is read; otherwise it is the kernel's clock."""
    reason: str
    """What is read and why, in a sentence."""

    def __str__(self) -> str:
        return self.reason


class Degradation(NamedTuple):
    """Something that was asked for and not granted; str() of it is a sentence."""

    what: str
    """What was asked for."""
    why: str
    """What stands in the way, and what would help."""

    def __str__(self) -> str:
        return f"no {self.what}: {self.why}"


class Slept(NamedTuple):
    """How a sleep went. Times are those of the monotonic clock."""

    target_ns: int
    """When it was to end, nanoseconds."""
    woke_ns: int
    """When it has ended, nanoseconds; Python goes on when the interpreter is free."""
    miss_ns: int
    """How late that was, nanoseconds; never early."""
    spun_ns: int
    """How long it has spun, nanoseconds."""
    kernel_miss_ns: int | None
    """How late the kernel's part ended, nanoseconds; None if the sleep was too short for one."""
    guard_ns: int
    """How long before the target the kernel's part was to end, nanoseconds."""
    lateness: Literal["on time", "woken late", "preempted"]
    """What kept it: nothing, the kernel, or something else that ran on its processor."""


class SleeperStatistics(NamedTuple):
    """What a sleeper's sleeps came to so far."""

    sleeps: int
    """Sleeps that have ended by themselves."""
    asked_late: int
    """Of these: asked for when their target had passed."""
    woken_late: int
    """Of these: woken late by the kernel."""
    preempted: int
    """Of these: kept off the processor while they were spinning."""
    interrupted: int
    """Sleeps that a signal has ended; those that went on afterwards count again."""
    worst_ns: int
    """How late the latest of those that were asked for in time ended, nanoseconds."""
    slept_ns: int
    """How long it has slept altogether, nanoseconds."""
    spun_ns: int
    """How long it has spun altogether, nanoseconds."""
    cpu: float
    """What is spun away of one processor while it sleeps, 0 to 1."""


class Tick(NamedTuple):
    """A deadline of an event that has come. Times are those of the monotonic clock."""

    number: int
    """Which of the event's deadlines it is, from 0 on, the missed ones counted."""
    due_ns: int
    """The deadline, nanoseconds."""
    fired_ns: int
    """When the ticker's thread got to it, nanoseconds; Python, when the interpreter is free."""
    missed: int
    """The deadlines since the tick before this that nobody was told of."""
    stolen_ns: int
    """How long the ticker's thread was kept from its processor before this, nanoseconds."""


class EventStatistics(NamedTuple):
    """What was seen of an event of a ticker."""

    fired: int
    """The deadlines that the ticker's thread has delivered."""
    missed: int
    """The deadlines that it has not, because a later one had come when there was time."""
    last_miss_ns: int | None
    """How late the last delivery was, nanoseconds; None before the first."""
    worst_miss_ns: int
    """How late the latest delivery was, nanoseconds."""
    preempted: int
    """The ticks before which the thread was kept from its processor."""
    stolen_ns: int
    """For how long in all, nanoseconds."""
    longest_delivery_ns: int
    """The longest time that a delivery took in that thread, nanoseconds; not the callback's."""
    delayed_others: int
    """How many deadlines of others came while this one was being delivered."""
    withheld: int
    """How often it was held back for the shielded event."""
    undelivered: int
    """How often its eventfd could not be written to."""
    ended: str | None
    """Why nothing more will come, if so."""


class TickerStatistics(NamedTuple):
    """What a ticker's thread has done so far."""

    fired: int
    """The deadlines that were delivered, also of events that are gone."""
    missed: int
    """The deadlines that were missed, also of events that are gone."""
    spun_ns: int
    """The time it has spun, nanoseconds."""
    waits: int
    """The waits in the kernel."""
    waited_ns: int
    """The time in those, nanoseconds."""
    gaps: int
    """How often it was kept from spinning: by interrupts, other threads, the hypervisor."""
    stolen_ns: int
    """For how long in all, nanoseconds."""
    longest_gap_ns: int
    """The longest of those, nanoseconds."""
