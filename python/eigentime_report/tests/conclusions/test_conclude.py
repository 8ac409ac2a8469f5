"""Conclusions are right: of known effects, of none, and of what could not be measured."""

import re
from collections.abc import Iterable
from pathlib import Path

import making
import polars as pl
import pytest

from eigentime_report import load
from eigentime_report.analysis import analyse
from eigentime_report.conclusions import MAIN, Sentence, conclude
from eigentime_report.report import every_table
from eigentime_report.results import Results

VDSO = ("vdso_clock_gettime_boottime", "vdso_clock_gettime_monotonic", "vdso_gettimeofday")
LEVELS = ("baseline", "namespace", "container")


def said(results: Results) -> list[Sentence]:
    """All sentences, after what must be true of all of them."""
    analysis = analyse(results)
    sentences = conclude(results, analysis)
    for sentence in sentences:
        assert sentence.text.endswith("."), sentence
        assert not re.search(r"\bnan\b|\bNone\b|\binf\b|\{|\}|  |\b1 reads|\.\.$", sentence.text), (
            sentence
        )
    weights = [sentence.weight for sentence in sentences]
    assert weights == sorted(weights, reverse=True)
    first = opening(sentences)
    assert 1 <= len(first) <= 9
    assert sum("undecided," in it.text.lower().split() for it in first) <= 1
    return sentences


def opening(sentences: Iterable[Sentence]) -> list[Sentence]:
    """What the page begins with."""
    return [it for it in sentences if it.weight >= MAIN]


def opened(sentences: Iterable[Sentence], key: str) -> str:
    """The one sentence of the opening that is linked to this table, but that of what is open."""
    told = [it for it in opening(sentences) if it.about != "open"]
    (found,) = (it for it in told if it.table_key == key)
    return found.text


def about(sentences: Iterable[Sentence], family: str, *words: str) -> str:
    """The one sentence below the opening, of a family, that has all these words."""
    found = [
        it.text
        for it in sentences
        if it.weight < MAIN and it.about == family and all(word in it.text for word in words)
    ]
    assert len(found) == 1, (family, words, found, [it.text for it in sentences])
    return found[0]


def vdso(sd: float = 0.1, **more: object) -> list[making.Calls]:
    return [making.Calls(name, 24, sd=sd, **more) for name in VDSO]  # type: ignore[arg-type]


def test_slower_reads_and_the_same_sleeps(tmp_path: Path) -> None:
    calls = vdso(levels={"namespace": 1.03, "container": 1.05})
    calls += [making.Calls(name, 1e8, sd=2e5) for name in ("nanosleep", "clock_nanosleep")]
    sentences = said(load(making.folder(tmp_path / "run", calls=calls, levels=LEVELS)))
    text = about(sentences, "vdso", "time namespace", "longer")
    assert text.startswith("In a time namespace, all 3 vDSO reads take ")
    assert " longer than on the host: +" in text
    numbers = [float(it) for it in re.findall(r"\+(\d+\.\d+) % \(", text)]
    assert len(numbers) == 2 and numbers == pytest.approx([3, 3], abs=0.4)
    low, high = map(float, re.findall(r"\(\+(\d+\.\d+) to \+(\d+\.\d+) %", text)[0])
    assert low < numbers[0] < high
    about(sentences, "vdso", "In a container, all 3 vDSO reads take", "longer")
    # 1 % of 100 ms is a lot for a sleep, which ends by so much later.
    assert "undecided" in about(sentences, "sleeps", "time namespace")
    added = opened(sentences, "pairs-calls-levels")
    # By 3 % of 24 ns.
    assert re.search(
        r"in a time namespace vDSO reads take [23]\.\d( to 3\.\d)? % \(0\.[67]\d.* ns\) longer",
        added,
    )
    assert "in a container vDSO reads take" in added


def test_levels_that_are_alike_are_told_together(tmp_path: Path) -> None:
    same = {"namespace": 1.03, "container": 1.03}
    calls = [*vdso(levels=same), making.Calls("clock_getres", 130, sd=0.1)]
    sentences = said(load(making.folder(tmp_path / "run", calls=calls, levels=LEVELS)))
    added = opened(sentences, "pairs-calls-levels")
    both = "in a time namespace and in a container"
    assert added.startswith(f"Against the host: {both} vDSO reads take ")
    assert added.count(both) == 1 and added.count("%") >= 2
    assert "clock_getres stays within 1 %" in added


