"""SSD against loops over the parameters, and methods without steps."""

from __future__ import annotations

import pytest
import torch

import expunge
from expunge import InvalidInput
from expunge.methods import SelectiveDampening
from tests import tiny
from tests.tiny import TinyConv, bits, images, same
from tests.unit.methods.rival_world import FORGET, RETAIN, pairs, problem, squared_gradient


@pytest.mark.parametrize(("selection", "dampening"), [(0.8, 1.0), (1.5, 0.3)])
def test_weights_that_matter_more_for_forget_data_shrink(
    selection: float, dampening: float
) -> None:
    world = problem()
    before = bits(world.model)
    share = len(FORGET) / (len(FORGET) + len(RETAIN))
    of_forget: dict[str, list[float]] = {}
    of_all: dict[str, list[float]] = {}
    squares = [[squared_gradient(world.model, batch) for batch in pair] for pair in pairs()]
    for name, p in world.model.named_parameters():
        sums = [sum(pair[k][name] for pair in squares) / len(squares) for k in (0, 1)]
        of_forget[name] = sums[0].flatten().tolist()
        of_all[name] = (share * sums[0] + (1 - share) * sums[1]).flatten().tolist()
        assert p.grad is not None
    world.model.zero_grad()

    SelectiveDampening(selection=selection, dampening=dampening).prepare(world)

    shrunk = 0
    for name, p in world.model.named_parameters():
        rows = zip(before[name].flatten().tolist(), of_forget[name], of_all[name], strict=True)
        expected = []
        for value, f, d in rows:
            if f > selection * d:
                value *= min(dampening * d / f, 1.0)
                shrunk += 1
            expected.append(value)
        assert p.flatten().tolist() == pytest.approx(expected, rel=1e-4, abs=1e-7)
    assert 0 < shrunk < sum(p.numel() for p in world.parameters)


def run(method: object, epochs: int = 2) -> expunge.Result:
    return tiny.unlearn(
        TinyConv(),
        forget=images(8, seed=1),
        retain=images(12, seed=2),
        method=method,
        addon="none",
        epochs=epochs,
        batch_size=4,
        progress=False,
    )


def test_what_is_done_at_once_stays_and_is_repaired_only_if_asked_for() -> None:
    one, two = (bits(run("SSD(selection=0.5)", epochs).model) for epochs in (1, 2))
    assert same(one, two)
    assert not same(one, bits(TinyConv().eval()))
    assert not same(two, bits(run("SSD(selection=0.5,repair=true)").model))


def test_no_weight_can_be_selected_beyond_the_share_of_the_forget_set() -> None:
    world = problem()
    before = bits(world.model)
    SelectiveDampening(selection=(len(FORGET) + len(RETAIN)) / len(FORGET)).prepare(world)
    assert same(before, bits(world.model))


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"`selection` should be positive and finite. \(got 0\)"):
        SelectiveDampening(selection=0)
    with pytest.raises(InvalidInput, match="`dampening` should be positive"):
        SelectiveDampening(dampening=-1.0)


def test_the_mode_of_the_model_is_left_as_it_was() -> None:
    world = problem()
    for training in (True, False):
        world.model.train(training)
        SelectiveDampening().prepare(world)
        assert world.model.training is training
        assert torch.is_grad_enabled()
