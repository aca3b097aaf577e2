"""Every method with every add-on, and with every aggregation, runs and keeps its promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import expunge
from expunge._plugins import installed_plugins
from expunge.methods import METHODS, Batch, Method, Problem, _adversarial_examples
from expunge.update import ADDONS, AGGREGATES, MOMENTS, SampleMoments
from tests.tiny import TinyConv, bits, images, same

FORGET, RETAIN, UNSEEN = images(8, seed=1), images(12, seed=2), images(10, seed=3)
PROBABLE = [name for name in ADDONS if "moments" in ADDONS[name].__dataclass_fields__]


class PushAway(Method):
    """A method from outside the package: shrink the logits on forget, keep the loss on retain."""

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return problem.logits(forget).square().mean()

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return problem.loss_on(retain)


@pytest.fixture(autouse=True)
def _attacks_give_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """An untrained model needs a large radius to be fooled, which takes time."""
    monkeypatch.setattr(_adversarial_examples, "DOUBLINGS", 1)


@pytest.fixture
def outsider() -> Iterator[str]:
    METHODS.add("push-away", PushAway)
    yield "push-away"
    METHODS.remove("push-away")


def assert_unlearns(method: str, addon: expunge.Addon | str, aggregate: str = "linear") -> None:
    """One epoch ends with other, finite weights, and leaves the model that was given alone."""
    model = TinyConv().train()
    before = bits(model)
    result = expunge.unlearn(
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
EVERY_METHOD = pytest.mark.parametrize("method", [WITH_OPTIONS.get(m, m) for m in METHODS])


@pytest.mark.parametrize("addon", list(ADDONS))
@EVERY_METHOD
def test_every_method_runs_with_every_addon(method: str, addon: str) -> None:
    assert_unlearns(method, addon)


@pytest.mark.parametrize("aggregate", [name for name in AGGREGATES if name != "linear"])
@EVERY_METHOD
def test_every_method_runs_with_every_aggregation(method: str, aggregate: str) -> None:
    assert_unlearns(method, "focus", aggregate)


@pytest.mark.parametrize("moments", list(MOMENTS))
@pytest.mark.parametrize("addon", PROBABLE)
def test_every_probable_addon_runs_with_all_moments(addon: str, moments: str) -> None:
    kind = SampleMoments(parts=2) if moments == "sample" else moments
    assert_unlearns("random-label", ADDONS[addon](moments=kind))


@EVERY_METHOD
def test_every_method_runs_with_sampled_moments(method: str) -> None:
    assert_unlearns(method, expunge.Focus(moments=SampleMoments(parts=2)))


@pytest.mark.parametrize("aggregate", list(AGGREGATES))
@pytest.mark.parametrize("addon", list(ADDONS))
def test_a_method_from_outside_runs_with_every_addon(
    outsider: str, addon: str, aggregate: str
) -> None:
    assert_unlearns(outsider, addon, aggregate)


@pytest.mark.skipif(bool(installed_plugins()), reason="plug-ins are installed")
def test_the_table_is_complete() -> None:
    assert (len(METHODS), len(ADDONS), len(AGGREGATES)) == (30, 9, 5)
    assert PROBABLE == ["prob", "bernoulli", "focus", "focus-optimal"]