def test_faster_is_said_as_faster(tmp_path: Path) -> None:
    calls = vdso(levels={"namespace": 0.9})
    text = about(said(load(making.folder(tmp_path / "run", calls=calls))), "vdso", "less time")
    assert re.search(
        r"all 3 vDSO reads take 9\.9 to 10\.0 % \(2\.4 ns\) less time than on the host: −10(\.0)? % \(",
        text,
    )
    assert "longer" not in text


@pytest.mark.parametrize("times", [1.0, 1.5])
def test_values_without_any_scatter_are_those_of_a_coarse_clock(
    tmp_path: Path, times: float
) -> None:
    calls = vdso(sd=0, levels={"namespace": times})
    results = load(making.folder(tmp_path / "run", calls=calls))
    text = about(said(results), "vdso", "time namespace", "undecided")
    assert "all 3 vDSO reads are undecided" in text
    # With the loop around it, which takes 1 ns.
    assert f"the clock steps by up to {24 * times + 1:.1f} ns" in text


def test_undecided_says_what_would_decide(tmp_path: Path) -> None:
    calls = [
        making.Calls("clock_getres", 130, records=50, steps_sd=3.0, levels={"namespace": 1.012})
    ]
    text = about(
        said(load(making.folder(tmp_path / "run", calls=calls, blocks=5))),
        "system-calls",
        "undecided",
    )
    assert "clock_getres is undecided against the host: " in text
    assert re.search(r"about \d+ times as many blocks would decide it\.$", text)
    assert re.search(r" % \(−\d.* to \+\d.* %\)", text)


def test_a_part_of_a_family(tmp_path: Path) -> None:
    calls = [
        making.Calls(VDSO[0], 24, sd=0.1, levels={"namespace": 1.5}),
        making.Calls(VDSO[1], 24, sd=0.1),
        making.Calls(VDSO[2], 24, sd=0.1, levels={"namespace": 3.0}),
    ]
    text = about(
        said(load(making.folder(tmp_path / "run", calls=calls))), "vdso", "time namespace", "2 of 3"
    )
    assert re.search(r"2 of 3 vDSO reads take 1\.\d+ to \S+ times as long as on", text)
    assert re.search(r"to (3\.0|2\.99)\d* times \(", text)
    assert "; nothing measurable changes for vdso_clock_gettime_monotonic: " in text


def test_loads_are_told_in_times(tmp_path: Path) -> None:
    sleeps = [making.Sleeps("nanosleep", 1_000_000, 60_000, sd=600, loads={"io": 4.1, "cpu": 0.9})]
    results = load(
        making.folder(
            tmp_path / "run", sleeps=sleeps, loads=("idle", "cpu", "io"), levels=["baseline"]
        )
    )
    sentences = said(results)
    text = about(sentences, "misses", "IO load")
    assert re.search(
        r"^Under IO load, nanosleep 1 ms ends 4\.\d+ times as late as when idle \(4\.\d+ to 4\.\d+ times\)\.$",
        text,
    )
    text = about(sentences, "misses", "CPU load")
    assert re.search(r"ends (9\.9|10) % \(\d\.\d µs\) less late than when idle \(−10", text)
    told = opened(sentences, "pairs-sleep-loads")
    assert re.search(r"under IO load nanosleep 1 ms ends 4\.\d times as late", told)
    assert "under CPU load nanosleep 1 ms ends " in told and "less late" in told


def test_fallback_at_one_level(tmp_path: Path) -> None:
    calls = [
        making.Calls(
            name, 24, sd=0.1, levels={"container": 5.0}, served_at={"container": "system_call"}
        )
        for name in VDSO
    ]
    sentences = said(load(making.folder(tmp_path / "run", calls=calls, levels=LEVELS)))
    text = opened(sentences, "served")
    assert text.startswith(
        "The vDSO serves all 3 clock reads on the host and in a time namespace: no read goes into "
        "the kernel; in a container, it does not serve any of the 3 clock reads: each is a system "
        "call, and takes 1"
    )
    assert re.search(
        r"(5\.0|4\.99)\d* times", about(sentences, "vdso", "In a container", "as long")
    )


