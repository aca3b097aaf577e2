"""Ordinary training on retained data, and the attack that reads what it brings back."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from expunge._errors import InvalidInput
from expunge.data import (
    TextSet,
    WordTokenizer,
    as_source,
    divide,
    invent_corpus,
    load,
    seed_of,
)
from expunge.data.text import stratify
from expunge.evaluation import Predictions, evaluate, view
from expunge.evaluation._benign_steps import after_benign_steps, benign_rate, loss_auc
from expunge.evaluation._scores import accuracy
from expunge.models import SmallTransformer, build_model

pytestmark = pytest.mark.usefixtures("one_thread")


def test_benign_steps_are_adam_on_retained_batches() -> None:
    torch.manual_seed(0)
    retain = TensorDataset(torch.randn(30, 4), torch.randint(3, (30,)))
    model = nn.Linear(4, 3)
    kept = copy.deepcopy(model.state_dict())
    found = after_benign_steps(model, retain, steps=3, lr=1e-2, batch_size=8)
    expected = copy.deepcopy(model)
    optimizer = torch.optim.Adam(expected.parameters(), lr=1e-2)
    source = as_source(
        retain,
        split="retain",
        batch_size=8,
        seed=seed_of(0, "benign steps"),
        augment=None,
        device=torch.device("cpu"),
    )
    for batch, _ in zip(source.walk(0, 0), range(3), strict=False):
        optimizer.zero_grad()
        F.cross_entropy(expected(batch.inputs), batch.targets).backward()
        optimizer.step()
    assert torch.allclose(found.weight, expected.weight, atol=1e-6)  # type: ignore[arg-type]
    assert not torch.equal(found.weight, model.weight)  # type: ignore[arg-type]
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
    assert not found.training


def test_benign_steps_leave_frozen_weights_alone() -> None:
    parts = divide(load("digits", limit=60), "random:0.3", 0)
    model = build_model("small-cnn", in_channels=1, width=0.2, seed=0)
    frozen = next(model.parameters()).requires_grad_(False)
    found = after_benign_steps(model, parts.retain, steps=2)
    assert torch.equal(next(found.parameters()), frozen)


def test_a_smaller_loss_on_forgotten_records_raises_the_auc() -> None:
    labels = torch.tensor([0, 0, 1, 1])

    def sure(margin: float) -> Predictions:
        return Predictions(margin * nn.functional.one_hot(labels, 2).float(), labels)

    assert loss_auc(sure(3.0), sure(1.0)) == 1.0
    assert loss_auc(sure(1.0), sure(3.0)) == 0.0
    assert loss_auc(sure(1.0), sure(1.0)) == 0.5


def test_unseen_examples_of_other_classes_do_not_count() -> None:
    forget = Predictions(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    unseen = Predictions(torch.tensor([[1.0, 0.0], [9.0, 0.0]]), torch.tensor([0, 1]))
    assert loss_auc(forget, unseen) == 1.0


def test_evaluate_scores_a_copy_after_benign_steps() -> None:
    splits = load("digits", limit=60)
    parts = divide(splits, "random:0.3", 0)
    model, ideal = (
        build_model("small-cnn", in_channels=1, width=0.2, seed=seed) for seed in range(2)
    )
    data = {"forget": parts.forget, "retain": parts.retain, "test": splits.test}
    plain = evaluate(model, **data, ideal=ideal)
    scores = evaluate(model, **data, ideal=ideal, benign_steps=3)
    again, best = (
        view(after_benign_steps(each, parts.retain, steps=3, lr=benign_rate(each)), **data)
        for each in (model, ideal)
    )
    assert scores.loss_auc == loss_auc(*(view(model, **data).split(k) for k in ("forget", "test")))
    assert scores.relearned_ua == accuracy(again.forget)
    assert scores.relearned_ta == accuracy(again.test)
    assert scores.relearned_auc == loss_auc(again.forget, again.test)
    assert scores.relearned_rua == accuracy(again.forget) - accuracy(best.forget)
    assert (scores.ua, scores.rua) == (plain.ua, plain.rua), "the model is left alone"
    assert plain.relearned_ua is None


def test_benign_steps_are_counted_from_nought() -> None:
    data = TensorDataset(torch.eye(6), torch.arange(6))
    forget, retain, test = torch.utils.data.random_split(data, [2, 2, 2])
    with pytest.raises(InvalidInput, match="`benign_steps` should be a whole number, at least 0"):
        evaluate(nn.Identity(), forget=forget, retain=retain, test=test, benign_steps=-1)


def test_benign_steps_of_texts_predict_the_next_tokens_of_retained_records() -> None:
    corpus = invent_corpus(people=4, unseen=4, topics=2, seed=0)
    words = WordTokenizer.of(corpus.every_record)
    unseen = TextSet(corpus.unseen, words)
    retain = stratify(TextSet(corpus.people, words), unseen, unseen)[0]
    torch.manual_seed(0)
    model = SmallTransformer(words.size, retain.texts.tokens.shape[1], width=8, layers=1, heads=2)
    found = after_benign_steps(model, retain, steps=2, lr=1e-2)
    expected = copy.deepcopy(model)
    optimizer = torch.optim.Adam(expected.parameters(), lr=1e-2)
    for _ in range(2):  # eight records are one batch
        optimizer.zero_grad()
        log_p = expected(retain.texts.tokens)[:, :-1].log_softmax(dim=-1)
        wanted = retain.texts.labels[:, 1:]
        pairs = [(n, t) for n, t in (wanted != -100).nonzero().tolist()]
        torch.stack([-log_p[n, t, wanted[n, t]] for n, t in pairs]).mean().backward()
        optimizer.step()
    # Adam moves weights without a gradient by rounding alone: outputs tell, not weights.
    outputs = [each(retain.texts.tokens) for each in (found, expected, model)]
    assert torch.allclose(outputs[0], outputs[1], atol=1e-4)
    assert not torch.allclose(outputs[0], outputs[2], atol=1e-2)
