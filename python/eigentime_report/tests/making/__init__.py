"""Results folders with known effects, in the form that `eigentime bench` writes.

    path = making.folder(
        tmp_path / "run",
        calls=[making.Calls("nanosleep", 1e8, sd=2e4, levels={"namespace": 1.03})],
        sleeps=[making.Sleeps("epoll", 1_000_000, 60_000, sd=900, shape="lognormal")],
        levels=("baseline", "namespace"),
        loads=("idle", "cpu"),
        blocks=10,
    )

What is written is drawn from `seed`, and is the same each time. Read in this order:
`quantities` (what values are drawn), `tables` (the Parquet files), `manifest`, `run`
(a folder), `large` (one of ten million samples), `merging` (one folder of several).
"""

from making.large import large
from making.manifest import Skip
from making.merging import merge
from making.quantities import Calls, Effect, Events, Place, Reads, Sleeps
from making.run import folder

__all__ = [
    "Calls",
    "Effect",
    "Events",
    "Place",
    "Reads",
    "Skip",
    "Sleeps",
    "folder",
    "large",
    "merge",
]
