"""Markdown: aligned columns, and no row that is silently missing."""

import unittest
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eigenbench import levels
from eigenbench.columns import BESIDE_PEERS, Column
from eigenbench.levels import Level
from eigenbench.processes import Deadline
from eigenbench.samples import NANOSECONDS, Probe, Samples
from eigenbench.suites import Effort, Efforts, Outcome
from eigenbench.table import markdown, suite_table


@dataclass(frozen=True)
class TwoLevels:
    """A suite that measures nothing."""

    name: str = "reads"
    title: str = "Reads"
    note: str = "None."
    probes: tuple[Probe, ...] = (Probe("read", "`read`", NANOSECONDS),)
    levels: tuple[str, ...] = (levels.HOST, levels.RATE_10)
    columns: tuple[Column, ...] = BESIDE_PEERS
    efforts: Efforts = Efforts(Effort(1, 1), Effort(1, 1))  # noqa: RUF009

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """Nothing."""
        raise NotImplementedError((level, wanted, deadline))


BY_KEY = {
    levels.HOST: Level(levels.HOST, "host", "", ((),)),
    levels.RATE_10: Level(levels.RATE_10, "fast", "run fast", (("fast",),)),
}


class Tables(unittest.TestCase):
    def test_columns_line_up(self) -> None:
        table = markdown(["name", "n"], "lr", [["a", "1"], ["longer", "20"]])
        self.assertEqual(
            table.splitlines(),
            [
                "| name   |   n |",
                "| ------ | --: |",
                "| a      |   1 |",
                "| longer |  20 |",
            ],
        )

    def test_figures_keep_three_digits_and_the_paired_ratio(self) -> None:
        samples = Samples()
        for number, slow in enumerate((1.0, 2.0, 1.0)):
            samples.add("read", levels.HOST, number, 20.0 * slow)
            samples.add("read", levels.RATE_10, number, 25.0 * slow)
        row = suite_table(TwoLevels(), BY_KEY, samples).splitlines()[-1]
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        self.assertEqual(
            cells, ["", "fast", "25.0", "0.0", "25.0 – 50.0", "1.25", "–", "3"]
        )

    def test_what_is_shown_in_columns_only_has_no_row(self) -> None:
        beside = Probe("read/share", "`read`", NANOSECONDS, row=False)
        suite = TwoLevels(probes=(*TwoLevels().probes, beside))
        rows = suite_table(suite, BY_KEY, Samples()).splitlines()
        self.assertEqual(sum("no time left" in row for row in rows), 2)

    def test_a_level_without_figures_says_why(self) -> None:
        samples = Samples()
        samples.explain("read", levels.RATE_10, "not built")
        rows = suite_table(TwoLevels(), BY_KEY, samples).splitlines()
        self.assertIn("no time left", rows[-2])
        self.assertIn("not built", rows[-1])

    def test_rounds_without_a_value_say_why_if_none_has_one(self) -> None:
        samples = Samples()
        for reason in "sender", "time", "sender":
            samples.leave_out("read", levels.HOST, reason)
            samples.leave_out("read", levels.RATE_10, reason)
        samples.add("read", levels.RATE_10, 3, 25.0)
        rows = suite_table(TwoLevels(), BY_KEY, samples).splitlines()
        self.assertIn("| sender ", rows[-2])
        self.assertTrue(rows[-1].endswith("|   1 |"), rows[-1])

    def test_a_level_that_failed_later_says_so(self) -> None:
        samples = Samples()
        samples.add("read", levels.RATE_10, 0, 25.0)
        samples.explain("read", levels.RATE_10, "timed out")
        row = suite_table(TwoLevels(), BY_KEY, samples).splitlines()[-1]
        self.assertTrue(row.endswith("| 1, then timed out |"))


if __name__ == "__main__":
    unittest.main()