def test_the_vdso_is_in_use_or_not(tmp_path: Path) -> None:
    well = said(load(making.folder(tmp_path / "run", calls=vdso())))
    assert (
        opened(well, "served")
        == "The vDSO serves all 3 clock reads on the host and in a time namespace: no read goes into the kernel."
    )
    nowhere = {"baseline": "system_call", "namespace": "system_call"}
    calls = [making.Calls(VDSO[0], 200, sd=0.1, served_at=nowhere)]
    told = opened(said(load(making.folder(tmp_path / "none", calls=calls))), "served")
    assert told.startswith(f"On the host, the vDSO does not serve {VDSO[0]}: ")
    assert "in a time namespace, it does not serve" in told


def failing(path: Path, load_name: str, part: float) -> Path:
    """The folder, with a load that loads for a part of the time only."""
    file = path / "loads.parquet"
    table = pl.read_parquet(file).with_row_index()
    fails = (pl.col("load") == load_name) & (pl.col("index") % 100 >= 100 * part)
    is_loading = pl.when(fails).then(False).otherwise(pl.col("is_loading"))
    table.with_columns(is_loading.alias("is_loading")).drop("index").write_parquet(file)
    return path


def test_nothing_is_concluded_from_a_load_that_did_not_load(tmp_path: Path) -> None:
    sleeps = [making.Sleeps("nanosleep", 1_000_000, 60_000, sd=600, levels={"namespace": 1.2})]
    path = making.folder(tmp_path / "run", sleeps=sleeps, loads=("idle", "cpu"))
    sentences = said(load(failing(path, "cpu", 0.0)))
    text = about(sentences, "trust", "level baseline", "did not load")
    assert "at 0 of 20 looks" in text and "nothing is concluded from it" in text
    assert not [it for it in sentences if it.about == "misses" and "CPU load" in it.text]
    assert "did not load: cpu (baseline)" in opened(sentences, "levels")
    assert " later " in about(sentences, "misses", "time namespace")
    assert re.search(r"\+(20|19\.\d|20\.\d) %", about(sentences, "misses", "time namespace"))


def test_one_level_and_one_load_say_what_things_cost(tmp_path: Path) -> None:
    sentences = said(load(making.folder(tmp_path / "run", calls=vdso(), levels=["baseline"])))
    assert re.fullmatch(
        r"On the host, a vDSO read takes 2[34]\.\d( to 24\.\d)? ns\.", sentences[0].text
    )
    assert sentences[0].table_key == "descriptives-calls"
    assert not [it for it in sentences if "longer" in it.text or "differ" in it.text]


def test_only_events(tmp_path: Path) -> None:
    wide = making.Effect(scatter=3.0)
    events = [making.Events("timerfd", 50_000, sd=500, count=4000, levels={"namespace": wide})]
    sentences = said(load(making.folder(tmp_path / "run", events=events)))
    text = about(sentences, "events", "times as much")
    assert "timerfd 50 µs scatters " in text
    assert "timerfd 50 µs scatter by " in opened(sentences, "events")
    assert {it.about for it in sentences} <= {"events", "trust", "assurance"}


def test_only_warps(tmp_path: Path) -> None:
    path = making.folder(tmp_path / "run", warps=["tsc", "CLOCK_MONOTONIC"])
    sentences = said(load(path))
    text = opened(sentences, "warps")
    assert text.startswith(
        "No clock went backwards in 8,000,000 readings (at 95 % confidence fewer than about 1 in 2.2 million)"
    )
    assert ": tsc and CLOCK_MONOTONIC on the host and in a time namespace." in text
    assert text.endswith("A step back would have been seen from 56.0 ns on.")


def test_a_clock_that_went_backwards_comes_first(tmp_path: Path) -> None:
    path = making.folder(
        tmp_path / "run",
        calls=vdso(levels={"namespace": 1.2}),
        warps=["tsc", "CLOCK_MONOTONIC"],
        backwards={("namespace", "tsc"): 12},
    )
    sentences = said(load(path))
    assert sentences[0].text.startswith(
        "In a time namespace, tsc went backwards: 12 of 2,000,000 readings were behind one before "
        "them (1 in 166,667; at 95 % confidence 1 in "
    )
    assert "by 70.0 ns at most" in sentences[0].text
    (text,) = (it.text for it in opening(sentences) if "Elsewhere" in it.text)
    assert text.startswith("Elsewhere, no clock went backwards in 6,000,000 readings (")
    assert ": tsc on the host, CLOCK_MONOTONIC on the host and in a time namespace." in text


