"""The report of a whole run: as Markdown, and as JSON with every sample."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from eigenbench.levels import Level
from eigenbench.machine import Machine
from eigenbench.samples import Probe, Samples
from eigenbench.suites import Suite
from eigenbench.table import level_table, machine_table, suite_table, target_table
from eigenbench.targets import Verdict, verdicts

JSON_SCHEMA = 3

# A counter whose rate changed by more during the run is no measure of time.
COUNTER_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Report:
    """The results of a run."""

    machine: Machine
    peers: Mapping[str, str]
    load_after: str
    counter_drift: float
    quick: bool
    duration_s: float
    suites: Sequence[Suite]
    by_key: Mapping[str, Level]
    samples: Samples

    @property
    def probes(self) -> dict[str, Probe]:
        """All probes of the run, by key."""
        return {probe.key: probe for suite in self.suites for probe in suite.probes}

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on the targets of what was measured."""
        return list(verdicts(self.samples, self.probes))

    def markdown(self) -> str:
        """The tables, with the targets first."""
        parts = [machine_table(self.machine, self.peers, self.load_after)]
        parts += [f"{warning}\n" for warning in self.warnings()]
        parts.append(level_table(self.by_key, self._used_levels()))
        if self.verdicts:
            parts.append(target_table(self.verdicts, self.probes, self.by_key))
        parts += [
            suite_table(suite, self.by_key, self.samples) for suite in self.suites
        ]
        return "\n".join(parts)

    def _used_levels(self) -> list[str]:
        used = {key for suite in self.suites for key in suite.levels}
        return [key for key in self.by_key if key in used]

    def warnings(self) -> list[str]:
        """What makes the figures less reliable."""
        found = []
        if self.quick:
            found.append("A quick run: few rounds, for a first look only.")
        if self.counter_drift > COUNTER_TOLERANCE:
            found.append(
                f"The processor's counter changed its rate by "
                f"{self.counter_drift:.2%} during the run: no figure can be trusted."
            )
        return found

    def json(self) -> dict[str, object]:
        """Every sample, with the information needed to read it."""
        return {
            "schema": JSON_SCHEMA,
            "machine": asdict(self.machine),
            "peers": dict(self.peers),
            "load_after": self.load_after,
            "counter_drift": self.counter_drift,
            "quick": self.quick,
            "duration_s": round(self.duration_s, 1),
            "levels": [
                {
                    "key": level.key,
                    "title": level.title,
                    "command": level.typed,
                    "absent": level.absent,
                }
                for level in self.by_key.values()
            ],
            "samples": [
                {
                    "suite": suite.name,
                    "probe": probe.key,
                    "level": key,
                    "unit": probe.unit.base,
                    "reason": self.samples.reason(probe.key, key),
                    "rounds": [
                        {"round": number, "part": part, "value": value}
                        for (number, part), value in self.samples.of(
                            probe.key, key
                        ).items()
                    ],
                }
                for suite in self.suites
                for probe in suite.probes
                for key in suite.levels
            ],
            "targets": [
                {
                    "title": verdict.target.title,
                    "probe": verdict.probe,
                    "level": verdict.level,
                    "limit": verdict.target.limit,
                    "base": verdict.target.base,
                    "beside": verdict.target.beside,
                    "at_least": verdict.target.at_least,
                    "added": verdict.target.added,
                    "percent": verdict.target.percent,
                    "figure": verdict.target.figure.name.lower(),
                    "measured": verdict.measured and asdict(verdict.measured),
                    "counted": verdict.counted,
                    "interval": verdict.interval,
                    "outcome": verdict.outcome.value,
                    "reason": verdict.reason,
                }
                for verdict in self.verdicts
            ],
        }
