"""Every method with every add-on, aggregation and moments runs and keeps its promises."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pytest
import torch
from torch import Tensor

import expunge
from expunge._plugins import installed_plugins
from expunge.methods import METHODS, Batch, Method, Problem
from expunge.update import ADDONS, AGGREGATES, MOMENTS, SampleMoments
from tests import tiny
from tests.tiny import TinyConv, bits, images, same

FORGET, RETAIN, UNSEEN = images(8, seed=1), images(12, seed=2), images(10, seed=3)
PROBABLE = [name for name in ADDONS if "moments" in ADDONS[name].__dataclass_fields__]


class PushAway(Method):
    """A method from outside the package: shrink the logits on forget, keep the loss on retain."""

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return problem.logits(forget).square().mean()

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return problem.loss_on(retain)


@pytest.fixture
def outsider() -> Iterator[str]:
    METHODS.add("push-away", PushAway)
    yield "push-away"
    METHODS.remove("push-away")


def assert_unlearns(method: str, addon: expunge.Addon, aggregate: str) -> None:
    """One epoch ends with other, finite weights, and leaves the model that was given alone."""
    model = TinyConv().train()
    before = bits(model)
    result = tiny.unlearn(
        model,
        forget=FORGET,
        retain=RETAIN,
        unseen=UNSEEN,
        method=method,
        addon=addon,
        aggregate=aggregate,
        epochs=1,
        batch_size=4,
    )
    assert same(bits(model), before), "the input model was touched"
    assert model.training, "the input model's mode was touched"
    assert all(p.grad is None for p in model.parameters())
    after = bits(result.model)
    assert all(value.isfinite().all() for value in after.values())
    # No mask is zero everywhere on 200 weights: even AND lets about half of them move.
    moved = [not torch.equal(p, before[name]) for name, p in result.model.named_parameters()]
    assert any(moved)
    assert len(result.history.epochs) == 1
    assert not result.model.training


WITH_OPTIONS = {"selective-dampening": "SSD(selection=0.5)", "impair-repair": "UNSIR(steps=2)"}
"""What moves this little model, and does so quickly."""


def combinations(methods: Iterable[str]) -> list[tuple[str, str, str, str]]:
    """All pairs of a method, an add-on, an aggregation and, where an add-on has them, moments.

    Every method meets every add-on. Aggregations and moments go round from one to the next, so
    that each of them meets every method, every add-on and each other.
    """
    aggregates, moments = list(AGGREGATES), list(MOMENTS)
    return [
        (
            method,
            addon,
            aggregates[(row + column) % len(aggregates)],
            moments[(row + column) % len(moments)] if addon in PROBABLE else "",
        )
        for row, method in enumerate(methods)
        for column, addon in enumerate(ADDONS)
    ]


def make_addon(name: str, moments: str) -> expunge.Addon:
    kind = SampleMoments(parts=2) if moments == "sample" else moments
    return ADDONS[name](moments=kind) if moments else ADDONS[name]()


NAMES = ("method", "addon", "aggregate", "moments")
NO_PLUGINS = pytest.mark.skipif(bool(installed_plugins()), reason="plug-ins are installed")


@pytest.mark.parametrize(NAMES, combinations(METHODS))
def test_every_method_runs_with_every_addon(
    method: str, addon: str, aggregate: str, moments: str
) -> None:
    assert_unlearns(WITH_OPTIONS.get(method, method), make_addon(addon, moments), aggregate)


@pytest.mark.parametrize(NAMES, combinations(["push-away"]))
def test_a_method_from_outside_runs_with_every_addon(
    outsider: str, method: str, addon: str, aggregate: str, moments: str
) -> None:
    assert outsider == method
    assert_unlearns(method, make_addon(addon, moments), aggregate)


@NO_PLUGINS
def test_every_two_parts_meet_in_a_combination() -> None:
    kinds = (METHODS, ADDONS, AGGREGATES, MOMENTS)
    table = combinations(METHODS)
    for one, other in itertools.combinations(range(len(kinds)), 2):
        met = {(row[one], row[other]) for row in table if row[one] and row[other]}
        expected = set(itertools.product(kinds[one], kinds[other]))
        if (one, other) == (1, 3):
            expected = set(itertools.product(PROBABLE, MOMENTS))
        assert met == expected


@NO_PLUGINS
def test_the_table_is_complete() -> None:
    assert (len(METHODS), len(ADDONS), len(AGGREGATES)) == (28, 7, 5)
    assert PROBABLE == ["prob", "bernoulli", "focus"]