def test_a_translated_machine_says_nothing_of_machines_in_general(tmp_path: Path) -> None:
    path = making.folder(
        tmp_path / "run",
        calls=vdso(levels={"vm": 40.0}),
        levels=("baseline", "vm"),
        notes={"vm": {"accelerator": "tcg"}},
    )
    sentences = said(load(path))
    assert "says nothing" not in about(sentences, "trust", "TCG")
    assert "its numbers say nothing of virtual machines in general" in about(
        sentences, "trust", "TCG"
    )
    text = about(sentences, "vdso", "In a virtual machine by TCG, all 3 vDSO reads take 40")
    assert "times as long as on the host" in text


def test_sleeps_that_readers_look_for_are_named(tmp_path: Path) -> None:
    late = {"usleep": 92, "nanosleep": 85, "timerfd": 40, "epoll": 50, "sleeper": 2}
    sleeps = [making.Sleeps(method, 1_000_000, 1_000 * us, sd=10) for method, us in late.items()]
    first = said(load(making.folder(tmp_path / "run", sleeps=sleeps)))[0].text
    assert re.search(r"ends 2\S* µs \(sleeper 1 ms\) to 92\S* µs \(usleep 1 ms\) late", first)
    assert re.search(r"late, nanosleep 1 ms 85\S* µs, timerfd 1 ms 40\S* µs \(median\)", first)


def test_chance_alone_is_no_finding(tmp_path: Path) -> None:
    """Of many that do not differ, some do by their own tests: none of them is told as a difference."""
    sleeps = [
        making.Sleeps(method, interval, 60_000, count=400, sd=3000, steps_sd=300)
        for method in ("usleep", "nanosleep", "clock_nanosleep", "timerfd", "epoll")
        for interval in (100_000, 200_000, 500_000, 1_000_000, 2_000_000)
    ]
    results = load(making.folder(tmp_path / "run", sleeps=sleeps, seed=1))
    text = about(said(results), "misses", "time namespace")
    assert "later" not in text and "less late" not in text


def test_few_blocks_are_told(tmp_path: Path) -> None:
    calls = vdso(levels={"namespace": 1.1})
    sentences = said(load(making.folder(tmp_path / "run", calls=calls, blocks=2)))
    assert about(sentences, "vdso", "longer").endswith(
        "; it was measured in 2 blocks only, whose drift may look like a difference."
    )
    text = about(sentences, "trust", "--blocks")
    assert text.startswith("The tests of calls (idle) take each record by itself")
    assert opened(sentences, "levels").startswith("These numbers are from 2 blocks")


def test_timers_that_miss_their_events_are_not_called_even(tmp_path: Path) -> None:
    """Few of its events came, and those came evenly."""
    timers = [
        making.Events(source="timerfd", interval_ns=10_000, sd=900, missed=0),
        making.Events(source="timerfd", interval_ns=50_000, sd=9, missed=4_000),
    ]
    results = load(making.folder(tmp_path / "run", events=timers, blocks=6))
    analysis = analyse(results)
    for level in ("baseline", "namespace"):
        there = {"baseline": "on the host", "namespace": "in a time namespace"}[level]
        text = about(said(results), "events", "keep", f"{there[0].upper()}{there[1:]}, ")
        assert "1 of 2 (98 %, timerfd 50 µs most) when idle" in text
    compared = [it.quantity.title for it in analysis.comparisons("events", "level")]
    assert compared == ["timerfd 10 µs"]


