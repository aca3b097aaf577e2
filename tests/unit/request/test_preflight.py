from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

from expunge.evaluation import predict
from expunge.evaluation.attacks._features import confidence, entropy
from expunge.request._ids import resolve_ids
from expunge.request.preflight._check import Preflight, preflight
from expunge.request.preflight._terminal import shown
from expunge.request.subject._examples import Examples
from expunge.request.subject._load import Subject, make_subject
from tests.unit.request.worlds import Net, fitted, floats, job_of, subject_of

EVIL = ("[bold red]ant[/]", "\x1b[2Jbee", "cat\u202egod", "x" * 200)


@pytest.fixture(scope="module")
def subject(tmp_path_factory) -> Subject:
    return subject_of(tmp_path_factory.mktemp("world"), names=True)


def check(subject: Subject, folder, ids=(1, 2, 3, 5, 8), **values) -> Preflight:
    job = job_of(folder, **values)
    return preflight(subject, resolve_ids(job, subject, ids), job)


def printed(found: Preflight, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, legacy_windows=False)
    console.print(found.terminal())
    return console.file.getvalue()


def test_a_sound_request_passes(subject, tmp_path):
    found = check(subject, tmp_path)
    assert found.fits
    assert found.warnings == ()
    assert found.copies_in_retain == ()
    plain = found.as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["ids"]["records"] == 5
    assert plain["ids"]["share"] == pytest.approx(5 / 240, abs=1e-6)
    assert plain["ids"]["classes"][0] == {
        "name": "ant",
        "forgotten": 1,
        "train": 60,
        "share": 0.016667,
    }


def test_nothing_is_changed(subject, tmp_path):
    before = {k: v.clone() for k, v in subject.model.state_dict().items()}
    random = torch.get_rng_state()
    check(subject, tmp_path)
    assert all(torch.equal(before[k], v) for k, v in subject.model.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())
    assert not subject.model.training


def test_hardness_compares_the_forget_set_with_val(subject, tmp_path):
    hardness = check(subject, tmp_path).hardness
    forget = predict(subject.model, subject.train.subset([1, 2, 3, 5, 8]))
    val = predict(subject.model, subject.val)
    for name, said in (("forget", forget), ("val", val)):
        assert hardness[name]["confidence"] == pytest.approx(confidence(said).mean(), abs=1e-5)
        assert hardness[name]["entropy"] == pytest.approx(entropy(said).mean(), abs=1e-5)
    pairs = confidence(forget) - confidence(val).T
    literal = ((pairs > 0) + 0.5 * (pairs == 0)).mean()
    assert hardness["auc"] == pytest.approx(literal, abs=1e-3)


def test_exact_copies_are_reported_and_offered(subject, tmp_path):
    train = subject.train
    doubled = Examples(
        torch.cat((train.inputs, train.inputs[5:6])),
        torch.cat((train.labels, train.labels[5:6])),
        train.classes,
    )
    found = check(replace(subject, train=doubled), tmp_path)
    assert found.copies_in_retain == (240,)
    assert any(
        "Exact copies of records to forget remain: 1 in retain." in w for w in found.warnings
    )
    assert "retain 240 is the same as train 5" in printed(found)


def test_a_model_that_does_not_fit_is_reported_first(subject, tmp_path):
    order = torch.tensor([1, 0, 3, 2])
    parts = [
        Examples(part.inputs, order[part.labels], part.classes)
        for part in (subject.train, subject.val, subject.test)
    ]
    wrong = replace(subject, train=parts[0], val=parts[1], test=parts[2])
    found = check(wrong, tmp_path)
    assert not found.fits
    assert found.warnings[0].startswith("The labels look permuted")
    assert "Does the model fit the data?  NO" in printed(found)


def test_forgetting_much_is_answered_with_just_retrain(subject, tmp_path):
    found = check(subject, tmp_path, ids=range(100))
    assert found.cost.advice == "retrain"
    assert any(text.startswith("Just retrain: 42%") for text in found.warnings)


