"""Micro-batches make the step of the whole batch, in the memory of a part."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import expunge
from expunge._errors import InvalidInput
from expunge.data._batches import Batch
from expunge.engine._losses import parts_of, weigh_micro_batches
from expunge.methods import METHODS
from expunge.update import Focus, SampleMoments, Term, Update
from tests import tiny
from tests.tiny import CLASSES, TinyConv, bits, images, points, same, without_seconds


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
    assert parts_of(update, asked) == taken
    assert parts_of(Update("focus"), asked) == asked


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
    terms = weigh_micro_batches(
        iter([torch.zeros(())] * 2), method, "constraint", [None, None], parts
    )
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
