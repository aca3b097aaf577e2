"""Line styles tell variants apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from expunge._errors import InvalidInput
from expunge.bench.paper._curves import addon_curves, baseline_curves, shown_variants
from expunge.bench.plots import FIGURES, WrittenFigures, write_figures
from expunge.bench.plots._style import ADDON_STYLES, METHOD_STYLES, line_style
from expunge.report import save_figure
from tests.unit.bench.making import run
from tests.unit.bench.plots.made_results import everything, only_task


def test_arms_of_one_figure_differ_in_colour_marker_and_dash() -> None:
    variants = shown_variants(only_task(everything()))
    for curves in (
        addon_curves(variants, "random-label"),
        baseline_curves(variants, "random-label"),
    ):
        for part in ("colour", "marker", "dash"):
            values = [getattr(curve.style, part) for curve in curves]
            assert len(set(values)) == len(values)
    assert line_style("random-label", "focus") == line_style("neg-grad-plus", "focus")
    paired = line_style("scrub", "focus", by_method=True)
    assert paired.colour == METHOD_STYLES["scrub"].colour
    assert paired.dash == ADDON_STYLES["focus"].dash


GROUP = "cifar10-vgg16-random-0.1"
SAVED = ("figure4-heatmap", f"focus-versus-rate-{GROUP}")


@pytest.fixture(scope="module")
def all_figures(tmp_path_factory: pytest.TempPathFactory) -> tuple[WrittenFigures, Path]:
    """All figures, drawn and laid out once; two of them are on disk."""
    folder = tmp_path_factory.mktemp("figures")

    def save_some(figure: Figure, path: Path, formats: Sequence[str]) -> None:
        if path.stem in SAVED:
            save_figure(figure, path, formats)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("expunge.bench.plots._style.save_figure", save_some)
        return write_figures(everything(), folder), folder


@pytest.fixture(scope="module")
def written(all_figures: tuple[WrittenFigures, Path]) -> Path:
    """The folder with two figures: an image, and lines with texts."""
    found, folder = all_figures
    saved = [path for path in found.paths if path.stem in SAVED]
    assert sorted(saved) == sorted(folder.iterdir())
    assert len(saved) == 4
    return folder


def test_all_figures_go_to_two_formats_under_their_names(
    all_figures: tuple[WrittenFigures, Path],
) -> None:
    found, _ = all_figures
    assert found.left_out == {}
    stems = {
        "figure1-masking",
        "figure2-noisy-masking",
        f"figure3-agreement-{GROUP}",
        "figure4-heatmap",
        f"figure5-addons-srl-{GROUP}",
        f"figure6-focus-methods-{GROUP}",
        f"figure7-addons-ngplus-{GROUP}",
        f"figure8-baselines-srl-{GROUP}",
        f"figure9-baselines-ngplus-{GROUP}",
        f"focus-versus-rate-{GROUP}",
    }
    assert len(stems) == len(FIGURES)
    assert {path.name for path in found.paths} == {
        f"{stem}.{kind}" for stem in stems for kind in ("pdf", "png")
    }


def test_of_several_tasks_the_one_is_drawn_that_the_paper_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expunge.bench.plots._style.save_figure", lambda *args: None)
    variants = [("SRL", "none"), ("SRL", "AND"), ("SRL", "FOCUS")]
    results = [
        run(91.0, *variant, scenario=scenario)
        for scenario in ("random:0.1", "random:0.5")
        for variant in variants
    ]

    def drawn(names: list[str] | None) -> list[str]:
        found = write_figures(results, tmp_path, names)
        return [path.stem for path in found.paths if path.stem.startswith("figure5")]

    of_paper = "figure5-addons-srl-cifar10-vgg16-random-0.5"
    assert set(drawn(None)) == {of_paper}
    assert set(drawn(["addons-srl"])) == {of_paper, f"figure5-addons-srl-{GROUP}"}


def test_fonts_are_embedded_and_dates_are_not_written(written: Path) -> None:
    pdf = (written / "figure4-heatmap.pdf").read_bytes()
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    assert b"CreationDate" not in pdf


def test_the_same_results_give_the_same_bytes(written: Path, tmp_path: Path) -> None:
    again = write_figures(everything(), tmp_path, ["fig:heatmap", "focus-versus-rate"])
    assert len(again.paths) == 4
    for path in again.paths:
        assert path.read_bytes() == (written / path.name).read_bytes()


def test_without_results_the_didactic_figures_remain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expunge.bench.plots._style.save_figure", lambda *args: None)
    found = write_figures([run(91.0)], tmp_path)
    assert [path.name for path in found.paths if path.suffix == ".pdf"] == [
        "figure1-masking.pdf",
        "figure2-noisy-masking.pdf",
        "figure4-heatmap.pdf",
    ]
    assert "two add-ons" in found.left_out["addons-srl"]
    assert "histogram" in found.left_out["agreement"]
    assert len(found.left_out) == 7


def test_a_figure_asked_for_by_name_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"baselines-srl .* there should be runs of SRL-FOCUS"):
        write_figures([run(91.0)], tmp_path, ["baselines-srl"])
    with pytest.raises(InvalidInput, match="Did you mean 'heatmap'"):
        write_figures([], tmp_path, ["heat-map"])
    with pytest.raises(InvalidInput, match="3 settings"):
        write_figures([run(91.0), run(91.0, "SRL", "FOCUS")], tmp_path, ["focus-versus-rate"])
    with pytest.raises(InvalidInput, match="got none"):
        write_figures([], tmp_path, ["addons-srl"])
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "figure1-masking.pdf").write_text("before")

    def fail(self: Figure, *args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(Exception, match="The previous content is kept"):
        write_figures([], tmp_path, ["masking"])
    assert [path.name for path in tmp_path.iterdir()] == ["figure1-masking.pdf"]
    assert (tmp_path / "figure1-masking.pdf").read_text() == "before"


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    before = dict(mpl.rcParams)
    FIGURES["masking"]([])
    assert dict(mpl.rcParams) == before
