"""The audit as a whole: what it says, what it writes, what it refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from expunge._errors import InvalidInput
from expunge.audit._audit import (
    Audit,
    AuditInput,
    match_classes,
    nearness,
    run_audit,
)
from expunge.audit._report import as_json, markdown, roc, write_audit
from expunge.cli._main import build_app
from expunge.data import ImageSet
from expunge.evaluation import MemberScores, Predictions, make_report
from tests.stand_ins import compute_in_this_process, leave_out_figures


class Rememberer(nn.Module):
    """Knows the images it was shown by heart, and guesses the rest by their first pixel."""

    def __init__(self, known: ImageSet | None) -> None:
        super().__init__()
        self.anchor = nn.Parameter(torch.zeros(()))
        self.known = (
            {} if known is None else {image.numpy().tobytes(): int(label) for image, label in known}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = x.flatten(1)[:, 1:4].float() / 255.0
        logits = nn.functional.one_hot(x.flatten(1)[:, 0].long() % 3, 3).float() + noise
        for row, image in enumerate(x):
            label = self.known.get(image.numpy().tobytes())
            if label is not None:
                logits[row] = 9.0 * nn.functional.one_hot(torch.tensor(label), 3)
        return logits + self.anchor


def images(count: int, seed: int, name: str = "n") -> ImageSet:
    random = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 1, 8, 8), generator=random, dtype=torch.uint8)
    labels = torch.randint(3, (count,), generator=random)
    pixels[:, 0, 0, 0] = labels.to(torch.uint8)
    names = [f"{name}{k}" for k in range(count)]
    return ImageSet(pixels, labels, ("a", "b<script>", "c|d"), names)


@pytest.fixture(scope="module")
def found() -> tuple[Audit, AuditInput]:
    forget, retain, test, val = images(120, 0), images(200, 1), images(150, 2), images(100, 3)
    everything = ImageSet(
        torch.cat([forget.images, retain.images]),
        torch.cat([forget.labels, retain.labels]),
        forget.classes,
    )
    inputs = AuditInput(
        Rememberer(everything),
        forget,
        retain,
        test,
        val,
        initial=Rememberer(everything),
        ideal=Rememberer(retain),
    )
    return run_audit(inputs), inputs


def test_a_memoriser_is_detected_on_every_population_rung(found: tuple[Audit, AuditInput]) -> None:
    result, _ = found
    blind = {"svc-correctness"}  # every guess is right here, so correctness says nothing
    for attack in result.attacks:
        if attack.name not in blind:
            assert attack.auc.value > 0.95, attack.name
    assert "detected" in result.verdict


def test_the_ideal_model_closes_every_gap(found: tuple[Audit, AuditInput]) -> None:
    result, inputs = found
    perfect = run_audit(
        AuditInput(Rememberer(inputs.retain), inputs.forget, inputs.retain, inputs.test,
                inputs.val, inputs.initial, Rememberer(inputs.retain))
    )  # fmt: skip
    assert perfect.scores["unlearned"].rua == 0
    assert all(attack.verdict != "detected" for attack in perfect.attacks)
    assert result.scores["unlearned"].mia_entropy > perfect.scores["unlearned"].mia_entropy


def test_an_untouched_model_is_nearer_to_the_original_and_a_retrained_one_to_the_retrained(
    found: tuple[Audit, AuditInput],
) -> None:
    result, inputs = found
    stayed = result.nearness
    assert stayed is not None
    assert (stayed.verdict, stayed.to_initial, stayed.nearer.value) == ("the original model", 0, 0)
    assert "nearer to those of the original model" in markdown(result)
    assert as_json(result)["nearness"]["verdict"] == "the original model"
    assert inputs.initial is not None
    without = AuditInput(inputs.initial, inputs.forget, inputs.retain, inputs.test)
    assert run_audit(without).nearness is None


def test_nearness_is_what_a_loop_over_examples_finds() -> None:
    random = torch.Generator().manual_seed(0)
    labels = torch.zeros(40, dtype=torch.long)
    near, ideal, initial = (2 * torch.randn(40, 3, generator=random) for _ in range(3))
    unlearned = ideal + 0.3 * (near - ideal)
    unlearned[0] = ideal[0] = initial[0]  # a tie says nothing

    def jsd(a: torch.Tensor, b: torch.Tensor) -> float:
        p, q = a.double().softmax(0).tolist(), b.double().softmax(0).tolist()
        m = [(x + y) / 2 for x, y in zip(p, q, strict=True)]
        sides = [sum(x * math.log2(x / z) for x, z in zip(s, m, strict=True)) for s in (p, q)]
        return sum(sides) / 2

    pairs = [(jsd(unlearned[k], ideal[k]), jsd(unlearned[k], initial[k])) for k in range(40)]
    found = nearness(*(Predictions(x, labels) for x in (unlearned, initial, ideal)))
    assert found.to_ideal == pytest.approx(sum(a for a, _ in pairs) / 40)
    assert found.to_initial == pytest.approx(sum(b for _, b in pairs) / 40)
    assert found.examples == 39
    assert found.nearer.value == pytest.approx(100 * sum(a < b for a, b in pairs[1:]) / 39)
    assert found.verdict == "the retrained model"
    tied = nearness(*(Predictions(ideal, labels) for _ in range(3)))
    assert (tied.verdict, tied.examples) == ("neither model", 0)


def test_everything_is_written(found: tuple[Audit, AuditInput], tmp_path: Path) -> None:
    result, _ = found
    names = {path.name for path in write_audit(result, tmp_path / "a")}
    assert {"report.json", "report.md", "roc.png", "roc.pdf", "histograms.png"} <= names
    said = json.loads((tmp_path / "a" / "report.json").read_text())
    assert said["scores"]["unlearned"]["ua"] == result.scores["unlearned"].ua
    assert said["attacks"]["loss"]["auc"] == result.attacks[0].auc.value


def test_the_markdown_has_every_attack_and_no_broken_row(found: tuple[Audit, AuditInput]) -> None:
    text = markdown(found[0])
    for attack in found[0].attacks:
        assert f"| {attack.name} |" in text
    assert as_json(found[0])["verdict"] in text


def test_test_data_that_were_trained_on_are_refused_and_a_few_of_them_noted(
    found: tuple[Audit, AuditInput],
) -> None:
    _, s = found
    with pytest.raises(InvalidInput, match="200 of 200 test examples are training examples"):
        run_audit(AuditInput(s.unlearned, s.forget, s.retain, s.retain))
    assert "test examples are training examples" not in markdown(found[0])
    few = ImageSet(
        torch.cat([s.test.images, s.retain.images[:2]]),
        torch.cat([s.test.labels, s.retain.labels[:2]]),
        s.test.classes,
    )
    noted = run_audit(AuditInput(s.unlearned, s.forget, s.retain, few))
    assert "2 of 152 test examples are training examples" in markdown(noted)


def test_unseen_targets_have_the_classes_of_the_forget_set() -> None:
    pool, like = images(300, 5), images(30, 6)
    one = like.subset((like.labels == 1).nonzero().squeeze(1))
    assert set(match_classes(pool, one, 0).labels.tolist()) == {1}
    matched = match_classes(pool, like, 0)
    assert matched.labels.bincount().tolist() == like.labels.bincount().tolist()


def test_the_roc_curve_encloses_the_auc() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(0.5, 1, 300).round(1), random.normal(0, 1, 200).round(1)
    found = make_report("x", MemberScores(a, b))
    fpr, tpr = roc(found)
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    assert np.trapezoid(tpr, fpr) == pytest.approx(found.auc.value)


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """One test draws them."""
    leave_out_figures(monkeypatch, "expunge.audit._report")


@pytest.mark.usefixtures("no_figures")
def test_audit_from_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compute_in_this_process(monkeypatch)
    run = CliRunner()
    paths = {name: str(tmp_path / f"{name}.safetensors") for name in ("i", "d", "u")}
    for words in (
        ["train", "--limit", "60", "--epochs", "2", "--batch-size", "16", "--width", "0.1",
         "-o", paths["i"]],
        ["retrain", paths["i"], "-f", "random:0.3", "-o", paths["d"]],
        ["unlearn", paths["i"], "-f", "random:0.3", "--epochs", "1", "-o", paths["u"]],
    ):  # fmt: skip
        assert run.invoke(build_app(), words).exit_code == 0, words
    words = ["audit", paths["u"], "--initial", paths["i"], "--ideal", paths["d"], "--shadows", "4",
             "--workers", "1", "--store", str(tmp_path / "store"),
             "-o", str(tmp_path / "audit")]  # fmt: skip
    result = run.invoke(build_app(), words)
    assert result.exit_code == 0, result.output
    said = json.loads((tmp_path / "audit" / "report.json").read_text())
    assert said["ulira"]["shadows"] == 4
    assert run.invoke(build_app(), words).exit_code != 0  # the report exists
    refused = run.invoke(build_app(), ["audit", paths["i"], "-o", str(tmp_path / "b")])
    assert isinstance(refused.exception, InvalidInput)
