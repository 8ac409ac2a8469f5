"""Two sets of results compared, and conditions that they must meet.

    changes = compare_results(load("before"), load("after"))
    judge([parse("vdso_clock_gettime_monotonic > +5%")], load("before"), load("after"))

Read in this order: `changes` (one statistic in two cells, and all of two sets), `judgement` (the
conditions of `--fail-if` and their outcomes) and `shown` (tables, a chart and sentences).
"""

from eigentime_report.comparison.changes import Change, Changes, ComparisonError, compare_results
from eigentime_report.comparison.judgement import (
    Condition,
    ConditionError,
    Judgement,
    Outcome,
    judge,
    parse,
)
from eigentime_report.comparison.shown import CONDITIONS, changes_table

__all__ = [
    "CONDITIONS", "Change", "Changes", "ComparisonError", "Condition", "ConditionError", "Judgement",
    "Outcome", "changes_table", "compare_results", "judge", "parse",
]  # fmt: skip
