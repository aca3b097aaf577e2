"""What an update remembers: saved, loaded, and moved with its parameters."""

from __future__ import annotations

import io

import pytest
import torch

from expunge._errors import InvalidInput
from expunge.update import Addon, Bernoulli, Focus, Prob, Update
from expunge.update._block_loop import SMALL
from tests.unit.update.problems import losses, small_model

CONFIGURATIONS = [
    "none",
    "saliency",
    "and",
    *(kind(moments=m) for kind in (Prob, Bernoulli, Focus) for m in ("adam", "published")),
    Bernoulli(moments="sample"),
    Focus(moments="sample"),
]


def advance(update: Update, model, optimizer, steps: range) -> None:
    for step in steps:
        first, second = (losses(model, 2 * step + k) for k in range(2))
        parts = zip(first, second, strict=True)
        objective, constraint = ([a, b] for a, b in parts)
        update.backward(objective, constraint, params=model.parameters())
        update.step(optimizer)


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("addon", CONFIGURATIONS, ids=repr)
def test_an_interrupted_run_continues_to_the_same_bits(addon, strict):
    straight = small_model()
    optimizer = torch.optim.Adam(straight.parameters(), lr=0.01)
    advance(Update(addon, strict=strict, seed=3), straight, optimizer, range(6))

    model = small_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    update = Update(addon, strict=strict, seed=3)
    advance(update, model, optimizer, range(3))
    saved = through_a_file(
        {"model": model.state_dict(), "opt": optimizer.state_dict(), "update": update.state_dict()}
    )
    model = small_model(seed=9)
    model.load_state_dict(saved["model"])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer.load_state_dict(saved["opt"])
    update = Update(addon, strict=strict, seed=77)  # the stream comes from the file
    update.load_state_dict(saved["update"])
    advance(update, model, optimizer, range(3, 6))
    for p, q in zip(straight.parameters(), model.parameters(), strict=True):
        assert torch.equal(p, q)


def test_loading_copies():
    update, other = Update("focus"), Update("focus")
    g = [torch.ones(3)]
    update.combine(g, g)
    other.load_state_dict(update.state_dict())
    before = [m.clone() for m in other.state.moments_u]
    update.combine([5 * g[0]], g)
    assert torch.equal(before[0], other.state.moments_u[0])


def test_moments_saved_without_a_memory_format_find_their_places_again():
    torch.manual_seed(0)
    g = [torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last) for _ in range(4)]
    update, other = Update("focus"), Update("focus")
    update.combine(g[:1], g[1:2])
    state = update.state_dict()
    state["moments_u"] = [m.contiguous() for m in state["moments_u"]]
    state["moments_c"] = [m.contiguous() for m in state["moments_c"]]
    other.load_state_dict(state)
    assert torch.equal(other.combine(g[2:3], g[3:])[0], update.combine(g[2:3], g[3:])[0])


def test_gradients_may_change_their_memory_format_between_steps():
    torch.manual_seed(0)
    g = [torch.randn(2, 3, 4, 4) for _ in range(4)]
    last = [x.to(memory_format=torch.channels_last) for x in g]
    update, other = Update("focus"), Update("focus")
    update.combine(g[:1], g[1:2])
    other.combine(g[:1], g[1:2])
    assert torch.equal(other.combine(last[2:3], last[3:])[0], update.combine(g[2:3], g[3:])[0])


def test_another_model_is_refused_and_leaves_the_state_alone():
    update = Update("focus")
    update.combine([torch.ones(3)], [torch.ones(3)])
    with pytest.raises(InvalidInput, match="Make a new `Update` for another model"):
        update.combine([torch.ones(4)], [torch.ones(4)])
    assert update.state.step == 1


def test_a_state_that_is_none_is_refused():
    with pytest.raises(InvalidInput, match="it is not an update's state"):
        Update().load_state_dict({"step": 3})


def test_steps_without_a_constraint_do_not_age_the_moments():
    """Otherwise the bias correction would be that of a later step."""
    g_u, g_c = [torch.tensor([1.0, 2.0])], [torch.tensor([2.0, -1.0])]
    update, fresh = Update("focus"), Update("focus")
    update.combine(g_u)
    assert torch.equal(update.combine(g_u, g_c)[0], fresh.combine(g_u, g_c)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_moments_are_float32_or_wider(dtype):
    update = Update("focus")
    update.combine([torch.ones(3, dtype=dtype)], [torch.ones(3, dtype=dtype)])
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert update.state.moments_u[0].dtype == update.state.moments_c[0].dtype == wide


SHAPES = [(SMALL // 64, 80), (3, 9), (7,)]


def run(steps: int, addon: Addon | str, **options) -> tuple[Update, list[torch.Tensor]]:
    update = Update(addon, **options)
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        g_u, g_c = (
            [torch.randn(shape, generator=generator) * 1e-3 for shape in SHAPES] for _ in range(2)
        )
        out = update.combine(g_u, g_c)
    return update, out


def test_room_can_be_made_before_the_first_step():
    p = torch.nn.Parameter(torch.ones(3, 2))
    update = Update("focus")
    update.prepare([p])
    [moment] = update.state_dict()["moments_u"]
    assert moment.shape == (3, 2)
    assert moment.dtype == torch.float32
    none = Update("and")
    none.prepare([p])
    assert none.state_dict()["moments_u"] == []
