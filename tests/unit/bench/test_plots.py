"""The figures: the numbers behind each, what is left out, and the files."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expunge._errors import InvalidInput
from expunge.bench._records import Record
from expunge.bench.plots import FIGURES, write_figures
from expunge.bench.plots._arrows import feasible_corners
from expunge.bench.plots._curve_panels import Line, evolution_figure
from expunge.bench.plots._curve_series import Series, level_of, limits_of, series_of
from expunge.bench.plots._curves import addon_lines, baseline_lines, method_lines
from expunge.bench.plots._density_values import distributions_of, kernel_density, zones
from expunge.bench.plots._frontier_points import points_of, shared, staircase, sweep_of
from expunge.bench.plots._groups import groups_of, main_arms, main_setting
from expunge.bench.plots._heatmap import LEVEL, centres, masked, probability
from expunge.bench.plots._masking import EXAMPLES, LINEAR, masked_update
from expunge.bench.plots._noisy_masking import Noisy
from expunge.bench.plots._style import ADDON_LOOKS, METHOD_LOOKS, look_of
from expunge.update import And, MinAbs, Prob
from tests.unit.bench.making import references, run

ADDONS = ("none", "SalUn", "AND", "PROB", "FOCUS")


def arm(values: dict[int, list[float]], *args: Any, **settings: Any) -> list[Record]:
    """Runs of three seeds, given UA by epoch and seed."""
    seeds = range(len(next(iter(values.values()))))
    return [
        run({epoch: row[seed] for epoch, row in values.items()}, *args, seed=seed, **settings)
        for seed in seeds
    ]


def with_histograms(records: list[Record]) -> list[Record]:
    """Records with a histogram of f at epochs 1 and 10: the first seeds lean to the left."""
    found = []
    for record in records:
        shares = np.zeros(50)
        shares[[15, 25, 35]] = [0.5 - 0.1 * record["seed"], 0.25, 0.25 + 0.1 * record["seed"]]
        kept = {"1": shares.tolist(), "10": shares[::-1].tolist()}
        found.append(replace(record, agreement=kept))
    return found


def everything() -> list[Record]:
    """Records that all figures can be drawn from."""
    values = {1: [97.0, 96.0, 98.0], 10: [91.0, 92.0, 93.0]}
    records = references()
    for method in ("SRL", "NGPlus"):
        for addon in ADDONS:
            runs = arm(values, method, addon)
            records += with_histograms(runs) if addon == "FOCUS" else runs
    for method in ("FT", "MSG"):
        records += [replace(record, baseline=True) for record in arm(values, method)]
    for addon in ("none", "FOCUS"):
        records += arm({1: [80.0] * 3, 10: [50.0] * 3}, "SRL", addon, lr=1e-2, block="sweep")
    return records


def only_group(records: list[Record]) -> Any:
    (group,) = groups_of(records)
    return group


# Which records


def test_sweep_records_are_kept_out_of_the_main_arms() -> None:
    group = only_group(everything())
    assert main_setting(group)["lr"] == 1e-4
    arms = main_arms(group)
    assert len(arms) == 12
    assert all(record["lr"] == 1e-4 for runs in arms.values() for record in runs)
    assert [record["seed"] for record in arms["random-label", "focus"]] == [0, 1, 2]


def test_published_moments_come_first_and_adams_where_there_are_no_others() -> None:
    published = arm({10: [91.0]}, "SRL", "FOCUS")
    adam = arm({10: [95.0]}, "SRL", "FOCUS", moments="adam")
    chosen = main_arms(only_group(adam + published))["random-label", "focus"]
    assert [record["moments"] for record in chosen] == ["published"]
    base = arm({10: [91.0]}, "SRL") + arm({10: [91.0]}, "SRL", "AND")
    lines = addon_lines(main_arms(only_group(base + adam)), "random-label")
    assert [line.label for line in lines] == ["SRL", "SRL-AND", "SRL-FOCUS (adam)"]


def test_groups_of_two_sizes_have_two_names() -> None:
    groups = groups_of([run(91.0), run(91.0, limit=100), run(91.0, scenario="class:3:0.1")])
    assert [group.name for group in groups] == [
        "cifar10-vgg16-random-0.1-x1-nall",
        "cifar10-vgg16-random-0.1-x1-n100",
        "cifar10-vgg16-class-3-0.1",
    ]
    assert "10 % of class 3" in groups[2].title


def test_families_choose_their_arms() -> None:
    arms = main_arms(only_group(everything()))
    names = [line.label for line in addon_lines(arms, "neg-grad-plus")]
    assert names == ["NGPlus", "NGPlus-SalUn", "NGPlus-AND", "NGPlus-PROB", "NGPlus-FOCUS"]
    names = [line.label for line in method_lines(arms)]
    assert names == ["SRL", "SRL-FOCUS", "NGPlus", "NGPlus-FOCUS"]
    names = [line.label for line in baseline_lines(arms, "neg-grad-plus")]
    assert names == ["FT", "MSG", "SRL-SalUn", "NGPlus", "NGPlus-FOCUS"]


def test_arms_of_one_figure_differ_in_colour_marker_and_dash() -> None:
    arms = main_arms(only_group(everything()))
    for lines in (addon_lines(arms, "random-label"), baseline_lines(arms, "random-label")):
        for part in ("colour", "marker", "dash"):
            looks = [getattr(line.look, part) for line in lines]
            assert len(set(looks)) == len(looks)
    assert look_of("random-label", "focus") == look_of("neg-grad-plus", "focus")
    paired = look_of("scrub", "focus", by_method=True)
    assert (paired.colour, paired.dash) == (METHOD_LOOKS["scrub"].colour, ADDON_LOOKS["focus"].dash)


# Curves


def test_curves_are_means_and_deviations_over_seeds() -> None:
    values = {1: [97.0, 96.0, 98.5], 10: [91.0, 92.0, 95.0]}
    found = series_of(arm(values), "ua")
    assert found is not None
    table = np.array([[99.0] * 3, *values.values()])
    assert found.epochs.tolist() == [0, 1, 10]
    np.testing.assert_allclose(found.mean, table.mean(axis=1))
    np.testing.assert_allclose(found.std, table.std(axis=1, ddof=1))


def test_an_epoch_that_a_seed_did_not_reach_is_not_averaged() -> None:
    whole, broken = run({1: 97.0, 10: 91.0}, seed=0), run({1: 95.0}, seed=1, diverged="nan")
    found = series_of([whole, broken], "ua")
    assert found is not None
    assert found.epochs.tolist() == [0, 1]
    assert series_of([whole], "auc") is None


def test_drawn_lines_are_those_numbers() -> None:
    records = everything()
    group = only_group(records)
    runs = main_arms(group)["random-label", "focus"]
    figure = evolution_figure([Line("SRL-FOCUS", look_of("random-label", "focus"), runs)], group)
    panel = next(ax for ax in figure.axes if ax.get_title().startswith("TA"))
    curve = next(line for line in panel.lines if len(line.get_xdata()) == 3)
    expected = series_of(runs, "ta")
    assert expected is not None
    np.testing.assert_allclose(curve.get_ydata(), expected.mean)
    level = next(line for line in panel.lines if line.get_linestyle() == ":")
    assert level.get_ydata()[0] == level_of(group.ideal, "ta") == 80.0
    assert panel.get_xticks().tolist() == [0, 1, 10]


def test_a_collapsed_arm_does_not_set_the_limits() -> None:
    epochs = np.array([0.0, 10.0])
    curves = {
        name: Series(epochs, np.array([[6.0, end]]))
        for name, end in (("SRL", 4.0), ("PROB", 1.0), ("FOCUS", 0.5), ("AND", -46.0))
    }
    found = limits_of(curves, 0.0)
    assert found.outside == {"AND": -46.0}
    assert -1 < found.low < 0
    assert 6 < found.high < 7
    del curves["AND"]
    assert limits_of(curves, 0.0).outside == {}
    assert limits_of({"RA": Series(epochs, np.full((2, 2), 100.0))}, 100.0).high > 100


# The didactic figures


def test_masked_updates_are_the_paper_formulas() -> None:
    for _, u, c in EXAMPLES:
        g_u, g_c = np.array(u), np.array(c)
        mask = (g_u * g_c > 0).astype(float)
        np.testing.assert_allclose(masked_update(u, c, LINEAR), mask * (0.8 * g_u + 0.5 * g_c))
        smaller = np.where(np.abs(g_u) <= np.abs(g_c), g_u, g_c)
        np.testing.assert_allclose(masked_update(u, c, MinAbs()), mask * smaller)
    kept = [int(np.sum(np.array(u) * np.array(c) > 0)) for _, u, c in EXAMPLES]
    assert kept == [0, 1, 2]


def test_noisy_example_misleads_and_but_not_prob() -> None:
    case = Noisy()
    assert case.true_c[1] * case.true_u[1] < 0 < case.batch_c[1] * case.batch_u[1]
    f = case.agreement()
    assert 0.5 < f[1] < case.p < f[0]
    assert min(case.changes(case.update(And()))) < 0
    assert min(case.changes(case.update(Prob(p=case.p)))) > 0
    assert case.update(Prob(p=case.p))[1] == 0
    whole = 0.8 * np.array(case.batch_u) + 0.5 * np.array(case.batch_c)
    np.testing.assert_allclose(case.update(And()), whole)


def test_shaded_cone_holds_feasible_steps_alone() -> None:
    u, c = np.array([1.2, 0.9]), np.array([0.6, -1.0])
    corners = feasible_corners(u, c, 1.0)
    assert (corners @ u >= -1e-12).all()
    assert (corners @ c >= -1e-12).all()
    x, y = feasible_corners(u, -u, 1.0).T  # opposite gradients leave a line, of no area
    assert np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)) == pytest.approx(0.0)


def test_heatmap_is_equation_18_and_hatched_where_prob_masks() -> None:
    x, y = centres(60)
    formula = x * y + (1 - x) * (1 - y)
    np.testing.assert_allclose(probability(x, y), formula, atol=1e-9)
    assert ((formula < LEVEL) == (masked(x, y) == 1)).all()
    ((_, figure),) = FIGURES["heatmap"]([])
    hatched = next(part for part in figure.axes[0].collections if part.get_gid() == "masked")
    (path,) = [path for path in hatched.get_paths() if len(path.vertices)]
    inside = path.contains_points(np.column_stack([x.ravel(), y.ravel()])).reshape(x.shape)
    sure = np.abs(formula - LEVEL) > 0.01
    assert (inside == (formula < LEVEL))[sure].all()


# The distribution of f


def test_distribution_is_the_mean_over_seeds_with_its_zones() -> None:
    found = distributions_of(only_group(everything()))
    assert [own.label for own in found] == [
        "SRL-FOCUS, published moments",
        "NGPlus-FOCUS, published moments",
    ]
    assert found[0].seeds == 3
    assert zones(found[0].shares[1]) == pytest.approx((0.4, 0.25, 0.35))
    assert zones(found[0].shares[10]) == pytest.approx((0.35, 0.25, 0.4))


def test_density_integrates_to_one_even_at_the_borders() -> None:
    at = np.linspace(0, 1, 4001)
    shares = np.zeros(50)
    shares[[0, 49, 25]] = [0.5, 0.3, 0.2]
    assert np.trapezoid(kernel_density(shares, at), at) == pytest.approx(1.0, abs=1e-4)
    flat = kernel_density(np.full(50, 0.02), at)
    np.testing.assert_allclose(flat, 1.0, atol=1e-3)


# The frontier


def test_staircase_leaves_out_what_another_point_beats() -> None:
    points = np.array([[2.0, 5.0], [0.0, 9.0], [1.0, 9.0], [3.0, 5.0], [2.5, 1.0], [0.0, 9.0]])
    assert staircase(points).tolist() == [[0.0, 9.0], [2.0, 5.0], [2.5, 1.0]]
    assert staircase(np.empty((0, 2))).shape == (0, 2)


def test_frontier_points_are_means_at_settings_that_both_arms_have() -> None:
    records = [*everything(), *arm({10: [70.0] * 3}, "SRL", lr=1.0)]
    group = only_group(records)
    base, focus = (sweep_of(group, "random-label", addon) for addon in ("none", "focus"))
    assert (len(base), len(focus)) == (3, 2)
    both = shared(base, focus)
    assert list(both[0]) == list(both[1])
    # UA of 97 on average: 2 points of TA lost against 99, 7 points from the ideal's 90.
    assert points_of(both[0]).tolist() == [[2.0, 7.0], [7.0, 2.0], [19.0, 10.0], [49.0, 40.0]]


# Files


GROUP = "cifar10-vgg16-random-0.1"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A figure of each kind on disk."""
    folder = tmp_path_factory.mktemp("figures")
    found = write_figures(everything(), folder, ["heatmap", "agreement", "frontier", "addons-srl"])
    assert sorted(found.paths) == sorted(folder.iterdir())
    assert len(found.paths) == 12
    return folder


