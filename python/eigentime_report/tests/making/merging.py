"""One folder of several, as `eigentime bench merge` makes it."""

import json
from pathlib import Path

import polars as pl

from making import manifest
from making.tables import ROW_GROUP, TABLES


def merge(out: Path | str, *folders: Path) -> Path:
    """Write all rows and all runs of these folders to a new one."""
    out = Path(out)
    out.mkdir(parents=True)
    for name in TABLES:
        tables = [pl.read_parquet(folder / f"{name}.parquet") for folder in folders]
        pl.concat(tables).write_parquet(
            out / f"{name}.parquet", compression="snappy", row_group_size=ROW_GROUP
        )
    said = [json.loads((folder / "manifest.json").read_text("utf-8")) for folder in folders]
    manifest.write(out, [run for each in said for run in each["runs"]])
    return out
