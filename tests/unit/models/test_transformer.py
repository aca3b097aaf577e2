"""The small language model."""

from __future__ import annotations

import pytest
import torch

from expunge._errors import InvalidInput
from expunge.methods._retrain import draw_again
from expunge.models import SmallTransformer


def small() -> SmallTransformer:
    torch.manual_seed(0)
    return SmallTransformer(vocabulary=13, context=6, width=8, layers=2, heads=2).eval()


def test_no_token_sees_what_comes_after_it() -> None:
    model, tokens = small(), torch.tensor([[1, 2, 3, 4, 5]])
    changed = tokens.clone()
    changed[0, 3] = 9
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 3], after[:, 3])
    assert torch.allclose(model(tokens[:, :3]), before[:, :3], atol=1e-6)


def test_the_order_of_tokens_matters() -> None:
    model = small()
    ahead, back = (model(torch.tensor([row])) for row in ([1, 2, 3], [2, 1, 3]))
    assert not torch.allclose(ahead[:, 2], back[:, 2])


def test_rows_beyond_the_context_and_uneven_heads_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"at most 6 tokens. \(got 7\)"):
        small()(torch.zeros(1, 7, dtype=torch.int64))
    with pytest.raises(InvalidInput, match="multiple of `heads`"):
        SmallTransformer(13, 6, width=9, heads=2)


def test_a_model_that_is_drawn_again_is_as_fresh_as_a_new_one() -> None:
    """Embeddings as torch draws them would be 50 times as large, and the model learn nothing."""
    fresh, again = small(), small()
    assert not draw_again(again)
    for embedding in (again.tokens, again.positions):
        assert 0.015 < float(embedding.weight.detach().std()) < 0.025
    assert not torch.equal(fresh.tokens.weight, again.tokens.weight)
