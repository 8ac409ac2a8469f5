"""Two sets of results compared, and conditions that they must meet.

    changes = compare_results(load("before"), load("after"))
    judge([parse("vdso_clock_gettime_monotonic > +5%")], load("before"), load("after"))

Read in this order: `shifts` (one statistic in two cells), `changes` (all of two sets),
`shown` and `sentences` (how they are shown), `conditions` (what `--fail-if` may say) and `judgement`.
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
from eigentime_report.comparison.shown import (
    CONDITIONS,
    changes_chart,
    changes_sentences,
    changes_table,
    circumstances_table,
    conditions_table,
)

__all__ = [
    "CONDITIONS",
    "Change",
    "Changes",
    "ComparisonError",
    "Condition",
    "ConditionError",
    "Judgement",
    "Outcome",
    "changes_chart",
    "changes_sentences",
    "changes_table",
    "circumstances_table",
    "compare_results",
    "conditions_table",
    "judge",
    "parse",
]
