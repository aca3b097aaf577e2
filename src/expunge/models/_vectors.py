"""A network for vectors: tables of numbers and categories."""

from __future__ import annotations

from torch import Tensor, nn

from expunge.models._normalise import scaled


class MLP(nn.Module):
    """Two hidden layers of 256 units times ``width``, with batch normalisation, for vectors.

    Use it for tables and vectors of features. It standardises columns by the rows it trains on.

    Reference: none; the textbook's multilayer perceptron.
    """

    takes = "vectors"

    def __init__(self, num_classes: int = 2, in_channels: int = 16, width: float = 1.0) -> None:
        super().__init__()
        hidden = scaled(256, width)
        self.features = nn.Sequential(
            nn.Linear(in_channels, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
        )
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits
