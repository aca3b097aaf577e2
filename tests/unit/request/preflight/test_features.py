from __future__ import annotations

import pytest
import torch
from torch import nn

from expunge.data import Examples
from expunge.request.preflight._features import (
    MAX_WIDTH,
    features,
    nearest_neighbours,
    predict_with_features,
)
from tests.unit.request.worlds import Net, cosine, floats


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 22])
def test_nearest_is_the_literal_double_loop(block):
    generator = torch.Generator().manual_seed(0)
    queries, references = (torch.randn(n, 5, generator=generator) for n in (33, 17))
    queries[3] = 0
    similarity, where = nearest_neighbours(queries, references, block)
    for row, query in enumerate(queries):
        table = [cosine(query, reference) for reference in references]
        assert similarity[row] == pytest.approx(max(table), abs=1e-6)
        assert table[int(where[row])] == pytest.approx(max(table), abs=1e-6)


def test_rows_are_blocked_too():
    queries = torch.randn(2500, 4, generator=torch.Generator().manual_seed(0))
    similarity, where = nearest_neighbours(queries, queries)
    assert torch.equal(where, torch.arange(2500))
    torch.testing.assert_close(similarity, torch.ones(2500))


def test_features_are_the_input_of_the_last_linear_layer():
    net = Net().eval()
    data = floats(300, 0)
    with torch.no_grad():
        hidden = torch.relu(net.first(data.inputs.flatten(1) - 0.4))
        torch.testing.assert_close(features(net, data), hidden)
        torch.testing.assert_close(predict_with_features(net, data)[0].logits, net(data.inputs))
    assert not net._forward_hooks
    assert not net.last._forward_pre_hooks


def test_without_a_linear_layer_the_logits_stand_in():
    net = nn.Sequential(nn.Conv2d(1, 4, 6), nn.Flatten())
    data = floats(20, 0)
    with torch.no_grad():
        torch.testing.assert_close(features(net, data), net(data.inputs))


def test_wide_features_are_projected_and_large_cosines_kept():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 3 * MAX_WIDTH, generator=generator)
    x[1] = x[0] + 0.1 * torch.randn(3 * MAX_WIDTH, generator=generator)
    data = Examples(x, torch.zeros(6, dtype=torch.int64), ["a", "b"])
    found = features(nn.Linear(3 * MAX_WIDTH, 2), data)
    assert found.shape == (6, MAX_WIDTH)
    assert cosine(found[0], found[1]) == pytest.approx(cosine(x[0], x[1]), abs=2e-3)
    assert abs(cosine(found[0], found[2])) < 0.2
