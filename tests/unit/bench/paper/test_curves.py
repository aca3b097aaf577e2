"""The five families of curves: which variants each shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from expunge.bench._tasks import TaskResults, group_results
from expunge.bench.paper._curves import (
    Curve,
    Series,
    addon_curves,
    baseline_curves,
    floor_of,
    level_of,
    limits_of,
    method_curves,
    panels_figure,
    series_of,
    shown_variants,
)
from expunge.bench.plots._style import line_style
from tests.unit.bench.making import reference, run
from tests.unit.bench.plots.made_results import everything, only_task, variant


def test_results_of_a_sweep_are_kept_out_of_the_shown_variants() -> None:
    task = only_task(everything())
    assert task.main_hyperparameters is not None
    assert task.main_hyperparameters.lr == 1e-4
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


def test_families_choose_their_variants() -> None:
    variants = shown_variants(only_task(everything()))
    names = [curve.label for curve in addon_curves(variants, "neg-grad-plus")]
    assert names == ["NGPlus", "NGPlus-SalUn", "NGPlus-AND", "NGPlus-PROB", "NGPlus-FOCUS"]
    names = [curve.label for curve in method_curves(variants)]
    assert names == ["SRL", "SRL-FOCUS", "NGPlus", "NGPlus-FOCUS"]
    names = [curve.label for curve in baseline_curves(variants, "neg-grad-plus")]
    assert names == ["FT", "MSG", "SRL-SalUn", "NGPlus", "NGPlus-FOCUS"]


def test_of_many_baselines_those_of_the_paper_are_drawn() -> None:
    names = ("FT", "GA", "MSG", "CT", "l1-sparse", "BadT", "DELETE", "UNSIR", "SSD")
    alone = [result for name in names for result in variant({10: [91.0]}, name)]
    results = [replace(result, baseline=True) for result in alone]
    results += variant({10: [91.0]}, "SRL") + variant({10: [91.0]}, "SRL", "FOCUS")
    curves = baseline_curves(shown_variants(only_task(results)), "random-label")
    assert [curve.label for curve in curves] == ["FT", "MSG", "CT", "SRL", "SRL-FOCUS"]


def test_drawn_lines_are_those_numbers() -> None:
    task = only_task(everything())
    runs = shown_variants(task)["random-label", "focus"]
    curve = Curve("SRL-FOCUS", line_style("random-label", "focus"), runs)
    figure = panels_figure([curve], task)
    panel = next(ax for ax in figure.axes if ax.get_title().startswith("TA"))
    drawn = next(line for line in panel.lines if len(line.get_xdata()) == 3)
    expected = series_of(runs, "ta")
    assert expected is not None
    np.testing.assert_allclose(drawn.get_ydata(), expected.mean)
    level = next(line for line in panel.lines if line.get_linestyle() == ":")
    assert level.get_ydata()[0] == level_of(task.ideal, "ta") == 80.0
    assert panel.get_xticks().tolist() == [0, 1, 10]


def test_epochs_are_marked_and_steps_within_them_are_not() -> None:
    stepwise = variant({0.25: [97.0], 0.5: [96.0], 1: [95.0], 10: [91.0]})  # type: ignore[dict-item]
    figure = panels_figure([Curve("SRL", line_style("random-label", "none"), stepwise)],
                           only_task(stepwise))  # fmt: skip
    assert [ax.get_xticks().tolist() for ax in figure.axes[:2]] == [[0, 1, 10], [0, 1, 10]]


def test_curves_are_means_and_deviations_over_seeds() -> None:
    values = {1: [97.0, 96.0, 98.5], 10: [91.0, 92.0, 95.0]}
    found = series_of(variant(values), "ua")
    assert found is not None
    table = np.array([[99.0] * 3, *values.values()])
    assert found.epochs.tolist() == [0, 1, 10]
    np.testing.assert_allclose(found.mean, table.mean(axis=1))
    np.testing.assert_allclose(found.std, table.std(axis=1, ddof=1))


def test_the_band_is_as_wide_as_two_ideal_models_differ() -> None:
    ideals = [reference("ideal", 90.0, seed=seed) for seed in (0, 1)]
    again = [reference("ideal-2", ua, seed=seed) for seed, ua in enumerate((88.0, 93.0, 50.0))]
    task = only_task([run(91.0, seed=seed) for seed in (0, 1)] + ideals + again)
    assert floor_of(task, "ua") == (2.0 + 3.0) / 2  # the third seed has no first ideal model
    assert floor_of(only_task([run(91.0), *ideals]), "ua") == 0.0
    bands = [
        [len(ax.patches) for ax in panels_figure([curve_of(own)], own).axes]
        for own in (task, replace(task, second_ideal=()))
    ]
    assert sum(bands[0]) > 0
    assert sum(bands[1]) == 0


def curve_of(task: TaskResults) -> Curve:
    return Curve("SRL", line_style("random-label", "none"), list(task.unlearned))


def test_an_epoch_that_a_seed_did_not_reach_is_not_averaged() -> None:
    whole, broken = run({1: 97.0, 10: 91.0}, seed=0), run({1: 95.0}, seed=1, diverged="nan")
    found = series_of([whole, broken], "ua")
    assert found is not None
    assert found.epochs.tolist() == [0, 1]
    assert series_of([whole], "auc") is None


def test_a_collapsed_variant_does_not_set_the_limits() -> None:
    epochs = np.array([0.0, 10.0])
    curves = [Series(epochs, np.array([[6.0, end]])) for end in (4.0, 1.0, 0.5, -46.0)]
    low, high = limits_of(curves, 0.0)
    assert -1 < low < 0
    assert 6 < high < 7
    assert limits_of(curves[:3], 0.0) == (low, high)
    assert limits_of([Series(epochs, np.full((2, 2), 100.0))], 100.0)[1] > 100
