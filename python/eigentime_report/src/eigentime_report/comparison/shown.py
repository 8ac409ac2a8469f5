"""Changes and outcomes as tables, as a forest plot and as plain sentences."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import TypeAlias

from eigentime_report import charts
from eigentime_report.basics import grouped, listed
from eigentime_report.comparison.changes import AFTER, BEFORE, Change, Changes, middles
from eigentime_report.comparison.judgement import Judgement
from eigentime_report.conclusions import Family, Sentence, clauses, places, wording
from eigentime_report.conclusions.measured import ABOUT as TRUST
from eigentime_report.conclusions.wording import DECIDED, capital
from eigentime_report.results.cell import ENOUGH_BLOCKS, things
from eigentime_report.statistics import HEDGES_G, NOT_TESTED
from eigentime_report.tables import Row, Table
from eigentime_report.tables.table import tabled, topic
from eigentime_report.verdicts import FEWEST_ROUNDS

WHAT = {"mean": "mean", "median": "mean of medians", "sd": "mean of SDs"}

# The key of the table of outcomes.
CONDITIONS = "conditions"

# Descriptions of circumstances whose names say too little.
CALLED = {"eigentime": "version of Eigentime", "probe": "measuring program"}


def key(kind: str) -> str:
    """The key of the table of a kind."""
    return f"changes-{kind}"


def changes_table(changes: Changes, kind: str) -> Table:
    """Before, after and the difference for all quantities of a kind, with tests."""
    own = changes.of(kind)
    return tabled(
        "changes",
        ((_thing(it), it.quantity.name) for it in own),
        before=(*dict.fromkeys(it.why for it in own), *_untested(own)),
        kind=kind,
        chance=round(1 / (1 - changes.confidence)),
        confidence=100 * changes.confidence,
    )


def _thing(change: Change) -> SimpleNamespace:
    """A change with its row's other data; one disturbed block does not move medians of all
    values."""
    before, after = middles(change.comparison)
    return SimpleNamespace(
        change=change,
        pair=change.pair,
        statistic=WHAT[change.statistic] + (" miss time" if change.quantity.asked_ns else ""),
        before=before,
        after=after,
        median_before=change.medians[0],
        median_after=change.medians[1],
        g=change.pair.effect(HEDGES_G),
    )


def _untested(changes: Sequence[Change]) -> Iterator[str]:
    """Why something was not tested: a note for each reason."""
    untested = (it for it in changes if it.pair.verdict == NOT_TESTED)
    reasons = grouped((it.pair.because, f"{it.quantity.name} at {it.held}") for it in untested)
    for reason, where in reasons.items():
        yield f"Not tested: {listed(where)}: {reason}."


def changes_chart(changes: Changes, kind: str) -> charts.Chart:
    """A forest plot of the changes of a kind."""
    title = f"{topic(kind)}: by how much they have changed"
    reading = "By how much there is more afterwards than before; the dashed line is no change."
    return charts.forest(changes.of(kind), key=f"{key(kind)}-effects", title=title, reading=reading)


def circumstances_table(changes: Changes) -> Table:
    """The compared folders, and other differences between their runs."""
    both = (changes.before, changes.after)
    known = (
        ("folder", *(", ".join(map(str, it.folders)) for it in both)),
        ("begun", *(", ".join(run.begin for run in it.runs) for it in both)),
        *changes.circumstances,
    )
    return tabled("circumstances", (Row((CALLED.get(it, it), *told)) for it, *told in known))


def conditions_table(judgements: Sequence[Judgement]) -> Table:
    """The outcome of each condition, wherever it was judged."""
    rows = (
        (SimpleNamespace(judged=it, condition=it.condition.text.strip()), it.condition.text)
        for it in judgements
    )
    return tabled(CONDITIONS, rows)


Place: TypeAlias = tuple[str, str]

# First of all come too few blocks on a side to distinguish a change from drift, or to do so well,
# and machines that were otherwise busy.
UNDECIDABLE = "nothing is decided from so few"
UNSURE = "what drifts between runs may look like a change, and intervals are wide"
BUSY = "others kept the processors"

# The weight of a sentence: few blocks, busy machines and different programs come first; each family
# by its own weight, less at other levels and loads than the first, especially without a change, and
# less if little was found.
FEW_BLOCKS = 130
OTHERS_BUSY = 120
OTHER_PROBE = 110
OTHER_PLACE = 10
UNCHANGED_THERE = 45
NOTHING_FOUND = 12
PLAIN_THERE = 60
NOTED = 40


def changes_sentences(changes: Changes) -> list[Sentence]:
    """A sentence for each family at each level and load, and the reasons for doubt."""
    sentences = [*_circumstances(changes), *_by_family(changes)]
    return sorted(sentences, key=lambda sentence: -sentence.weight)


def _circumstances(changes: Changes) -> Iterator[Sentence]:
    if few := [it for it in changes.changes if min(it.sides) < ENOUGH_BLOCKS]:
        yield Sentence(_few_blocks(few, len(changes.changes)), "circumstances", FEW_BLOCKS)
    if "probe" in {name for name, _, _ in changes.circumstances}:
        yield Sentence(
            "Before and afterwards were measured by different builds of eigentime-probe: what "
            "differs may be theirs. `eigentime bench --probe FILE` measures by the same.",
            "circumstances",
            OTHER_PROBE,
            TRUST,
        )
    notes = [
        f"{when}: {note.rstrip('.:; ')}."
        for results, when in ((changes.before, "Before"), (changes.after, "Afterwards"))
        for note in results.notes
    ]
    for text in (*notes, *changes.unmatched):
        weight, about = (OTHERS_BUSY, "") if BUSY in text else (NOTED, TRUST)
        yield Sentence(text, "circumstances", weight, about)


def _few_blocks(few: Sequence[Change], of: int) -> str:
    fewest = min(few, key=lambda it: min(it.sides))
    before, after = fewest.sides
    some = "" if len(few) == of else f" ({fewest.quantity.name})"
    least = [min(sides) for sides in zip(*(it.sides for it in few), strict=True)]
    names = ("what is from before", "what is from afterwards")
    needy = [it for it, n in zip(names, least, strict=True) if n < ENOUGH_BLOCKS]
    meaning = UNDECIDABLE if min(fewest.sides) < FEWEST_ROUNDS else UNSURE
    return (
        f"There are {things(before, 'block')} before and {after} afterwards{some}: {meaning}. "
        f"Measure {'both' if len(needy) > 1 else needy[0]} again by `eigentime bench --blocks "
        f"{ENOUGH_BLOCKS}` or more."
    )


def _by_family(changes: Changes) -> Iterator[Sentence]:
    groups = grouped((wording.family_of(it.quantity), it) for it in changes.changes)
    for family, its in groups.items():
        yield from _plainly(family, [it for it in its if not it.is_decidable], changes)
        if decidable := [it for it in its if it.is_decidable]:
            yield from _of_family(family, decidable, changes)


def _plainly(family: Family, its: Sequence[Change], changes: Changes) -> Iterator[Sentence]:
    """The measurements without a decision: an interval would be mistaken for an answer."""
    at = grouped(((it.level, it.load), it) for it in its)
    for number, (place, own) in enumerate(at.items()):
        sides = zip(*(middles(it.comparison) for it in own), strict=True)
        amount = family.measure.amount
        before, after = (amount.format(clauses.DURATION.reach(side)) for side in sides)
        many = len(own) > 1
        subject = family.counted(len(own)) if many else own[0].quantity.title
        yield Sentence(
            f"{_opening([place], len(at), changes)}, {subject} {family.measure.verb[many]} "
            f"{before} before, and {after} afterwards.",
            key(family.kind),
            family.weight - (PLAIN_THERE if number else 0),
            family.key,
        )


def _of_family(family: Family, its: Sequence[Change], changes: Changes) -> Iterator[Sentence]:
    """One sentence for all levels and loads with the same change, and others for the rest."""
    tested = [wording.finding(it, AFTER) for it in its]
    judged = wording.beyond_chance(tested, 1 - changes.confidence)
    at = grouped(((it.level, it.load), each) for it, each in zip(its, judged, strict=True))
    alike = grouped(
        (tuple((it.quantity.name, it.verdict) for it in own), place) for place, own in at.items()
    )
    first = next(iter(at))
    for signature, where in alike.items():
        verdicts = {verdict for _, verdict in signature}
        elsewhere = OTHER_PLACE if verdicts & {*DECIDED} else UNCHANGED_THERE
        is_silent = verdicts <= {"undecided", "untested"}
        findings = [at[place] for place in where]
        told = clauses.clauses(family, findings, changes.same_within, BEFORE)
        yield Sentence(
            f"{_opening(where, len(at), changes)}, {told}.",
            key(family.kind),
            family.weight
            - (0 if first in where else elsewhere)
            - (NOTHING_FOUND if is_silent else 0),
            family.key,
        )


def _opening(where: Sequence[Place], of: int, changes: Changes) -> str:
    """`On the host, when idle`; for several places, whether these are all of them."""
    if len(where) == of > 1:
        levels, loads = ({place[at] for place in where} for at in (0, 1))
        parts = ["at all levels"] if len(levels) > 1 else []
        parts += ["under all loads"] if len(loads) > 1 else []
        return capital(" and ".join(parts))
    named = [
        f"{places.level(level, changes.after).there}, {places.load(load).there}"
        for level, load in where
    ]
    return capital("; ".join(named))