def test_a_whole_class_and_few_val_examples_are_pointed_out(subject, tmp_path):
    small = replace(subject, val=subject.val.subset(range(20)))
    found = check(small, tmp_path, ids=range(0, 240, 4), max_epochs=1)
    text = " ".join(found.warnings)
    assert "All training records of the class 'ant'" in text
    assert "val has 20 examples only" in text


def test_ids_listed_twice_are_pointed_out(subject, tmp_path):
    found = check(subject, tmp_path, ids=[1, 2, 1])
    assert "Ids listed more than once, counted once: 1." in found.warnings
    assert "listed more than once: '1'" in printed(found)


def test_val_that_was_trained_on_is_noticed(tmp_path):
    """Random labels are learnt by heart: the net is sure of what it saw, and of nothing else."""
    generator = torch.Generator().manual_seed(0)

    def noisy(count: int, seed: int) -> Examples:
        clean = floats(count, seed)
        labels = torch.where(
            torch.rand(count, generator=generator) < 0.4,
            torch.randint(4, (count,), generator=generator),
            clean.labels,
        )
        return Examples(clean.inputs, labels, clean.classes)

    whole, test = noisy(160, 1), noisy(160, 2)
    net = fitted(whole, Net(), steps=600)
    val, train = whole.subset(range(0, 160, 2)), whole.subset(range(1, 160, 2))
    seen = make_subject(net, (train, val, test), job_of(tmp_path))
    assert any("it may have been trained on val" in text for text in check(seen, tmp_path).warnings)
    clean = make_subject(net, (whole, noisy(80, 3), test), job_of(tmp_path))
    assert not any("trained on val" in text for text in check(clean, tmp_path).warnings)


def test_more_outputs_than_classes_are_pointed_out(tmp_path):
    net = fitted(floats(240, 1), Net(6))
    wide = make_subject(net, (floats(240, 1), floats(60, 2), floats(80, 3)), job_of(tmp_path))
    assert "The model has 6 outputs, but the data 4 classes." in check(wide, tmp_path).warnings


def test_records_forgotten_earlier_are_left_out(subject, tmp_path):
    job = job_of(tmp_path)
    asked = resolve_ids(job, subject, [1, 2, 3])
    found = preflight(subject, asked, job, earlier={2, 100})
    assert found.ids["records"] == 2
    assert found.ids["earlier"] == 1


def test_progress_is_told_in_words(subject, tmp_path):
    job = job_of(tmp_path)
    words: list[str] = []
    preflight(subject, resolve_ids(job, subject, [1]), job, progress=words.append)
    assert len(words) == 4
    assert words[0] == "looking at the data through the model"


@pytest.mark.parametrize("width", [80, 60])
def test_the_summary_fits_a_narrow_terminal(subject, tmp_path, width):
    text = printed(check(subject, tmp_path), width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    for words in ("train", "val", "test", "to forget", "entropy", "Copies that remain", "Unlearn:"):
        assert words in text
    assert "…" not in text


def test_names_with_markup_and_control_characters_are_shown_not_obeyed(subject, tmp_path):
    parts = {
        name: Examples(part.inputs, part.labels, EVIL)
        for name, part in (("train", subject.train), ("val", subject.val), ("test", subject.test))
    }
    evil = replace(subject, classes=EVIL, **parts)
    text = printed(check(evil, tmp_path, ids=range(0, 240, 4)))
    assert "[bold red]ant[/]" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(cell_len(line) for line in text.splitlines()) <= 80


def test_long_names_are_cut():
    assert shown("x" * 40, 10).plain == "x" * 9 + "…"
    assert shown("a\nb\t").plain == r"a\nb\t"


def test_many_near_copies_are_pointed_out(subject, tmp_path):
    train = subject.train
    chosen = list(range(12))
    near = Examples(
        torch.cat((train.inputs, *(train.inputs[chosen] + d for d in (1e-4, 2e-4)))),
        torch.cat((train.labels, train.labels[chosen], train.labels[chosen])),
        train.classes,
    )
    found = check(replace(subject, train=near), tmp_path, ids=chosen)
    assert any("nearly the same to the model" in text for text in found.warnings)
    assert set(range(240, 264)) & set(found.duplicates.in_retain(near=True))
