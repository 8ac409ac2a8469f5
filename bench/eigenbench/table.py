"""The results as Markdown."""

from collections.abc import Iterable, Mapping, Sequence

from eigenbench.columns import NOTHING, digits
from eigenbench.levels import Level
from eigenbench.machine import Machine
from eigenbench.samples import Probe, Samples
from eigenbench.stats import Summary, summarize
from eigenbench.suites import Suite
from eigenbench.targets import Outcome, Verdict


def markdown(header: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> str:
    """A table, padded to be readable as text; `align` has l or r for each column."""
    cells = [list(header), *map(list, rows)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    rule = [
        "-" * (width - 1) + ":" if side == "r" else "-" * width
        for side, width in zip(align, widths, strict=True)
    ]
    lines = (_line(row, align, widths) for row in (cells[0], rule, *cells[1:]))
    return "\n".join(lines)


def machine_table(machine: Machine, peers: Mapping[str, str], load_after: str) -> str:
    """The machine and the peers' versions."""
    rows = [
        ["processor", f"{machine.cpu}, {machine.cores} cores, {machine.architecture}"],
        ["kernel", f"Linux {machine.kernel}"],
        ["clocksource", f"{machine.clocksource}, counter at {machine.counter}"],
        ["autogroup", machine.autogroup],
        ["virtualized", machine.virtualized],
        ["load average", f"{machine.load_before} before, {load_after} after"],
        ["date", machine.date],
        *map(list, peers.items()),
    ]
    return f"### The machine\n\n{markdown(['what', 'which'], 'll', rows)}\n"


def level_table(by_key: Mapping[str, Level], keys: Iterable[str]) -> str:
    """The names of the levels, and what a user would type for them."""
    rows = [
        [by_key[key].title, f"`{by_key[key].typed}`" if by_key[key].typed else NOTHING]
        for key in keys
    ]
    return f"### The levels\n\n{markdown(['level', 'command'], 'll', rows)}\n"


def target_table(
    verdicts: Iterable[Verdict],
    probes: Mapping[str, Probe],
    by_key: Mapping[str, Level],
) -> str:
    """The targets: the goal, the measurement, and whether it is reached."""
    rows = []
    before = None
    for verdict in verdicts:
        title = "" if verdict.target is before else verdict.target.title
        before = verdict.target
        probe = probes[verdict.probe]
        level = by_key[verdict.level].title
        rows.append([title, probe.title, level, *_judged(verdict, probe)])
    header = ["target", "call", "level", "measured", "95 %", "min – max", "verdict"]
    return f"### Targets\n\n{markdown(header, 'lllrrrl', rows)}\n"


def suite_table(suite: Suite, by_key: Mapping[str, Level], samples: Samples) -> str:
    """A suite's heading, note and figures: a row for each probe and level."""
    header = ["what", "level", "median", "MAD", "min – max"]
    header += [*(column.heading for column in suite.columns), "n"]
    rows = []
    for probe in (probe for probe in suite.probes if probe.row):
        shown = f"{probe.title}, {probe.unit.symbol}"
        for key in suite.levels:
            figures = _figures(suite, probe, key, samples)
            rows.append([shown, by_key[key].title, *figures])
            shown = ""
    table = markdown(header, "ll" + "r" * (len(header) - 2), rows)
    return f"### {suite.title}\n\n{suite.note}\n\n{table}\n"


def _figures(suite: Suite, probe: Probe, key: str, samples: Samples) -> list[str]:
    own = samples.of(probe.key, key)
    summary = summarize(own.values())
    reason = _escaped(samples.reason(probe.key, key))
    if summary is None:
        nothing = [NOTHING] * (2 + len(suite.columns))
        return [reason or "no time left", *nothing, "0"]
    scale = probe.unit.scale
    places = digits(summary.median / scale)
    return [
        f"{summary.median / scale:.{places}f}",
        f"{summary.mad / scale:.{places}f}",
        _span(summary, scale, places),
        *(column.figure(probe, key, samples) for column in suite.columns),
        f"{summary.n}, then {reason}" if reason else str(summary.n),
    ]


def _judged(verdict: Verdict, probe: Probe) -> list[str]:
    measured = verdict.measured
    if measured is None or verdict.counted is None:
        return [_escaped(verdict.reason), NOTHING, NOTHING, verdict.outcome.value]
    if verdict.target.is_multiple:
        # One digit more than the limits have: 1.104 is more than 1.10.
        scale, places, symbol = 1.0, 3, "×"
    else:
        scale, places, symbol = probe.unit.scale, 2, probe.unit.symbol
    middle = f"{verdict.counted / scale:.{places}f} {symbol}"
    outcome = verdict.outcome.value
    if verdict.outcome is not Outcome.REACHED:
        outcome = f"**{outcome}**"
    between = NOTHING
    if verdict.interval is not None:
        low, high = (f"{end / scale:.{places}f}" for end in verdict.interval)
        between = f"{low} – {high}"
    return [middle, between, _span(measured, scale, places), outcome]


def _span(summary: Summary, scale: float, places: int) -> str:
    low, high = summary.low / scale, summary.high / scale
    return f"{low:.{places}f} – {high:.{places}f}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _line(cells: Sequence[str], align: str, widths: Sequence[int]) -> str:
    padded = (
        cell.rjust(width) if side == "r" else cell.ljust(width)
        for cell, side, width in zip(cells, align, widths, strict=True)
    )
    return f"| {' | '.join(padded)} |"
