"""Micro-batches make the step of the batch; a run that blows up keeps the last good weights."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import TensorDataset

import expunge
from expunge import Callback, Diverged
from expunge._errors import InvalidInput
from expunge.data._batches import Batch
from expunge.data._sources import ArraySource
from expunge.distributed import SINGLE
from expunge.engine import Run
from expunge.engine._losses import micro_batch_count, weigh
from expunge.methods import METHODS
from expunge.update import Focus, SampleMoments, Term, Update
from tests import tiny
from tests.tiny import CLASSES, Counting, TinyConv, bits, images, points, same, without_seconds

FORGET, RETAIN = points(8), points(8, seed=1)


def mlp(dtype: torch.dtype = torch.float64) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, CLASSES)).to(dtype)


def doubled(count: int, seed: int) -> torch.utils.data.TensorDataset:
    x, y = points(count, seed).tensors
    return torch.utils.data.TensorDataset(x.double(), y)


def run(model: nn.Module | None = None, **changes) -> expunge.Result:
    options = {"method": "scrub", "addon": "saliency", "epochs": 2, "lr": 1e-2, "batch_size": 10}
    return tiny.unlearn(
        model or mlp(),
        forget=doubled(17, 0),
        retain=doubled(33, 1),
        unseen=doubled(21, 2),
        progress=False,
        **(options | changes),
    )


@functools.cache
def undivided(method: str) -> expunge.Result:
    return run(method=method)


@pytest.mark.parametrize("parts", [2, 3, 7, 100])
@pytest.mark.parametrize(
    "method",
    [
        m
        for m in METHODS
        if METHODS[m]().constrained and METHODS[m].supports_micro_batches and m != "npo"
    ],
)
def test_parts_of_any_sizes_make_the_whole_batch(method, parts):
    """10 = 4 + 3 + 3, and a last batch of 7: no size divides all of them."""
    whole, cut = undivided(method), run(method=method, micro_batches=parts)
    for a, b in zip(whole.model.parameters(), cut.model.parameters(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-12)
    for name in ("objective", "constraint", "moved"):
        assert cut.history.column(name) == pytest.approx(whole.history.column(name), rel=1e-9)


@pytest.mark.parametrize("method", ["fine-tune", "l1-sparse"])
def test_saliency_over_forget_beside_a_loss_over_something_else(method):
    torch.testing.assert_close(
        bits(run(method=method, micro_batches=4).model), bits(run(method=method).model)
    )


def test_one_part_is_the_run_without(one_thread):
    assert same(bits(run(micro_batches=1).model), bits(run().model))


def test_a_stopped_run_goes_on(tmp_path):
    options = {"micro_batches": 3, "checkpoint": tmp_path / "state"}
    run(**options, epochs=1)
    resumed = run(**options)
    straight = run(micro_batches=3)
    assert same(bits(resumed.model), bits(straight.model))
    assert without_seconds(resumed.history) == without_seconds(straight.history)


def test_a_checkpoint_belongs_to_its_number_of_parts(tmp_path):
    run(checkpoint=tmp_path / "state", epochs=1)
    with pytest.raises(InvalidInput, match="differs in micro_batches"):
        run(checkpoint=tmp_path / "state", micro_batches=2)


@pytest.mark.parametrize(("asked", "needed", "taken"), [(1, 4, 4), (8, 4, 8), (2, 3, 3)])
def test_sample_moments_take_the_larger_number(asked, needed, taken):
    update = Update(Focus(moments=SampleMoments(parts=needed)))
    assert micro_batch_count(update, asked) == taken
    assert micro_batch_count(Update("focus"), asked) == asked


def test_sample_moments_of_unequal_parts_are_unbiased():
    """Parts of 4, 3, 3: Σ wₖ(ĝₖ - ĝ)²/(K(K-1)) has mean σ²/n."""
    generator = torch.Generator().manual_seed(0)
    w = nn.Parameter(torch.zeros(2000, dtype=torch.float64))
    total = torch.zeros(())
    for _ in range(40):
        x = torch.randn(10, 2000, generator=generator, dtype=torch.float64)
        update = Update(Focus(moments="sample"))
        pieces = x.tensor_split(3)
        terms = [Term((w * p).sum(dim=1).mean(), weight=3 * len(p) / 10) for p in pieces]
        update.backward(terms, list(terms_again(w, pieces)), params=[w])
        torch.testing.assert_close(update.losses[0], (w * x).sum(dim=1).mean().detach())
        total = total + update.state.moments_u[0].mean() / (3 * 2)
    assert float(total / 40) == pytest.approx(0.1, rel=0.02)


def terms_again(w: Tensor, pieces) -> list[Term]:
    return [Term((w * p).sum(dim=1).mean(), weight=3 * len(p) / 10) for p in pieces]


def test_tokens_count_where_the_loss_is_a_mean_over_tokens():
    labels = torch.tensor([[1, 2, 3], [4, 5, -100]])
    batch = Batch(labels, labels, "retain")
    method = METHODS["gradient-difference"]()
    parts = batch.parts(2)
    zeros = iter([torch.zeros(())] * 2)
    terms = weigh(zeros, SINGLE, method, "constraint", [None, None], parts)
    assert [t.weight for t in terms] == pytest.approx([4 / 3, 2 / 3])
    assert METHODS["npo"]().size("objective", batch) == 2


@pytest.mark.parametrize("value", [0, -1, 2.5])
def test_a_number_of_parts_that_is_none_is_refused(value):
    with pytest.raises(InvalidInput, match=r"`micro_batches` should be a whole number"):
        run(micro_batches=value)


def test_batchnorm_sees_the_parts():
    """Documented: with batch statistics the parts are not the whole."""
    both = [
        tiny.unlearn(
            TinyConv(), forget=images(12), retain=images(24, 1), epochs=1, batch_size=12,
            progress=False, micro_batches=parts,
        )
        for parts in (1, 3)
    ]  # fmt: skip
    assert not same(bits(both[0].model), bits(both[1].model))


class Deep(nn.Module):
    """Wide activations that count when they are kept, recomputed if asked."""

    def __init__(self, recompute: bool = False) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(6))
            self.head = nn.Linear(16, CLASSES)
        self.recompute = recompute

    def forward(self, x: Tensor) -> Tensor:
        x = x.repeat(1, 4)
        for layer in self.layers:
            step = functools.partial(self._step, layer)
            x = checkpoint(step, x, use_reentrant=False) if self.recompute else step(x)
        return self.head(x)

    @staticmethod
    def _step(layer: nn.Module, x: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.tanh(layer(x))
        return x


def kept(model: nn.Module, parts: int) -> int:
    """The most bytes that one graph keeps for its backward pass."""
    sizes: list[int] = [0]

    def pack(tensor: Tensor) -> Tensor:
        sizes[-1] += tensor.nbytes
        return tensor

    def on_forward(*_) -> None:
        sizes.append(0)

    model.register_forward_pre_hook(on_forward)
    x, y = points(60, 2).tensors
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        batch = Batch(x, y, "retain")
        losses = (
            nn.functional.cross_entropy(model(b.inputs), b.targets) for b in batch.parts(parts)
        )
        Update("and").backward(losses, -model(x[:2]).sum(), params=model.parameters())
    return max(sizes)


def test_memory_falls_with_the_number_of_parts():
    whole, parts = kept(Deep(), 1), kept(Deep(), 6)
    assert parts < whole / 2


def test_recomputed_activations_change_nothing(one_thread):
    results = [
        tiny.unlearn(
            Deep(recompute), forget=points(12), retain=points(30, 1), epochs=2, batch_size=6,
            method="scrub", addon=addon, progress=False, micro_batches=2,
        )
        for addon in ("saliency", "focus")
        for recompute in (False, True)
    ]  # fmt: skip
    for plain, again in (results[:2], results[2:]):
        assert same(bits(plain.model), bits(again.model))
    assert kept(Deep(recompute=True), 1) < kept(Deep(), 1) / 2


@pytest.mark.parametrize("method", [m for m in METHODS if not METHODS[m].supports_micro_batches])
def test_a_loss_of_a_whole_batch_is_not_taken_in_parts(method):
    with pytest.raises(expunge.InvalidInput, match="Take smaller batches instead"):
        run(method=method, micro_batches=2)


class Trail(Callback):
    """The weights after every step, the initial ones first."""

    def __init__(self) -> None:
        self.states: list[dict[str, Tensor]] = []

    def on_start(self, run: Run) -> None:
        self.states.append(bits(run.model))

    def on_step(self, run: Run) -> None:
        self.states.append(bits(run.model))


def diverge(model: nn.Module, **options: Any) -> tuple[Diverged, Trail]:
    trail = Trail()
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "batch_size": 2, "epochs": 3}
    with pytest.raises(Diverged) as caught:
        tiny.unlearn(model, callbacks=[trail], **chosen | options)
    return caught.value, trail


@pytest.mark.parametrize("method", ["neg-grad-plus", "gradient-ascent", "random-label", "scrub"])
def test_a_monstrous_rate_diverges_with_the_weights_from_before_the_leap(method: str) -> None:
    model = Counting()
    error, trail = diverge(model, method=method, addon="none", lr=1e38)
    assert "Diverged at step 2 (epoch 1)" in str(error)
    assert "Lower the learning rate" in str(error)
    assert len(trail.states) == 2
    assert same(bits(error.result.model), bits(model))
    assert error.result.history.epochs == []


def test_finite_weights_with_infinite_outputs_after_the_last_step_are_found() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    error, trail = diverge(model, batch_size=8, epochs=1, addon="none", lr=1e30)
    assert "Diverged at the last step (1)" in str(error)
    assert all(bool(tensor.isfinite().all()) for tensor in trail.states[-1].values())
    assert same(bits(error.result.model), bits(model))


def poisoned(data: TensorDataset, step: int) -> TensorDataset:
    """``data`` with a nan in an example that retain comes to at ``step``."""
    x, y = data.tensors
    batches = ArraySource(x, y, "retain", batch_size=2, seed=0, augment=None).walk(0, step - 1)
    bad = (x == next(batches).inputs[0]).flatten(1).all(dim=1)
    assert int(bad.sum()) == 1
    return TensorDataset(x.masked_fill(bad.view(-1, *[1] * (x.dim() - 1)), float("nan")), y)


@pytest.mark.parametrize("step", [1, 2, 5])
def test_a_nan_among_the_inputs_stops_before_it_reaches_the_weights(step: int) -> None:
    retain = poisoned(points(20, seed=1), step)
    error, trail = diverge(Counting(), retain=retain, method="neg-grad-plus")
    assert f"Diverged at step {step} " in str(error)
    assert len(trail.states) == step
    # The last weights known to be good: those whose losses and gradients were seen to be finite.
    assert same(bits(error.result.model), trail.states[max(step - 2, 0)])


def test_batchnorm_statistics_are_restored_too() -> None:
    retain = poisoned(images(20, seed=1), 4)
    error, _ = diverge(TinyConv(), forget=images(8), retain=retain, method="neg-grad-plus")
    assert "Diverged at step 4 " in str(error)
    assert all(value.isfinite().all() for value in bits(error.result.model).values())
    assert not any(module.training for module in error.result.model.modules())


def test_a_last_step_to_infinity_does_not_pass_for_a_result() -> None:
    def steep(logits: Tensor, targets: Tensor) -> Tensor:
        return 1e3 * F.cross_entropy(logits, targets)

    model = Counting()
    error, _ = diverge(
        model,
        forget=points(2),
        method="neg-grad-plus",
        addon="none",
        epochs=1,
        lr=1e38,
        loss=steep,
        optimizer=torch.optim.SGD,
    )
    assert "a weight or loss is not finite" in str(error)
    assert same(bits(error.result.model), bits(model))


def test_the_history_up_to_the_divergence_is_kept() -> None:
    retain = poisoned(points(20, seed=1), 4)
    error, _ = diverge(Counting(), forget=points(2), retain=retain, epochs=20)
    assert error.result.history.column("epoch") == [1, 2, 3]


def test_training_stops_at_divergence_too() -> None:
    with pytest.raises(Diverged, match="Lower the learning rate") as caught:
        tiny.train(Counting(), RETAIN, recipe=expunge.Recipe(epochs=5, batch_size=2, lr=1e38))
    assert all(value.isfinite().all() for value in bits(caught.value.result.model).values())


class Content(Callback):
    """Takes the last good weights for a result."""

    def on_divergence(self, run: Run, error: Diverged) -> bool:
        return "last good weights" in str(error)


@pytest.mark.parametrize("step", [2, 4])
def test_a_callback_can_end_a_run_that_diverges_with_the_last_good_weights(step: int) -> None:
    retain = poisoned(points(20, seed=1), step)
    error, trail = diverge(Counting(), forget=points(4), retain=retain)
    options: dict[str, Any] = {"forget": points(4), "retain": retain, "batch_size": 2, "epochs": 3}
    result = tiny.unlearn(Counting(), callbacks=[Content()], **options)
    assert same(bits(result.model), bits(error.result.model))
    assert same(bits(result.model), trail.states[step - 2])
    assert len(result.history.epochs) == (step - 1) // 2
