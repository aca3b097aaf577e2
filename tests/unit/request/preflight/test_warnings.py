from __future__ import annotations

from dataclasses import replace

import torch

from expunge.data import Examples
from expunge.request.subject._load import make_subject
from tests.unit.request.preflight.findings import check, printed
from tests.unit.request.worlds import Net, fitted, floats, job_of


def warnings_of(subject, folder):
    return check(subject, folder).findings.warnings


def test_a_request_that_saves_nothing_is_answered_with_exact_deletion(subject, tmp_path):
    found = check(subject, tmp_path, training_epochs=1)
    assert found.findings.cost.advice == "exact"
    assert any(text.startswith("Train again (`--exact`)") for text in found.findings.warnings)


def test_a_whole_class_and_few_val_examples_are_pointed_out(subject, tmp_path):
    small = replace(subject, val=subject.val.subset(range(20)))
    found = check(small, tmp_path, ids=range(0, 240, 4), max_epochs=1)
    text = " ".join(found.findings.warnings)
    assert "All training records of the class 'ant'" in text
    assert "val has only 20 examples" in text


def test_ids_listed_twice_are_pointed_out(subject, tmp_path):
    found = check(subject, tmp_path, ids=[1, 2, 1])
    assert "Ids listed more than once, counted once: 1." in found.findings.warnings
    assert "'1'" not in printed(found), "ids are nobody else's business"


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
    assert any("it may have been trained on val" in text for text in warnings_of(seen, tmp_path))
    clean = make_subject(net, (whole, noisy(80, 3), test), job_of(tmp_path))
    assert not any("trained on val" in text for text in warnings_of(clean, tmp_path))


def test_more_outputs_than_classes_are_pointed_out(tmp_path):
    net = fitted(floats(240, 1), Net(6))
    wide = make_subject(net, (floats(240, 1), floats(60, 2), floats(80, 3)), job_of(tmp_path))
    assert "The model has 6 outputs, but the data have 4 classes." in warnings_of(wide, tmp_path)


def test_many_near_duplicates_are_pointed_out(subject, tmp_path):
    train = subject.train
    chosen = list(range(12))
    near = Examples(
        torch.cat((train.inputs, *(train.inputs[chosen] + d for d in (1e-4, 2e-4)))),
        torch.cat((train.labels, train.labels[chosen], train.labels[chosen])),
        train.classes,
    )
    found = check(replace(subject, train=near), tmp_path, ids=chosen)
    assert any("nearly the same to the model" in text for text in found.findings.warnings)
    assert set(range(240, 264)) & {each.index for each in found.duplicates.to_include("near")}