def test_the_opening_answers_in_order(tmp_path: Path) -> None:
    """Costs, clocks, what levels add, what loads do, how far to trust it, what is open."""
    path = making.folder(
        tmp_path / "run",
        calls=[
            *vdso(levels={"namespace": 1.03, "container": 1.03}, loads={"io": 1.5}),
            making.Calls("clock_getres", 130, steps_sd=3.0, levels={"namespace": 1.01}),
        ],
        sleeps=[
            making.Sleeps("nanosleep", 1_000_000, 80_000, sd=600, loads={"io": 4.1}),
            making.Sleeps("timerfd", 1_000_000, 40_000, sd=600, loads={"io": 4.1}),
        ],
        events=[making.Events("timerfd", 50_000, sd=500, count=4000)],
        warps=["tsc", "CLOCK_MONOTONIC"],
        levels=LEVELS,
        loads=("idle", "io"),
    )
    results = load(path)
    sentences = said(results)
    tables = {table.key for table in every_table(analyse(results))}
    assert {it.table_key for it in sentences} <= tables
    first = opening(sentences)
    keys = [it.table_key for it in first]
    assert keys == [
        "descriptives-calls",
        "descriptives-sleep",
        "events",
        "warps",
        "served",
        "pairs-calls-levels",
        "pairs-sleep-loads",
        "levels",
        "pairs-calls-levels",
    ]
    assert "a vDSO read 2" in first[0].text.replace("takes ", "")
    late = re.search(r"ends (\S+) µs \(timerfd 1 ms\) to (\S+) µs \(nano", first[1].text)
    assert late
    assert [float(it) for it in late.groups()] == pytest.approx([40, 80], rel=0.02)
    assert "under IO load sleeps end 4.1" in first[6].text
    assert first[6].text.count("times as late") == 1
    assert first[-1].text.startswith("Undecided, for want of blocks: clock_getres (intervals −")


def test_no_interval_is_below_nothing(tmp_path: Path) -> None:
    calls = [making.Calls("clock_getres", 100, sd=5, steps_sd=90, levels={"namespace": 3})]
    results = load(making.folder(tmp_path / "run", calls=calls, blocks=5, seed=3))
    for it in said(results):
        assert "−100 to" not in it.text and "(0 to" not in it.text


def test_why_a_machine_was_translated_is_told_once_and_whole(tmp_path: Path) -> None:
    remark = (
        "vm is run by QEMU's translator (tcg), which says nothing about virtual machines in "
        "general; KVM was not used: it ended; its last words:"
    )
    why = "it ended; its last words:\nfirst\nfailed to set MSR"
    path = making.folder(
        tmp_path / "run",
        calls=vdso(levels={"vm": 40.0}),
        levels=("baseline", "vm"),
        notes={"vm": {"accelerator": "tcg", "kvm": why}},
        remarks=[remark],
    )
    text = about(said(load(path)), "trust", "translator")
    assert text.endswith("(it ended; its last words: failed to set MSR).")


def test_one_full_run_is_told_in_nine_sentences() -> None:
    """The results that the project shows: they are real, and have what made-up ones lack."""
    folder = Path(__file__).parents[4] / "docs/results/data"
    if not folder.exists():
        pytest.skip("needs docs/results/data of a checkout")
    results = load(folder)
    # Of loads, sleeps and events some stand for the others.
    results.loads = results.loads[:2]
    results.quantities = tuple(
        it
        for it in results.quantities
        if it.kind in ("calls", "read")
        or (it.kind, it.interval_ns) in (("sleep", 1_000_000), ("events", 100_000))
    )
    sentences = said(results)
    first = opening(sentences)
    assert len(first) <= 9
    assert sum("Undecided, for want of blocks" in it.text for it in first) == 1
    texts = " ".join(it.text for it in first)
    for words in ("a vDSO read takes 2", "No clock went backwards", "The vDSO serves all 5"):
        assert words in texts
    assert len([it for it in sentences if it.text.count("TCG") and it.about == "trust"]) == 1
    assert not re.search(r"\de[+−-]?\d", texts)


def test_folders_that_are_kept_apart_are_told_by_their_names(tmp_path: Path) -> None:
    folders = [
        making.folder(tmp_path / name, calls=vdso(), warps=["tsc"], levels=LEVELS, run=name)
        for name in ("q1", "q2", "b1")
    ]
    sentences = said(load(*folders, labels=["q1", "q2", "b1"]))
    assert sentences[0].text.startswith("On the host of q1, a vDSO read takes")
    assert ": tsc in q1, q2 and b1. A step" in opened(sentences, "warps")
    assert opened(sentences, "served").startswith(
        "The vDSO serves all 3 clock reads in q1, q2 and b1: no read"
    )
    text = opened(sentences, "pairs-calls-levels")
    assert text.startswith("Against the host of q1: in a time namespace of q1")
    assert "level q" not in " ".join(it.text for it in sentences)
