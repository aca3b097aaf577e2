"""Users' own models may count on the plain memory layout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from expunge.engine._step_times import measure_step_times
from expunge.evaluation import predict


class Viewing(nn.Module):
    """The usual first CNN: ``view`` after a convolution, which channels-last breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.head = nn.Linear(4 * 8 * 8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        logits: Tensor = self.head(x.view(len(x), -1))
        return logits


def test_a_model_that_views_after_a_convolution_can_be_evaluated() -> None:
    torch.manual_seed(0)
    model = Viewing()
    data = torch.utils.data.TensorDataset(torch.rand(7, 3, 8, 8), torch.arange(7) % 5)
    with torch.no_grad():
        expected = model(data.tensors[0])
    torch.testing.assert_close(predict(model, data, batch_size=3).logits, expected)
    pace = measure_step_times(model, *data.tensors, batch_size=4, repeat=1)
    assert pace.training > 0
    assert pace.inference > 0
