"""The five families of curves: which variants each shows."""

from __future__ import annotations

from dataclasses import replace

from expunge.bench._tasks import group_results
from expunge.bench.paper._curves import (
    addon_curves,
    baseline_curves,
    method_curves,
    shown_variants,
)
from tests.unit.bench.making import run
from tests.unit.bench.plots.made_results import everything, only_task, variant


def test_sweep_records_are_kept_out_of_the_shown_arms() -> None:
    task = only_task(everything())
    assert task.main is not None
    assert task.main.lr == 1e-4
    variants = shown_variants(task)
    assert len(variants) == 12
    assert all(result.lr == 1e-4 for runs in variants.values() for result in runs)
    assert [result.seed for result in variants["random-label", "focus"]] == [0, 1, 2]


def test_published_moments_come_first_and_adams_where_there_are_no_others() -> None:
    published = variant({10: [91.0]}, "SRL", "FOCUS")
    adam = variant({10: [95.0]}, "SRL", "FOCUS", moments="adam")
    chosen = shown_variants(only_task(adam + published))["random-label", "focus"]
    assert [result.variant.moments for result in chosen] == ["published"]
    base = variant({10: [91.0]}, "SRL") + variant({10: [91.0]}, "SRL", "AND")
    curves = addon_curves(shown_variants(only_task(base + adam)), "random-label")
    assert [curve.label for curve in curves] == ["SRL", "SRL-AND", "SRL-FOCUS (adam)"]


def test_tasks_of_two_sizes_have_two_file_names() -> None:
    tasks = group_results([run(91.0), run(91.0, limit=100), run(91.0, scenario="class:3:0.1")])
    assert [runs.file_name for runs in tasks] == [
        "cifar10-vgg16-random-0.1-limit-None",
        "cifar10-vgg16-random-0.1-limit-100",
        "cifar10-vgg16-class-3-0.1",
    ]
    assert "10 % of class 3" in tasks[2].task.title


def test_families_choose_their_arms() -> None:
    variants = shown_variants(only_task(everything()))
    names = [curve.label for curve in addon_curves(variants, "neg-grad-plus")]
    assert names == ["NGPlus", "NGPlus-SalUn", "NGPlus-AND", "NGPlus-PROB", "NGPlus-FOCUS"]
    names = [curve.label for curve in method_curves(variants)]
    assert names == ["SRL", "SRL-FOCUS", "NGPlus", "NGPlus-FOCUS"]
    names = [curve.label for curve in baseline_curves(variants, "neg-grad-plus")]
    assert names == ["FT", "MSG", "SRL-SalUn", "NGPlus", "NGPlus-FOCUS"]


def test_of_many_baselines_those_of_the_paper_are_drawn() -> None:
    names = ("FT", "GA", "MSG", "CT", "l1-sparse", "BadT", "DELETE", "UNSIR", "LoTUS")
    alone = [result for name in names for result in variant({10: [91.0]}, name)]
    results = [replace(result, baseline=True) for result in alone]
    results += variant({10: [91.0]}, "SRL") + variant({10: [91.0]}, "SRL", "FOCUS")
    curves = baseline_curves(shown_variants(only_task(results)), "random-label")
    assert [curve.label for curve in curves] == ["FT", "MSG", "CT", "SRL", "SRL-FOCUS"]
