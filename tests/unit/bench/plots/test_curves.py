"""The five families of curves: which arms each shows."""

from __future__ import annotations

from dataclasses import replace

from expunge.bench._runs import group_records
from expunge.bench.plots._curves import addon_curves, baseline_curves, method_curves, shown_arms
from tests.unit.bench.making import run
from tests.unit.bench.plots.made_records import arm, everything, only_task


def test_sweep_records_are_kept_out_of_the_shown_arms() -> None:
    task = only_task(everything())
    assert task.main_dials is not None
    assert task.main_dials.lr == 1e-4
    arms = shown_arms(task)
    assert len(arms) == 12
    assert all(record["lr"] == 1e-4 for runs in arms.values() for record in runs)
    assert [record["seed"] for record in arms["random-label", "focus"]] == [0, 1, 2]


def test_published_moments_come_first_and_adams_where_there_are_no_others() -> None:
    published = arm({10: [91.0]}, "SRL", "FOCUS")
    adam = arm({10: [95.0]}, "SRL", "FOCUS", moments="adam")
    chosen = shown_arms(only_task(adam + published))["random-label", "focus"]
    assert [record["moments"] for record in chosen] == ["published"]
    base = arm({10: [91.0]}, "SRL") + arm({10: [91.0]}, "SRL", "AND")
    curves = addon_curves(shown_arms(only_task(base + adam)), "random-label")
    assert [curve.label for curve in curves] == ["SRL", "SRL-AND", "SRL-FOCUS (adam)"]


def test_tasks_of_two_sizes_have_two_file_names() -> None:
    tasks = group_records([run(91.0), run(91.0, limit=100), run(91.0, scenario="class:3:0.1")])
    assert [runs.file_name for runs in tasks] == [
        "cifar10-vgg16-random-0.1-x1-nall",
        "cifar10-vgg16-random-0.1-x1-n100",
        "cifar10-vgg16-class-3-0.1",
    ]
    assert "10 % of class 3" in tasks[2].task.title


def test_families_choose_their_arms() -> None:
    arms = shown_arms(only_task(everything()))
    names = [curve.label for curve in addon_curves(arms, "neg-grad-plus")]
    assert names == ["NGPlus", "NGPlus-SalUn", "NGPlus-AND", "NGPlus-PROB", "NGPlus-FOCUS"]
    names = [curve.label for curve in method_curves(arms)]
    assert names == ["SRL", "SRL-FOCUS", "NGPlus", "NGPlus-FOCUS"]
    names = [curve.label for curve in baseline_curves(arms, "neg-grad-plus")]
    assert names == ["FT", "MSG", "SRL-SalUn", "NGPlus", "NGPlus-FOCUS"]


def test_of_many_baselines_those_of_the_paper_are_drawn() -> None:
    names = ("FT", "GA", "MSG", "CT", "l1-sparse", "BadT", "DELETE", "UNSIR", "AMUN")
    alone = [record for name in names for record in arm({10: [91.0]}, name)]
    records = [replace(record, baseline=True) for record in alone]
    records += arm({10: [91.0]}, "SRL") + arm({10: [91.0]}, "SRL", "FOCUS")
    curves = baseline_curves(shown_arms(only_task(records)), "random-label")
    assert [curve.label for curve in curves] == ["FT", "MSG", "CT", "SRL", "SRL-FOCUS"]
