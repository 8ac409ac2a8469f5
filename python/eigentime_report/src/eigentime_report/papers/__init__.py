"""What the papers have published, to stand beside what was measured here."""

from eigentime_report.papers.published import (
    Event,
    Metric,
    Overhead,
    Pair,
    PostHoc,
    Side,
    Source,
    Timing,
    TimingRow,
    events,
    overhead,
    pairs,
    timing,
)

__all__ = [
    "Event",
    "Metric",
    "Overhead",
    "Pair",
    "PostHoc",
    "Side",
    "Source",
    "Timing",
    "TimingRow",
    "events",
    "overhead",
    "pairs",
    "timing",
]
