"""What a condition may say, and what is said of one that cannot be understood."""

import pytest

from eigentime_report.comparison.judgement import Condition, ConditionError, Limit, Of, parse


def test_the_shortest_condition() -> None:
    assert parse("vdso_clock_gettime_monotonic > +5%") == Condition(
        text="vdso_clock_gettime_monotonic > +5%",
        statistic=None,
        parts=("vdso_clock_gettime_monotonic",),
        level=None,
        load=None,
        operator=">",
        limit=Limit(Of.PERCENT, 5.0),
    )


def test_the_longest_condition() -> None:
    assert parse(" p99.9 sleep/nanosleep/1ms@level=vm,load=io>=200us ") == Condition(
        text=" p99.9 sleep/nanosleep/1ms@level=vm,load=io>=200us ",
        statistic="p99.9",
        parts=("sleep", "nanosleep", "1ms"),
        level="vm",
        load="io",
        operator=">=",
        limit=Limit(Of.VALUE, 200_000.0),
    )


def test_a_level_that_is_a_command_keeps_its_commas_and_spaces() -> None:
    condition = parse("tsc@level=command:env A=1,2 ssh web,load=idle > +1%")
    assert condition.level == "command:env A=1,2 ssh web"
    assert condition.load == "idle"


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        ("> +5%", Limit(Of.PERCENT, 5.0)),
        ("< -2.5 %", Limit(Of.PERCENT, -2.5)),
        ("> +0%", Limit(Of.PERCENT, 0.0)),
        ("> +100ns", Limit(Of.CHANGE, 100.0)),
        ("<= -.5us", Limit(Of.CHANGE, -500.0)),
        ("> 3 µs", Limit(Of.VALUE, 3e3)),
        ("> 3 μs", Limit(Of.VALUE, 3e3)),
        ("< 1ms", Limit(Of.VALUE, 1e6)),
        (">= 2s", Limit(Of.VALUE, 2e9)),
    ],
)
def test_limits_have_a_sign_if_they_are_changes_and_a_unit_always(said: str, limit: Limit) -> None:
    assert parse(f"tsc {said}").limit == limit


@pytest.mark.parametrize(
    ("text", "marked", "reason"),
    [
        ("", "", "an operator is missing"),
        ("tsc +5%", "", "an operator is missing"),
        ("tsc = +5%", "", "an operator is missing"),
        ("tsc => 5ns", "=> 5ns", "the operator is written >="),
        ("tsc =< 5ns", "=< 5ns", "the operator is written <="),
        ("tsc@load=> 5ns", "load=", "the name of the load is missing"),
        ("1us < tsc < 2us", "< 2us", "one operator is enough"),
        ("> +5%", "> +5%", "a quantity is missing"),
        ("p98 tsc > +5%", "p98", "no statistic 'p98': mean, median, p90"),
        ("p99 > +5%", " > +5%", "the p99 of which quantity is missing"),
        ("p99 tsc hot > +5%", "hot", "one quantity is enough"),
        ("read//hot > +5%", "/hot", "nothing between the slashes"),
        ("/tsc > +5%", "/tsc", "nothing between the slashes"),
        ("tsc@idle > +5%", "idle", "level=NAME and load=NAME"),
        ("tsc@load= > +5%", "load=", "the name of the load is missing"),
        ("tsc@load=idle,load=io > +5%", "load=io", "load is named twice"),
        ("tsc >", "", "a limit is a change"),
        ("tsc > fast", "fast", "a limit is a change"),
        ("tsc > +5", "", "the unit is missing: %, ns, us, ms, s"),
        ("tsc > 5 parsec", "parsec", "there is no unit 'parsec'"),
        ("tsc > 5%", "5%", "say +5% or -5%"),
        ("tsc > -5%", "> -5%", "say '> +5%' for what has grown"),
        ("tsc < +10ns", "< +10ns", "'< -10ns' for what has shrunk"),
    ],
)
def test_what_is_malformed_is_marked(text: str, marked: str, reason: str) -> None:
    with pytest.raises(ConditionError) as raised:
        parse(text)
    error = raised.value
    assert reason in error.reason
    assert error.column == (text.index(marked) if marked else len(text))
    lines = str(error).splitlines()
    assert lines[1] == f"  {text}"
    assert lines[2].index("^") == error.column + 2
