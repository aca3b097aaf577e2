"""Intervals and verdicts: Student's t, and never a claim held on two seeds."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from expunge.bench.paper import claims
from expunge.bench.paper.claims._base import Region, mean_over_seeds, verdict

VALUES = st.lists(st.floats(-100, 100), min_size=3, max_size=10)


@given(VALUES, st.floats(0.5, 0.99))
def test_the_interval_is_students(values: list[float], level: float) -> None:
    found = mean_over_seeds(values, level)
    spread = float(stats.sem(values))
    assert found.interval is not None
    if spread > 0:
        wanted = stats.t.interval(level, len(values) - 1, float(np.mean(values)), spread)
        assert found.interval == pytest.approx(wanted, abs=1e-9)
    else:
        assert found.interval == pytest.approx((found.value, found.value))


def test_fewer_than_three_values_have_no_interval() -> None:
    assert mean_over_seeds([1.0, 2.0]).interval is None


@given(st.floats(-9, 9), st.floats(0, 9), st.floats(-9, 9), st.floats(0, 9), st.integers(0, 9))
def test_a_verdict_looks_at_the_whole_interval(
    low: float, width: float, start: float, extent: float, n: int
) -> None:
    region = Region(start, start + extent)
    inside = [region.low < x < region.high for x in (low, low + width)]
    found = verdict((low, low + width), n, region)
    if n < 3:
        assert found == "inconclusive"
    elif all(inside):
        assert found == "held"
    elif low + width < region.low or low > region.high:
        assert found == "not held"
    else:
        assert found == "inconclusive"


def test_an_effect_of_exactly_nothing_is_on_neither_side() -> None:
    assert verdict((0.0, 0.0), 9, Region(high=0.0)) == "inconclusive"
    assert verdict((math.nan, 0.0), 9, Region()) == "inconclusive"
    assert verdict(None, 9, Region()) == "inconclusive"


def test_the_grey_strip_speaks_neither_way() -> None:
    region = Region(high=-1.0, grey=2.0)
    spans = [(-3.0, -2.0), (-0.5, 0.9), (1.1, 2.0)]
    assert [verdict(s, 3, region) for s in spans] == ["held", "inconclusive", "not held"]


def test_nothing_slow_is_imported_before_it_is_needed() -> None:
    files = sorted(Path(claims.__file__).parent.glob("*.py"))
    assert len(files) > 7
    for file in files:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & {"scipy", "matplotlib", "torch"}
