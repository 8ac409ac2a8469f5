"""Factors and interactions: what is there is found, and what cannot be tested is said."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eigentime_report.statistics import FactorEffect, factorial

LEVELS = {
    "function": ("tsc", "clock_gettime", "nanosleep"),
    "platform": ("host", "vm"),
    "load": ("idle", "cpu", "io"),
}


def crossed(n: int, **levels: tuple[str, ...]) -> dict[str, list[str]]:
    """n values in each cell, the factors' levels of each value."""
    cells = [cell for cell in product(*levels.values()) for _ in range(n)]
    return {name: [cell[at] for cell in cells] for at, name in enumerate(levels)}


def by_term(found: list[FactorEffect]) -> dict[str, FactorEffect]:
    """Effects by their names."""
    return {it.term: it for it in found}


def test_effects_that_are_there_are_found(sound: Any) -> None:
    """Of skewed values that scatter differently, with ties."""
    factors = crossed(10, **LEVELS)
    noise = np.random.default_rng(10).exponential(1.0, len(factors["load"]))
    at = {name: np.array(its) for name, its in factors.items()}
    slow = 4.0 * (at["function"] == "nanosleep")
    on_vm = 3.0 * ((at["platform"] == "vm") & (at["load"] == "io"))
    scatter = np.where(at["load"] == "cpu", 2.0, 1.0)
    values = np.round(10 + slow + on_vm + scatter * (noise - np.log(2)), 1)
    found = by_term(sound(factorial(values, factors)))
    assert list(found) == [
        "function",
        "platform",
        "load",
        "function × platform",
        "function × load",
        "platform × load",
        "function × platform × load",
    ]
    for term in ("function", "platform", "load", "platform × load"):
        effect = found[term]
        assert effect.p is not None and effect.p < 0.01, term
        assert effect.effect.low is not None and effect.effect.low > 0, term
        assert effect.n == 180
    for term in ("function × load", "function × platform × load"):
        effect = found[term]
        assert effect.p is not None and effect.p > 0.01, term
        assert effect.effect.low == 0, term


def test_order_and_units_do_not_matter() -> None:
    factors = crossed(6, **LEVELS)
    values = np.random.default_rng(11).normal(size=len(factors["load"]))
    shuffled = np.random.default_rng(12).permutation(values.size)
    again = {name: [its[at] for at in shuffled] for name, its in reversed(factors.items())}
    first = by_term(factorial(values, factors))
    second = by_term(factorial(np.exp(values[shuffled]), again))
    for term, effect in first.items():
        other = second[" × ".join(reversed(term.split(" × ")))]
        assert effect.statistic == pytest.approx(other.statistic)
        assert effect.p == pytest.approx(other.p)
        assert effect.effect.value == pytest.approx(other.effect.value)


def test_sizes_of_cells_do_not_matter_to_effects() -> None:
    """A cell that is measured three times as often has the same relative effects."""
    a, b, c = [1.0, 4, 6, 9], [2.0, 5, 5, 8], [3.0, 7, 7, 12]
    (once,) = factorial(a + b + c, {"level": [*"aaaabbbbcccc"]})
    (more,) = factorial(a * 3 + b + c, {"level": [*"a" * 12, *"bbbbcccc"]})
    assert once.effect.value == pytest.approx(more.effect.value)


def test_a_factor_with_one_level_is_left_out(sound: Any) -> None:
    factors = crossed(5, level=("host", "vm"), load=("idle",))
    found = by_term(sound(factorial(np.arange(10.0), factors)))
    assert list(found) == ["level", "load"]
    assert found["level"].p is not None
    assert found["load"].p is None
    assert found["load"].note == "it has one level: idle"


def lacking(keep: NDArray[np.bool_]) -> list[FactorEffect]:
    """Some values of a design of 3 x 2 x 3 cells of two values."""
    factors = crossed(2, **LEVELS)
    values = np.random.default_rng(13).normal(size=36)
    kept = {
        name: [level for level, is_kept in zip(its, keep, strict=True) if is_kept]
        for name, its in factors.items()
    }
    return factorial(values[keep], kept)


def test_cells_without_values_are_named(sound: Any) -> None:
    keep = np.ones(36, dtype=bool)
    keep[2:4] = False
    for effect in sound(lacking(keep)):
        assert effect.p is None
        assert effect.note == "no values at tsc × host × cpu"
        assert effect.effect.value is None


def test_cells_with_one_value_are_named(sound: Any) -> None:
    keep = np.ones(36, dtype=bool)
    keep[::2] = False
    for effect in sound(lacking(keep)):
        assert effect.p is None
        assert "a single value, which does not scatter, at tsc × host × idle" in effect.note
        assert effect.note.endswith("and 15 more")


def test_cells_without_scatter(sound: Any) -> None:
    factors = crossed(4, level=("host", "vm"), load=("idle", "io"))
    alike = by_term(sound(factorial(np.ones(16), factors)))
    assert alike["level"].note == "no cell scatters: all values are alike"
    steps = by_term(sound(factorial(np.repeat([1.0, 1, 2, 2], 4), factors)))
    assert steps["level"].note == "no cell scatters: the levels do not overlap"
    assert steps["load"].note == "no cell scatters: all values are alike"
    one_scatters = np.repeat([1.0, 1, 2, 2], 4)
    one_scatters[-1] = 3
    found = by_term(sound(factorial(one_scatters, factors)))
    assert found["level"].p is not None
