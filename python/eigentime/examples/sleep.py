"""Sleeps for a millisecond a hundred times and prints how late it woke."""

import statistics

import eigentime

with eigentime.Sleeper(quantile=0.99, cpu=0.04) as sleeper:
    for lost in sleeper.degradation:
        print(lost)

    sleeps = [sleeper.sleep(0.001) for _ in range(100)]

    # A fixed rhythm: deadlines do not depend on how long anything takes.
    start = eigentime.now_ns()
    for turn in range(1, 6):
        slept = sleeper.sleep_until_ns(start + turn * 2_000_000)
        print(f"turn {turn}: {slept.lateness}, spun {slept.spun_ns} ns")

misses = [slept.miss_ns for slept in sleeps]
print(f"of {len(sleeps)} sleeps, the median was {statistics.median(misses)} ns late")
