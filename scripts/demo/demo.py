"""Prints its wall clock, sleeps ten seconds, prints it again."""

import time
from datetime import datetime, timezone


def print_wall_clock():
    now = datetime.now(timezone.utc)
    print(
        now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03}Z",
        flush=True,
    )


print_wall_clock()
time.sleep(10)
print_wall_clock()
