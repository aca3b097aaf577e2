"""What a user with a GPU runs works here, as a dry run; and what judges requests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import expunge

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
DRY = ["--device", "cpu", "--small", "--steps", "2", "--batch", "8"]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@pytest.fixture(scope="module")
def gpu() -> ModuleType:
    return script("gpu")


def test_the_dry_run_prints_a_row_for_everything_that_is_missing(
    gpu: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = dict(gpu.ROWS)
    del rows["FOCUS, compiled"]  # a minute of a compiler
    rows["broken"] = ("focus", {"precision": "fp3"})
    monkeypatch.setattr(gpu, "ROWS", rows)
    gpu.main(DRY)
    lines = capsys.readouterr().out.splitlines()
    assert "torch" in lines[0]
    table = {line.split(" | ")[0].strip("| "): line for line in lines if line.startswith("|")}
    assert table.keys() == {"row", "---", *rows}
    for row in rows.keys() - {"broken"}:
        assert table[row].endswith("| same |"), table[row]
    for row in ("none", "FOCUS", "FOCUS, resumed"):
        assert "0.0e+00" in table[row]  # the CPU against itself
    assert "fp3" in table["broken"]
    assert "dry run" in lines[-1]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [(["--device", "warp"], "cannot be used here"), (["--steps", "1"], "should be 2 or more")],
)
def test_wrong_arguments_are_refused(
    gpu: ModuleType, wrong: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        gpu.main([*DRY, *wrong])
    assert reason in capsys.readouterr().err


def _compared(**changes: Any) -> dict[str, Any]:
    """A model that equals the retrained one, but for the changes."""
    same = {
        f"{name}_{what}": 0.0
        for name in ("auc_loss", "auc_entropy", "ta")
        for what in ("diff", "error")
    }
    return same | {"class_diff": [0.0, 0.0], "class_error": [1.0, 1.0]} | changes


def test_a_difference_counts_beyond_its_margin_its_interval_and_that_of_two_retrained_models() -> (
    None
):
    judge = script("request_judge")
    assert judge.beyond_margins(_compared()) == []
    assert judge.beyond_margins(_compared(class_diff=[-5.1, 0.0])) == ["class"]
    assert judge.beyond_margins(_compared(class_diff=[5.1, 0.0])) == []  # better
    assert judge.beyond_margins(_compared(class_diff=[-5.1, 0.0], class_error=[3.0, 1.0])) == []
    assert judge.beyond_margins(_compared(auc_loss_diff=-0.06, auc_loss_error=0.01)) == ["auc_loss"]
    # Two retrained models differ by 3 and 4 points in a class: 3.54 in the root mean square.
    floor = judge.floor_of([_compared(class_diff=[3.0, -4.0])])
    assert floor["class"] == pytest.approx(12.5**0.5)
    # Five differences at two moments: the normal quantile of 1 - 0.05 / 10 is 2.576.
    assert judge.beyond_margins(_compared(class_diff=[-9.0, 0.0]), floor) == []
    assert judge.beyond_margins(_compared(class_diff=[-9.2, 0.0]), floor) == ["class"]


def test_the_variants_of_focus_start_from_the_step_of_the_library() -> None:
    variants = script("focus_alpha")
    torch.manual_seed(0)
    update = expunge.Update(expunge.Focus(moments="published"), expunge.update.WeightedSum())
    own, longer = variants.FocusStep(0.05), variants.SameLength(0.05)
    for _ in range(3):
        g_u, g_c = torch.randn(2, 50, dtype=torch.float64) * 1e-3
        step = own(torch.stack([g_u, g_c]))
        assert torch.allclose(update.combine([g_u], [g_c])[0], step, rtol=1e-6, atol=1e-15)
        same = longer(torch.stack([g_u, g_c]))
        assert torch.isclose(same.norm(), own.linear(g_u, g_c).norm())
        assert torch.isclose(torch.cosine_similarity(same, step, dim=0), torch.ones(()).double())


def test_the_alpha_of_a_linear_step_is_its_own() -> None:
    variants = script("focus_alpha")
    g_u, g_c = torch.randn(2, 50, generator=torch.Generator().manual_seed(0))
    assert variants.effective_alpha(0.3 * g_u + 0.9 * g_c, g_u, g_c) == pytest.approx(0.25)
