"""Reads the clock and prints how accurate it is."""

import eigentime

reading = eigentime.now_with_error()
print(f"monotonic {reading.monotonic_ns} ns, within {reading.error_ns} ns of the kernel's")
print(f"wall      {reading.wall_ns} ns, within {reading.wall_error_ns} ns of the kernel's")
if reading.utc_error_ns is None:
    print("UTC       unknown: the kernel says that its clock is not synchronized")
else:
    print(f"UTC       within {reading.utc_error_ns} ns")

start = eigentime.now_ordered_ns()
total = sum(range(1000))
end = eigentime.now_ordered_ns()
print(f"the sum is {total}, found in {end - start} ns")
print(f"read from {eigentime.trust()}")
