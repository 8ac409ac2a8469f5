"""What a named timeline costs beside a private one that shows the same.

At a rate of 1 a private timeline leaves relative waits and raw reads of the
monotonic clock alone, and a named one does not, since its rate may change later:
the rows with a wall offset show that, and no target is set for it.
"""

from eigenbench import levels
from eigenbench.columns import Column, Times
from eigenbench.programs import Programs
from eigenbench.samples import MICROSECONDS, NANOSECONDS, Probe
from eigenbench.suites import Calls, Effort, Efforts

# Which private timeline each named one stands beside.
PRIVATE = {
    levels.NAMED_OFFSET: levels.OFFSET,
    levels.NAMED_RATE: levels.RATE_10,
    levels.NAMED_RATE_ONE_CPU: levels.RATE_10_ONE_CPU,
}
READS = (
    levels.HOST,
    levels.OFFSET,
    levels.NAMED_OFFSET,
    levels.RATE_10,
    levels.NAMED_RATE,
    levels.HOST_AGAIN,
)
WAITS = (
    *READS[:-1],
    levels.RATE_10_ONE_CPU,
    levels.NAMED_RATE_ONE_CPU,
    levels.HOST_AGAIN,
)
COLUMNS: tuple[Column, ...] = (
    Times("× host", levels.HOST),
    Times("× private", PRIVATE),
)


def named_suites(programs: Programs) -> list[Calls]:
    """The reads and the waits, each with its own levels."""
    return [
        Calls(
            name="named-reads",
            title="Clock reads in a named timeline, beside a private one",
            note="Best of five batches in each round. With a wall offset alone, a "
            "private timeline leaves the monotonic clock to the kernel; a named one "
            "maps it, since its rate may change later.",
            probes=(
                Probe("named/realtime", "`clock_gettime(CLOCK_REALTIME)`", NANOSECONDS),
                Probe(
                    "named/monotonic", "`clock_gettime(CLOCK_MONOTONIC)`", NANOSECONDS
                ),
                Probe(
                    "named/raw-realtime",
                    "`syscall(SYS_clock_gettime, CLOCK_REALTIME)`",
                    NANOSECONDS,
                ),
                Probe(
                    "named/raw-monotonic",
                    "`syscall(SYS_clock_gettime, CLOCK_MONOTONIC)`",
                    NANOSECONDS,
                ),
            ),
            batch_ns=5e6,
            efforts=Efforts(Effort(21, 50), Effort(5, 12)),
            programs=programs,
            levels=READS,
            columns=COLUMNS,
        ),
        Calls(
            name="named-waits",
            title="Waits in a named timeline, beside a private one",
            note="Best of five batches in each round; the timer slack is 1 ns. With "
            "a wall offset alone, a private timeline leaves relative waits to the "
            "kernel; a named one translates them, since its rate may change while "
            "they last.",
            probes=(
                Probe("named/poll", "`poll(ready, 1000)`", MICROSECONDS),
                Probe("named/nanosleep", "`nanosleep(0)`", MICROSECONDS),
                Probe("named/futex", "`futex(WAIT, other value, 1 s)`", MICROSECONDS),
                Probe(
                    "named/cond-monotonic",
                    "`pthread_cond_timedwait`, CLOCK_MONOTONIC",
                    MICROSECONDS,
                ),
                Probe("named/getppid", "`getppid`", MICROSECONDS),
            ),
            batch_ns=10e6,
            efforts=Efforts(Effort(21, 70), Effort(3, 14)),
            programs=programs,
            levels=WAITS,
            columns=COLUMNS,
        ),
    ]
