"""A bag of words: a text is the mean of the embeddings of its tokens."""

from __future__ import annotations

from torch import Tensor, nn

from expunge.models._normalise import scaled


class TextBag(nn.Module):
    """Mean of token embeddings (64 times ``width``), one hidden layer of 128 times ``width``.

    Inputs are token ids [N, L]; 0 is padding and counts for nothing. ``in_channels`` is the number
    of ids. The order of words is lost, which short texts can often do without.

    Use it to classify short texts on a CPU.

    Reference: A. Joulin, E. Grave, P. Bojanowski, T. Mikolov, *Bag of Tricks for Efficient Text
    Classification*, EACL 2017, with a hidden layer.
    """

    takes = "tokens"

    def __init__(self, num_classes: int = 2, in_channels: int = 16_384, width: float = 1.0) -> None:
        super().__init__()
        hidden = scaled(128, width)
        self.embedding = nn.EmbeddingBag(in_channels, scaled(64, width), mode="mean", padding_idx=0)
        self.features = nn.Sequential(
            nn.Linear(scaled(64, width), hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
        )
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(self.embedding(x)))
        return logits
