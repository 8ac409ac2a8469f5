"""Verdicts: reached, missed, undecided, or the reason why there is none."""

import unittest

from eigenbench import bandwidth, bounds, levels, members, sleeps
from eigenbench.samples import Samples
from eigenbench.targets import Outcome, Verdict, undecided, verdicts

ROUNDS = 5


def verdict(samples: Samples, probe: str, level: str) -> Verdict:
    """The first verdict for that probe and level."""
    return next(v for v in verdicts(samples, {probe}) if v.level == level)


def add(samples: Samples, probe: str, level: str, value: float) -> None:
    """The same value in each round."""
    for number in range(ROUNDS):
        samples.add(probe, level, number, value)


class Verdicts(unittest.TestCase):
    def test_a_ratio_within_its_limit_is_reached(self) -> None:
        samples = Samples()
        add(samples, "realtime", levels.NAMESPACE, 20.0)
        add(samples, "realtime", levels.OFFSET, 21.0)
        self.assertIs(
            verdict(samples, "realtime", levels.OFFSET).outcome, Outcome.REACHED
        )

    def test_a_ratio_above_its_limit_is_missed(self) -> None:
        samples = Samples()
        add(samples, "spawn", levels.HOST, 500.0)
        add(samples, "spawn", levels.RATE_10, 1300.0)
        self.assertIs(verdict(samples, "spawn", levels.RATE_10).outcome, Outcome.MISSED)

    def test_a_limit_without_a_base_is_in_nanoseconds(self) -> None:
        samples = Samples()
        add(samples, "poll", levels.RATE_10_TRAPPED, 15_001.0)
        found = verdict(samples, "poll", levels.RATE_10_TRAPPED)
        self.assertIs(found.outcome, Outcome.MISSED)

    def test_a_probe_may_be_held_against_another(self) -> None:
        samples = Samples()
        add(samples, "realtime", levels.HOST, 25.0)
        add(samples, "raw-realtime", levels.RATE_10, 45.0)
        found = verdict(samples, "raw-realtime", levels.RATE_10)
        assert found.measured is not None
        self.assertEqual((found.measured.median, found.outcome), (1.8, Outcome.REACHED))

    def test_of_what_is_better_if_it_is_more_there_has_to_be_so_much(self) -> None:
        samples = Samples()
        add(samples, "redis-get-1", levels.HOST, 40_000.0)
        add(samples, "redis-get-1", levels.RATE_10, 35_000.0)
        add(samples, "redis-get-20", levels.HOST, 40_000.0)
        add(samples, "redis-get-20", levels.RATE_10, 39_000.0)
        self.assertIs(
            verdict(samples, "redis-get-1", levels.RATE_10).outcome, Outcome.MISSED
        )
        self.assertIs(
            verdict(samples, "redis-get-20", levels.RATE_10).outcome, Outcome.REACHED
        )

    def test_a_missing_level_gives_its_reason(self) -> None:
        samples = Samples()
        add(samples, "realtime", levels.NAMESPACE, 20.0)
        samples.explain("realtime", levels.OFFSET, "not built")
        found = verdict(samples, "realtime", levels.OFFSET)
        self.assertEqual(
            (found.outcome, found.reason), (Outcome.UNMEASURED, "not built")
        )

    def test_a_missing_base_gives_the_reason_of_the_base(self) -> None:
        samples = Samples()
        add(samples, "realtime", levels.OFFSET, 20.0)
        samples.explain("realtime", levels.NAMESPACE, "not permitted")
        found = verdict(samples, "realtime", levels.OFFSET)
        self.assertEqual(
            (found.outcome, found.reason), (Outcome.UNMEASURED, "not permitted")
        )

    def test_a_named_timeline_is_held_against_the_private_one(self) -> None:
        samples = Samples()
        for level, value in (
            (levels.RATE_10, 20.0),
            (levels.NAMED_RATE, 21.5),
            (levels.RATE_10_ONE_CPU, 10.0),
            (levels.NAMED_RATE_ONE_CPU, 10.4),
        ):
            add(samples, "named/poll", level, value)
        far = verdict(samples, "named/poll", levels.NAMED_RATE)
        near = verdict(samples, "named/poll", levels.NAMED_RATE_ONE_CPU)
        self.assertEqual((far.outcome, near.outcome), (Outcome.MISSED, Outcome.REACHED))

    def test_every_value_of_a_round_counts(self) -> None:
        samples = Samples()
        for number in range(ROUNDS):
            for part, value in enumerate((4e6, 6e6, 7e6)):
                samples.add("change-100/command", levels.CHANGED, number, value, part)
        found = verdict(samples, "change-100/command", levels.CHANGED)
        assert found.measured is not None
        self.assertEqual(
            (found.measured.n, found.outcome), (3 * ROUNDS, Outcome.MISSED)
        )

    def test_what_many_cost_is_held_against_what_fewer_do(self) -> None:
        samples = Samples()
        for what, many in ((members.START, 149.0), (members.END, 151.0)):
            add(samples, f"members/1000{what}", levels.RATE_10, 100.0)
            add(samples, f"members/10000{what}", levels.RATE_10, many)
        start = verdict(samples, f"members/10000{members.START}", levels.RATE_10)
        end = verdict(samples, f"members/10000{members.END}", levels.RATE_10)
        self.assertEqual(
            (start.outcome, end.outcome), (Outcome.REACHED, Outcome.MISSED)
        )

    def test_a_single_wake_up_in_most_rounds_is_one_too_many(self) -> None:
        for woken, outcome in ((0.0, Outcome.REACHED), (0.1, Outcome.MISSED)):
            samples = Samples()
            add(samples, members.IDLE_MEMBERS, levels.CHANGED, woken)
            found = verdict(samples, members.IDLE_MEMBERS, levels.CHANGED)
            self.assertIs(found.outcome, outcome)

    def test_what_is_added_is_the_difference_within_rounds(self) -> None:
        samples = Samples()
        pairs = ((40e6, 72e6), (80e6, 113e6), (60e6, 92.5e6))
        for number, (bare, wrapped) in enumerate(pairs):
            samples.add("create/runc-2", levels.CONTAINER, number, bare)
            samples.add("create/runc-2", levels.CONTAINER_DATE, number, wrapped)
        found = verdict(samples, "create/runc-2", levels.CONTAINER_DATE)
        assert found.measured is not None
        self.assertEqual(
            (found.measured.median, found.outcome), (32.5e6, Outcome.MISSED)
        )

    def test_a_percentile_is_of_each_round(self) -> None:
        samples = Samples()
        for number in range(3):
            for part, miss in enumerate((100.0, 110.0, 5000.0)):
                samples.add("sleep/1000/idle", sleeps.OURS, number, miss, part)
                samples.add("sleep/1000/idle", sleeps.STD, number, 6 * miss, part)
        found = list(verdicts(samples, {"sleep/1000/idle"}))
        middle = next(it for it in found if it.target.percent == 50)
        self.assertEqual((middle.counted, middle.outcome), (110.0, Outcome.REACHED))
        fifth = next(it for it in found if it.target.base == sleeps.STD)
        self.assertIs(fifth.outcome, Outcome.REACHED)

    def of_readings(self, *rounds: tuple[float, int]) -> Verdict:
        samples = Samples()
        for turn, (share, readings) in enumerate(rounds):
            samples.add("pause/worst", bounds.BOUND_LEVEL, turn, share)
            key = f"pause/worst{bounds.READINGS}"
            samples.add(key, bounds.BOUND_LEVEL, turn, readings)
        return verdict(samples, "pause/worst", bounds.BOUND_LEVEL)

    def test_a_share_of_few_readings_is_undecided(self) -> None:
        for readings, outcome in (
            (0, Outcome.UNDECIDED),
            (168, Outcome.UNDECIDED),
            (3_680, Outcome.UNDECIDED),
            (3_700, Outcome.REACHED),
        ):
            found = self.of_readings((0.0, readings))
            self.assertEqual((found.counted, found.outcome), (0.0, outcome))
        found = self.of_readings((50.0, 168))
        self.assertIs(found.outcome, Outcome.MISSED)

    def test_a_share_is_of_the_readings_of_all_rounds(self) -> None:
        found = self.of_readings((0.0, 9_000), (0.0, 9_000), (0.1, 2_000))
        self.assertEqual((found.counted, found.outcome), (0.01, Outcome.REACHED))
        found = self.of_readings((0.0, 1_000), (1.0, 1_000))
        self.assertEqual((found.counted, found.outcome), (0.5, Outcome.MISSED))

    def test_of_an_unknown_number_of_readings_nothing_is_decided(self) -> None:
        samples = Samples()
        add(samples, "bound/idle/all", bounds.BOUND_LEVEL, 0.0)
        found = verdict(samples, "bound/idle/all", bounds.BOUND_LEVEL)
        self.assertIs(found.outcome, Outcome.UNDECIDED)

    def test_where_the_spread_counts_it_is_the_mad(self) -> None:
        samples = Samples()
        probe = "bandwidth/1000/500/error"
        for number, error in enumerate((-0.5, 3.0, 4.0, 4.5, 9.0)):
            samples.add(probe, bandwidth.PRECISE, number, error)
        found = next(verdicts(samples, {probe}))
        self.assertEqual((found.counted, found.outcome), (1.0, Outcome.UNDECIDED))

    def test_a_limit_within_the_interval_is_undecided(self) -> None:
        samples = Samples()
        add(samples, "spawn", levels.HOST, 100.0)
        for number, value in enumerate((110.0, 120.0, 126.0, 130.0, 150.0)):
            samples.add("spawn", levels.RATE_10, number, value)
        found = verdict(samples, "spawn", levels.RATE_10)
        assert found.interval is not None
        low, high = found.interval
        self.assertTrue(low < found.target.limit < high)
        self.assertIs(found.outcome, Outcome.UNDECIDED)
        self.assertTrue(undecided(samples, {"spawn"}))

    def test_one_round_decides_nothing(self) -> None:
        samples = Samples()
        samples.add("poll", levels.RATE_10_TRAPPED, 0, 1.0)
        found = verdict(samples, "poll", levels.RATE_10_TRAPPED)
        self.assertIs(found.outcome, Outcome.UNDECIDED)

    def test_what_was_not_part_of_the_run_has_no_verdict(self) -> None:
        self.assertEqual(list(verdicts(Samples(), {"getppid"})), [])


if __name__ == "__main__":
    unittest.main()
