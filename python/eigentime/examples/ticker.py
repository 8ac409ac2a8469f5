"""A ticker with three users: a callback, a loop and a single event."""

import threading

import eigentime

calls = 0
finished = threading.Event()


def called(tick: eigentime.Tick) -> None:
    """Counts the delivered and the missed ticks."""
    global calls
    calls += 1 + tick.missed


with eigentime.Ticker() as ticker:
    for lost in ticker.degradation:
        print(lost)

    quick = ticker.every(0.001, called)
    ticker.once(0.05, lambda tick: finished.set())

    with ticker.ticks(0.01) as ticks:
        for tick in ticks:
            late = tick.fired_ns - tick.due_ns
            print(f"tick {tick.number}: {late} ns late, {tick.missed} missed before")
            if tick.number >= 4:
                break

    finished.wait()
    quick.cancel()

print(f"the quick event came {calls} times, {quick.missed} missed by the ticker itself")
