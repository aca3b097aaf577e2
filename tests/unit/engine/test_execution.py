"""Half precision for what the model computes; everything that accumulates stays in float32."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import expunge
from expunge._errors import InvalidInput
from expunge._serialisation import describe, rebuild
from expunge.data._batches import Batch
from expunge.engine import Procedure
from expunge.methods import Problem
from tests import tiny
from tests.tiny import CLASSES, TinyConv, bits, images, points, same, without_seconds


class Noting(nn.Module):
    """Notes the type that its product comes out in."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.head = nn.Linear(4, CLASSES)
        self.seen: set[torch.dtype] = set()

    def forward(self, x: Tensor) -> Tensor:
        out = self.head(x)
        self.seen.add(out.dtype)
        return out


def run(model: nn.Module | None = None, **changes) -> expunge.Result:
    options = {"method": "scrub", "epochs": 3, "batch_size": 12, "lr": 1e-3, "progress": False}
    return tiny.unlearn(
        model or TinyConv(), forget=images(24), retain=images(60, 1), **(options | changes)
    )


def test_the_model_computes_in_half_and_the_losses_do_not():
    model = Noting()
    problem = Problem(model, precision=torch.bfloat16)
    x, y = points(6).tensors
    batch = Batch(x, y, "forget")
    logits, initial = problem.logits(batch), problem.initial_logits(batch)
    assert model.seen == problem.initial.seen == {torch.bfloat16}
    assert logits.dtype == initial.dtype == torch.float32
    problem.loss(logits, y).backward()
    assert model.head.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("method", ["scrub", "random-label", "neg-grad-plus"])
def test_it_ends_near_where_float32_does(method):
    exact, half = run(method=method), run(method=method, precision="bf16")
    for a, b in zip(exact.model.parameters(), half.model.parameters(), strict=True):
        assert b.dtype == torch.float32
        torch.testing.assert_close(b, a, rtol=0.05, atol=1.5e-2)
    assert not same(bits(exact.model), bits(half.model))
    assert half.history.column("objective") == pytest.approx(
        exact.history.column("objective"), rel=0.02, abs=5e-3
    )


def test_moments_and_optimizer_are_in_float32():
    seen = []

    class Look(expunge.Callback):
        def on_end(self, run) -> None:
            seen.extend(m.dtype for m in run.update.state.moments_u)
            for state in run.optimizer.state.values():
                seen.extend(v.dtype for v in state.values())

    run(precision="bf16", callbacks=[Look()])
    assert set(seen) == {torch.float32}


def test_float32_is_the_run_without(one_thread):
    assert same(bits(run(precision="fp32").model), bits(run().model))


def test_a_stopped_run_goes_on(tmp_path, one_thread):
    options = {"precision": "bf16", "checkpoint": tmp_path / "state"}
    run(**options, epochs=1)
    resumed, straight = run(**options), run(precision="bf16")
    assert same(bits(resumed.model), bits(straight.model))
    assert without_seconds(resumed.history) == without_seconds(straight.history)


def test_a_checkpoint_belongs_to_its_precision(tmp_path):
    run(checkpoint=tmp_path / "state", epochs=1)
    with pytest.raises(InvalidInput, match="differs in precision"):
        run(checkpoint=tmp_path / "state", precision="bf16")


@pytest.mark.parametrize("precision", ["half", "fp16", ""])
def test_an_unknown_precision_is_refused(precision):
    with pytest.raises(InvalidInput, match=r"`precision` should be one of fp32, bf16"):
        run(precision=precision)


def test_defaults_are_not_written_down_so_old_keys_hold():
    fields = describe(Procedure())["fields"]
    assert not {"schedule", "augmented", "batches"} & set(fields)
    chosen = Procedure(augment_splits="none", retain_order="released")
    added = {"augmented": "none", "batches": "released"}
    assert describe(chosen)["fields"] == fields | added
    assert rebuild(describe(chosen)) == chosen
    assert rebuild(describe(Procedure())) == Procedure()