def test_all_figures_go_to_three_formats_under_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expunge.bench.plots.save_figure", lambda *args: None)
    found = write_figures(everything(), tmp_path)
    assert found.left_out == {}
    grouped = {name: f"{name}-{GROUP}" for name in FIGURES}
    grouped |= {name: name for name in ("masking", "noisy-masking", "heatmap")}
    grouped["frontier"] = f"frontier-srl-{GROUP}"
    assert {path.name for path in found.paths} == {
        f"{stem}.{kind}" for stem in grouped.values() for kind in ("pdf", "svg", "png")
    }


def test_fonts_are_embedded_and_dates_are_not_written(written: Path) -> None:
    pdf = (written / "heatmap.pdf").read_bytes()
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    assert b"CreationDate" not in pdf
    assert b"<dc:date>" not in (written / "heatmap.svg").read_bytes()


def test_the_same_records_give_the_same_bytes(written: Path, tmp_path: Path) -> None:
    again = write_figures(everything(), tmp_path, ["fig:heatmap", "frontier"])
    assert len(again.paths) == 6
    for path in again.paths:
        assert path.read_bytes() == (written / path.name).read_bytes()


def test_without_records_the_didactic_figures_remain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expunge.bench.plots.save_figure", lambda *args: None)
    found = write_figures([run(91.0)], tmp_path)
    assert [path.name for path in found.paths if path.suffix == ".pdf"] == [
        "masking.pdf",
        "noisy-masking.pdf",
        "heatmap.pdf",
    ]
    assert "two add-ons" in found.left_out["addons-srl"]
    assert "histogram" in found.left_out["agreement"]
    assert len(found.left_out) == 7


def test_a_figure_asked_for_by_name_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"baselines-srl .* there should be runs of SRL-FOCUS"):
        write_figures([run(91.0)], tmp_path, ["baselines-srl"])
    with pytest.raises(InvalidInput, match="Did you mean 'heatmap'"):
        write_figures([], tmp_path, ["heat-map"])
    with pytest.raises(InvalidInput, match="two settings"):
        write_figures([run(91.0), run(91.0, "SRL", "FOCUS")], tmp_path, ["frontier"])
    with pytest.raises(InvalidInput, match="got none"):
        write_figures([], tmp_path, ["addons-srl"])
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    (tmp_path / "heatmap.pdf").write_text("before")

    def fail(self: Figure, *args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(Exception, match="The previous content is kept"):
        write_figures([], tmp_path, ["heatmap"])
    assert [path.name for path in tmp_path.iterdir()] == ["heatmap.pdf"]
    assert (tmp_path / "heatmap.pdf").read_text() == "before"


def test_matplotlib_is_loaded_only_to_draw_and_left_as_it_was() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    FIGURES["masking"]([])
    assert dict(mpl.rcParams) == before
    code = "import sys, expunge.bench.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
