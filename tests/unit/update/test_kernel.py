"""Reading what a step was like, now or later."""

from __future__ import annotations

import math

import pytest
import torch

from expunge._errors import InvalidInput
from expunge.update import Focus, Update, WeightedSum
from expunge.update._block_loop import SMALL
from expunge.update._kernel import SUMS, WIDTH, DiagnosticSums, merge_records


def pair(seed: int = 0, n: int = 50):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, generator=generator)], [torch.randn(n, generator=generator)]


def test_and_is_feasible_and_plain_descent_may_not_be():
    g_u, g_c = [torch.tensor([1.0, -1.0])], [torch.tensor([1.0, 10.0])]
    update = Update("and", WeightedSum(1.0, 1.0))
    update.combine(g_u, g_c)
    assert update.diagnostics.feasible
    update = Update("none", WeightedSum(1.0, 1.0))
    update.combine(g_u, g_c)
    assert update.diagnostics.objective_alignment == pytest.approx(7.0)
    assert update.diagnostics.constraint_alignment == pytest.approx(-92.0)
    assert not update.diagnostics.feasible


def test_a_record_can_be_read_later():
    update = Update("focus")
    update.combine(*pair(0))
    record, seen = update.record, update.diagnostics
    update.combine(*pair(1))
    assert update.read(record, constrained=True) == seen
    assert update.diagnostics != seen
    assert record.shape == (WIDTH,)


def test_agreement_exists_for_addons_with_moments_only():
    for addon, there in (("and", False), ("focus", True), (Focus(moments="published"), True)):
        update = Update(addon)
        update.combine(*pair())
        assert math.isnan(update.diagnostics.agreement) is not there


def test_before_the_first_step_there_is_nothing_to_read():
    with pytest.raises(InvalidInput, match="before the first step"):
        _ = Update().diagnostics
    assert Update().record is None


def test_diagnostics_can_be_turned_off():
    quiet, loud = Update("focus", diagnostics=False), Update("focus")
    assert torch.equal(quiet.combine(*pair())[0], loud.combine(*pair())[0])
    assert quiet.record is None
    with pytest.raises(InvalidInput, match="`diagnostics=False`"):
        _ = quiet.diagnostics


@pytest.mark.parametrize("constrained", [True, False])
def test_a_step_of_nothing_has_diagnostics(constrained):
    update = Update("focus")
    empty = [torch.zeros(0), torch.zeros(3, 0)]
    update.combine(empty, empty if constrained else None)
    assert update.diagnostics.norm == update.diagnostics.moved == 0
    assert math.isnan(update.diagnostics.cosine)


def test_all_zero_gradients_have_no_cosine():
    update = Update("focus")
    update.combine([torch.zeros(3)], [torch.ones(3)])
    assert math.isnan(update.diagnostics.cosine)
    assert update.diagnostics.feasible


def test_sums_do_not_depend_on_how_parameters_are_cut():
    g_u, g_c = pair(n=3 * SMALL + 17)
    one, many = Update("focus"), Update("focus")
    one.combine(g_u, g_c)
    sizes = [SMALL + 1, 5, SMALL, SMALL + 11]
    many.combine(list(g_u[0].split(sizes)), list(g_c[0].split(sizes)))
    assert many.diagnostics.as_dict() == pytest.approx(one.diagnostics.as_dict(), rel=1e-4)


def row(*values) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor(values[0] if len(values) == 1 else values) for _ in range(WIDTH - 1))


def test_sums_add_up_over_blocks_and_records():
    sums, others = DiagnosticSums(), DiagnosticSums()
    sums.add(tuple(torch.tensor(float(k)) for k in range(WIDTH - 1)), 10)
    sums.add(row(1.0, 2.0), 5)
    assert sums.record().tolist() == [*(k + 3.0 for k in range(len(SUMS))), float(len(SUMS)), 15.0]
    others.add(row(100.0), 1)
    both = merge_records([sums.record(), others.record()])
    assert both[:-2].tolist() == [k + 103.0 for k in range(len(SUMS))]
    assert both[-2:].tolist() == [100.0, 16.0]


def test_tally_takes_any_number_of_blocks():
    sums = DiagnosticSums()
    for k in range(1000):
        sums.add(row(float(k)), 2)
    assert sums.record().tolist() == [499_500.0] * len(SUMS) + [999.0, 2000.0]


def test_tally_waits_for_no_device():
    """On a device without data every read would raise; the record is made without one."""
    sums = DiagnosticSums()
    with torch.device("meta"):
        sums.add(tuple(torch.empty(()) for _ in range(len(SUMS) + 1)), 1)
        sums.add(tuple(torch.empty(4) for _ in range(len(SUMS) + 1)), 4096)
        assert sums.record().device.type == "meta"


@pytest.mark.parametrize("addon", ["none", "saliency", "and", "prob", "focus"])
def test_a_whole_step_waits_for_no_device(addon):
    """On ``meta`` there is nothing to read, so any hidden synchronisation raises."""
    g = [torch.empty(SMALL + 5, device="meta"), torch.empty(3, 4, device="meta")]
    update = Update(addon)
    steps = update.combine(g, [x.clone() for x in g])
    assert [s.shape for s in steps] == [x.shape for x in g]
    assert update.record.device.type == "meta"


def test_parameters_on_two_devices_share_one_step():
    """CPU beside ``meta``: each is advanced where it lies; the CPU part is as if alone."""
    g_u, g_c = pair()
    far = torch.empty(7, device="meta")
    update, alone = Update("focus", diagnostics=False), Update("focus", diagnostics=False)
    steps = update.combine([far, *g_u], [far, *g_c])
    assert steps[0].device.type == "meta"
    assert torch.equal(steps[1], alone.combine(g_u, g_c)[0])
    assert [m.device.type for m in update.state.moments_u] == ["meta", "cpu"]
