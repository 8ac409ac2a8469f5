"""Which units tests may take as independent."""

from pathlib import Path

import making
import numpy as np
import pytest

import eigentime_report as report
from eigentime_report.results.cell import of_values


def made(
    path: Path, quantity: making.Calls | making.Reads | making.Sleeps, blocks: int
) -> report.Cell:
    """The only cell of a folder."""
    kinds = {making.Calls: "calls", making.Reads: "reads", making.Sleeps: "sleeps"}
    said = {kinds[type(quantity)]: [quantity]}
    folder = making.folder(path / "run", levels=["here"], blocks=blocks, **said)  # type: ignore[arg-type]
    results = report.load(folder)
    [cell] = results.cells(results.quantities[0])
    return cell


def test_blocks_where_there_are_five(tmp_path: Path) -> None:
    cell = made(tmp_path, making.Calls("gettimeofday", 100, sd=3, records=53), 5)
    units = cell.replicates
    assert (units.unit, units.count, units.blocks) == ("block", 5, 5)
    assert list(units.block) == [0, 1, 2, 3, 4]
    for block in range(5):
        own = cell.values[cell.blocks == block]
        assert len(own) == (11 if block < 3 else 10)
        assert units.mean[block] == pytest.approx(own.mean())
        assert units.median[block] == np.median(own)
        assert units.mad[block] == np.median(abs(own - np.median(own)))
        assert (units.minimum[block], units.maximum[block]) == (own.min(), own.max())
    assert "5 blocks" in units.why and "few" not in units.why


def test_records_of_calls_where_blocks_are_few(tmp_path: Path) -> None:
    cell = made(tmp_path, making.Calls("gettimeofday", 100, sd=3, records=30), 4)
    units = cell.replicates
    assert (units.unit, units.count, units.blocks) == ("record", 30, 4)
    np.testing.assert_array_equal(units.mean, cell.values)
    np.testing.assert_array_equal(units.median, cell.values)
    np.testing.assert_array_equal(units.block, cell.blocks)
    assert not units.mad.any()
    assert "fewer than 5 blocks (4)" in units.why and "30 records" in units.why


@pytest.mark.parametrize(
    ("blocks", "sleeps", "batches"),
    [
        # Up to 30 in all: 15 in each of two blocks.
        (2, 1_000, 30),
        (4, 1_000, 28),
        # At least 10 samples in each.
        (2, 100, 10),
        (2, 25, 2),
        (1, 1_000, 30),
        (1, 7, 1),
    ],
)
def test_batches_of_samples_where_blocks_are_few(
    tmp_path: Path, blocks: int, sleeps: int, batches: int
) -> None:
    quantity = making.Sleeps("epoll", 1_000_000, 60_000, sd=900, count=sleeps)
    cell = made(tmp_path, quantity, blocks)
    units = cell.replicates
    assert (units.unit, units.count, units.blocks) == ("batch", batches, blocks)
    # Each sample is in one batch, and those of a batch follow each other.
    share = batches // blocks
    for block in range(blocks):
        own = cell.values[cell.blocks == block]
        parts = np.array_split(own, share)
        np.testing.assert_allclose(units.mean[units.block == block], [it.mean() for it in parts])
        np.testing.assert_array_equal(
            units.maximum[units.block == block], [it.max() for it in parts]
        )


def test_readings_have_blocks_only(tmp_path: Path) -> None:
    cell = made(tmp_path, making.Reads("tsc", 20, sd=2, blocks=[0.0, 5.0], count=9_000), 2)
    units = cell.replicates
    assert (units.unit, units.count) == ("block", 2)
    np.testing.assert_allclose(units.mean, [20, 25], atol=0.1)
    np.testing.assert_allclose(units.median, [20, 25], atol=0.15)
    # Of a normal distribution.
    np.testing.assert_allclose(units.mad, [0.6745 * 2] * 2, atol=0.1)
    assert "few" in units.why
    with pytest.raises(ValueError, match=r"read/tsc/hot has no 'batch': its units are block"):
        cell.by("batch")


def test_a_single_block_is_compared_with_nothing(tmp_path: Path) -> None:
    units = made(tmp_path, making.Reads("tsc", 20, sd=2), 1).replicates
    assert units.count == 1
    assert "nothing is tested" in units.why


def test_blocks_that_were_measured_again_later_are_found() -> None:
    values = np.array([1.0, 2.0, 10.0, 20.0, 3.0])
    blocks = np.array([0, 0, 1, 1, 0], dtype=np.int32)
    units = of_values(values, blocks, "block")
    assert list(units.block) == [0, 1]
    assert list(units.mean) == [2.0, 15.0]
