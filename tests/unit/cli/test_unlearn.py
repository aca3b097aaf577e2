"""Train, retrain, unlearn: the command line from end to end, and its mistakes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from expunge import _tensors as tensors
from expunge._serialisation import rebuild
from expunge.engine import Procedure, Run
from expunge.engine._artifact import load_artifact, load_card_data
from expunge.evaluation import predict
from expunge.update import Prob, WeightedSum
from tests.tiny import bits, same
from tests.unit.cli.conftest import TRAIN, Expunge

UNLEARN = ("--forget", "random:0.2", "--epochs", "1", "--batch-size", "8")


def test_train_retrain_unlearn(
    expunge: Expunge, trained: Path, ideal: Path, tmp_path: Path
) -> None:
    out = tmp_path / "unlearned.safetensors"
    ending = expunge(
        "unlearn", trained, *UNLEARN, "--method", "SRL", "--addon", "FOCUS",
        "--ideal", ideal, "-o", out,
    )  # fmt: skip
    assert ending.code == 0, ending.err
    lines = {line.split()[0]: line.split() for line in ending.out.splitlines() if line.strip()}
    for metric in ("UA", "RA", "TA", "rUA", "FID"):
        assert metric in lines
    assert "initial" in ending.out
    assert "unlearned" in ending.out
    assert f"Wrote {out}" in ending.err
    times = tmp_path / f"{out.name}.times.json"
    assert sorted(tmp_path.iterdir()) == [out, times], "the checkpoint was left behind"

    initial, found, best = (load_artifact(path) for path in (trained, out, ideal))
    assert [a.card.stage for a in (initial, found, best)] == ["initial", "unlearned", "ideal"]
    assert found.card.scenario == best.card.scenario == "random:0.2"
    assert found.card.forgotten == best.card.forgotten is not None
    assert rebuild(found.card.procedure) == Procedure("SRL", "FOCUS", epochs=1, batch_size=8)
    assert len(found.card.epochs) == 1
    assert best.card.recipe == initial.card.recipe
    assert not same(bits(found.model), bits(initial.model))
    test = load_card_data(initial.card).test
    right = predict(initial.model, test).classes == test.labels
    shown = float(lines["TA"][1])
    assert shown == pytest.approx(100 * float(right.float().mean()), abs=0.01)


def test_every_epoch_can_be_scored(expunge: Expunge, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    ending = expunge(
        "unlearn", trained, *UNLEARN[:2], "--epochs", "2", "--evaluate", "every-epoch", "-o", out
    )
    assert ending.code == 0
    epochs = load_artifact(out).card.epochs
    assert len(epochs) == 2
    assert all(0 <= row["ua"] <= 100 for row in epochs)


def test_scoring_can_be_left_out(expunge: Expunge, trained: Path, tmp_path: Path) -> None:
    ending = expunge(
        "unlearn", trained, *UNLEARN, "--evaluate", "never", "-o", tmp_path / "out.safetensors"
    )
    assert ending.code == 0
    assert ending.out == ""


@pytest.mark.parametrize("evaluate", ["end", "never"])
def test_a_run_that_diverges_at_its_last_step_fails_and_leaves_no_file(
    evaluate: str, expunge: Expunge, trained: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.safetensors"
    one_step = ("--forget", "random:0.2", "--epochs", "1", "--batch-size", "64")
    ending = expunge(
        "unlearn", trained, *one_step, "--lr", "1e30", "--evaluate", evaluate, "-o", out
    )
    assert ending.code == 2
    assert "Diverged at the last step (1)" in ending.err
    assert list(tmp_path.iterdir()) == []


def test_equal_runs_write_equal_files(expunge: Expunge, trained: Path, tmp_path: Path) -> None:
    for name in ("one.safetensors", "two.safetensors"):
        assert expunge(*TRAIN, "-o", tmp_path / f"initial-{name}").code == 0
        ending = expunge("unlearn", trained, *UNLEARN, "-o", tmp_path / name)
        assert ending.code == 0
        assert re.search(r"\(\d+\.\d s of steps\)", ending.err)
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    assert one.read_bytes() == two.read_bytes()
    pair = [(tmp_path / f"initial-{path.name}").read_bytes() for path in (one, two)]
    assert pair[0] == pair[1] == trained.read_bytes()
    times = json.loads((tmp_path / "one.safetensors.times.json").read_text())
    assert times["seconds"] > 0, "beside the weights"
    assert len(times["epochs"]) == 1
    assert times["epochs"][0]["seconds"] > 0


@pytest.mark.parametrize("method", ["SRL", "l1-sparse"])
def test_options_reach_the_run(
    method: str, expunge: Expunge, trained: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.safetensors"
    ending = expunge(
        "unlearn", trained, *UNLEARN, "-m", method, "-a", "PROB", "--p", "0.4",
        "--moments", "published", "--alpha", "0.5", "--beta", "0.9", "--strict",
        "--batchnorm", "frozen", "--evaluate", "never", "-o", out,
    )  # fmt: skip
    assert ending.code == 0, ending.err
    assert rebuild(load_artifact(out).card.procedure) == Procedure(
        method,
        Prob(moments="published", p=0.4),
        WeightedSum(0.5, 0.9),
        epochs=1,
        batch_size=8,
        batchnorm="frozen",
        strict=True,
    )


def test_refresh_follows_the_recipe_of_the_model_and_what_is_given_wins(
    expunge: Expunge, trained: Path, tmp_path: Path
) -> None:
    recipe = load_artifact(trained).card.recipe
    for given, lr in (((), recipe["lr"]), (("--lr", "0.01"), 0.01)):
        out = tmp_path / f"{lr}.safetensors"
        options = ("--forget", "random:0.2", "--method", "refresh", "--evaluate", "never")
        ending = expunge("unlearn", trained, *options, *given, "-o", out)
        assert ending.code == 0, ending.err
        procedure = rebuild(load_artifact(out).card.procedure)
        assert (procedure.lr, procedure.batch_size) == (lr, recipe["batch_size"])
        assert procedure.epochs == max(round(0.2 * recipe["epochs"]), 1)


def test_half_precision_in_parts(expunge: Expunge, trained: Path, tmp_path: Path) -> None:
    whole, halved = tmp_path / "whole.safetensors", tmp_path / "halved.safetensors"
    options = ("--precision", "bf16", "--micro-batches", "3")
    assert expunge("unlearn", trained, *UNLEARN, "--evaluate", "never", "-o", whole).code == 0
    ending = expunge("unlearn", trained, *UNLEARN, *options, "-o", halved)
    assert ending.code == 0, ending.err
    assert "UA" in ending.out
    artifact = load_artifact(halved)
    assert not same(bits(artifact.model), bits(load_artifact(whole).model))


def test_same_command_same_weights(expunge: Expunge, trained: Path, tmp_path: Path) -> None:
    assert expunge(*TRAIN, "-o", tmp_path / "again.safetensors").code == 0
    first, again = (load_artifact(path) for path in (trained, tmp_path / "again.safetensors"))
    assert same(bits(first.model), bits(again.model))


def test_an_interrupted_command_says_how_to_go_on_and_does(
    expunge: Expunge, trained: Path, tmp_path: Path
) -> None:
    out, take_step = tmp_path / "out.safetensors", Run._take_step

    def interrupted(run: Run) -> bool:
        if run.step == 6:  # four steps an epoch: in the second
            raise KeyboardInterrupt
        return take_step(run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_take_step", interrupted)
        ending = expunge(*TRAIN, "-o", out)
    assert ending.code == 130
    assert "Interrupted. Run the same command again to resume." in ending.err
    assert list(tmp_path.iterdir()) == [tmp_path / "out.safetensors.checkpoint"]
    steps: list[int] = []

    def watched(run: Run) -> bool:
        steps.append(run.step)
        return take_step(run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_take_step", watched)
        assert expunge(*TRAIN, "-o", out).code == 0
    assert steps == [4, 5, 6, 7]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.safetensors",
        "out.safetensors.times.json",
    ]
    assert same(bits(load_artifact(out).model), bits(load_artifact(trained).model))


def test_an_existing_output_is_kept_unless_forced(
    expunge: Expunge, trained: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.safetensors"
    out.write_text("precious")
    commands: list[tuple[Any, ...]] = [
        TRAIN,
        ("retrain", trained, "-f", "random:0.2"),
        ("unlearn", trained, *UNLEARN),
    ]
    for command in commands:
        ending = expunge(*command, "-o", out)
        assert ending.code == 2
        assert "--force" in ending.err
    assert out.read_text() == "precious"
    assert expunge(*TRAIN, "--force", "-o", out).code == 0
    load_artifact(out)


def arrays(path: Path, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    parts = {"train": 60, "test": 20}
    content = {f"x_{k}": rng.integers(0, 256, (n, 8, 8), dtype=np.uint8) for k, n in parts.items()}
    content |= {f"y_{k}": np.arange(n) % 3 for k, n in parts.items()}
    np.savez(path, **content)
    return path


def test_data_may_move_but_not_change(
    expunge: Expunge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arrays(tmp_path / "mine.npz")
    model = tmp_path / "initial.safetensors"
    for spec in ("mine.npz", "npz:mine.npz"):  # a relative path holds from any directory
        train = ("train", "--data", spec, "--width", "0.1", "--epochs", "1", "--force")
        assert expunge(*train, "-o", model).code == 0
        assert load_artifact(model).card.data.spec.removeprefix("npz:") == str(
            (tmp_path / "mine.npz").resolve()
        )
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / "elsewhere")
        ending = expunge("unlearn", model, *UNLEARN, "--force", "-o", tmp_path / "out.safetensors")
        assert ending.code == 0, ending.err
        monkeypatch.chdir(tmp_path)

    (tmp_path / "mine.npz").rename(tmp_path / "moved.npz")
    ending = expunge("unlearn", model, *UNLEARN, "--force", "-o", tmp_path / "out.safetensors")
    assert ending.code == 2
    assert "mine.npz" in ending.err
    moved = ("--data", "npz:moved.npz", "--force", "-o", tmp_path / "out.safetensors")
    assert expunge("unlearn", model, *UNLEARN, *moved).code == 0

    arrays(tmp_path / "moved.npz", seed=1)
    ending = expunge("unlearn", model, *UNLEARN, *moved)
    assert ending.code == 2
    assert "fingerprint differs" in ending.err


@pytest.mark.parametrize(
    "wrong", [("--forget", "random:0.3"), ("--scenario-seed", "1"), ("--forget", "class:3")]
)
def test_the_ideal_of_another_scenario_is_refused(
    wrong: tuple[str, str], expunge: Expunge, trained: Path, ideal: Path, tmp_path: Path
) -> None:
    arguments = ("-f", "random:0.2", *wrong, "--ideal", ideal, "-o", tmp_path / "out.safetensors")
    ending = expunge("unlearn", trained, *arguments)
    assert ending.code == 2
    assert "The ideal model should be retrained without" in ending.err


def test_another_way_to_say_the_same_scenario_fits_the_ideal(
    expunge: Expunge, trained: Path, ideal: Path, tmp_path: Path
) -> None:
    arguments = (
        *UNLEARN,
        "-f",
        "random:0.20",
        "--ideal",
        ideal,
        "-o",
        tmp_path / "out.safetensors",
    )
    assert expunge("unlearn", trained, *arguments).code == 0


def test_an_ids_file_that_changed_no_longer_fits_the_ideal(
    expunge: Expunge, trained: Path, tmp_path: Path
) -> None:
    ids, best = tmp_path / "ids.txt", tmp_path / "ideal.safetensors"
    ids.write_text("1\n2\n3\n")
    assert expunge("retrain", trained, "-f", f"ids:{ids}", "-o", best).code == 0
    unlearn = ("unlearn", trained, "-f", f"ids:{ids}", "--epochs", "1", "--ideal", best)
    assert expunge(*unlearn, "-o", tmp_path / "out.safetensors").code == 0
    ids.write_text("1\n2\n4\n")
    ending = expunge(*unlearn, "-o", tmp_path / "other.safetensors")
    assert ending.code == 2
    assert "The ideal model should be retrained" in ending.err


def test_no_ideal_from_an_initial_model_and_no_initial_from_an_ideal(
    expunge: Expunge, trained: Path, ideal: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.safetensors"
    ending = expunge("unlearn", trained, *UNLEARN, "--ideal", trained, "-o", out)
    assert ending.code == 2
    assert "got initial" in ending.err
    ending = expunge("retrain", ideal, "-f", "random:0.2", "-o", out)
    assert ending.code == 2
    assert "Retrain from an initial model" in ending.err


MISTAKES: dict[str, tuple[int, tuple[str, ...], str]] = {
    "method": (("-m", "random-lable"), "Did you mean 'random-label'?"),
    "addon": (("-a", "fokus"), "Did you mean 'focus'?"),
    "moments": (("--moments", "addam"), "Did you mean 'adam'?"),
    "moments without": (("-a", "AND", "--moments", "adam"), "does not apply to the add-on AND"),
    "p without": (("-a", "FOCUS", "--p", "0.4"), "`p` does not apply to the add-on FOCUS"),
    "p": (("-a", "PROB", "--p", "1.2"), "`p` should be in (0, 1). (got 1.2)"),
    "aggregate": (("--aggregate", "linaer"), "Did you mean 'linear'?"),
    "alpha": (("--alpha", "-1"), "`alpha` should be finite and not negative"),
    "alpha of": (("--aggregate", "min-abs", "--alpha", "1"), "`alpha` and `beta` apply to"),
    "epochs": (("--epochs", "0"), "`epochs` should be a whole number, at least 1. (got 0)"),
    "epochs text": (("--epochs", "many"), "Invalid value for '--epochs'"),
    "lr": (("--lr", "-1"), "`lr` should be positive"),
    "batchnorm": (("--batchnorm", "none"), "'none' is not one of"),
    "device": (("--device", "gpu"), "The device gpu cannot be used here"),
    "retrain": (("-m", "retrain"), "use `expunge retrain`"),
    "option": (("--epocs", "3"), "--epochs"),
    "scenario": (("-f", "randon:0.1"), "Did you mean 'random'?"),
    "fraction": (("-f", "random:2"), "`fraction` should be in (0, 1)"),
    "no fraction": (("-f", "random"), "A scenario should read"),
    "class": (("-f", "class:11"), "A class should be in 0..9"),
    "ids": (("-f", "ids:/nowhere"), "/nowhere cannot be read"),
    "ideal": (("--ideal", "/nowhere"), "There is no file /nowhere"),
    "data": (("--data", "digitz"), "Did you mean 'digits'?"),
    "data gone": (("--data", "npz:/nowhere.npz"), "There is no file or folder /nowhere.npz"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_ends_in_one_sentence(
    case: str, expunge: Expunge, trained: Path, tmp_path: Path
) -> None:
    arguments, text = MISTAKES[case]
    ending = expunge("unlearn", trained, *UNLEARN, *arguments, "-o", tmp_path / "out.safetensors")
    assert ending.code == 2
    assert text in re.sub(r"\s+", " ", ending.err)
    assert "Traceback" not in ending.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ids", ["0\n60\n", "-1\n", "three\n"])
def test_ids_out_of_range_are_refused(
    ids: str, expunge: Expunge, trained: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ids.txt"
    path.write_text(ids)
    ending = expunge("unlearn", trained, "-f", f"ids:{path}", "-o", tmp_path / "out.safetensors")
    assert ending.code == 2
    assert ids.split()[-1] in ending.err
    assert "Traceback" not in ending.err


def test_divergence_fails_with_a_remedy(expunge: Expunge, trained: Path, tmp_path: Path) -> None:
    ending = expunge(
        "unlearn", trained, *UNLEARN, "--lr", "1e38", "-o", tmp_path / "out.safetensors"
    )
    assert ending.code == 2
    assert "Lower the learning rate" in ending.err
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_no_models_fail(expunge: Expunge, trained: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copy(trained, cut)
    cut.write_bytes(cut.read_bytes()[:-1])
    plain = tmp_path / "plain"
    tensors.save(plain, {"x": torch.zeros(1)}, {})
    for path, kind, text in (
        (cut, "Failed:", "truncated"),
        (plain, "Wrong usage:", "without a card"),
        ("nowhere", "Failed:", "no file"),
    ):
        ending = expunge("unlearn", path, *UNLEARN, "-o", tmp_path / "out.safetensors")
        assert ending.code == 2
        assert text in ending.err
        assert ending.err.startswith(kind)
