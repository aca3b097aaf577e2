"""A small convolutional network for small grey images: the model of the demo."""

from __future__ import annotations

from torch import Tensor, nn

from expunge.models._normalise import scaled


class SmallCNN(nn.Module):
    """Three 3x3 convolutions, one pooling, global average; 32 to 64 channels times ``width``.

    Use it for small images, and for tests and demonstrations that have to take seconds.

    Reference: none; the usual smallest network that learns digits by heart.
    """

    def __init__(self, num_classes: int = 10, in_channels: int = 1, width: float = 1.0) -> None:
        super().__init__()
        a, b, c = (scaled(n, width) for n in (32, 64, 64))
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, a, 3, padding=1, bias=False),
            nn.BatchNorm2d(a),
            nn.ReLU(inplace=True),
            nn.Conv2d(a, b, 3, padding=1, bias=False),
            nn.BatchNorm2d(b),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2, ceil_mode=True),  # an image may be 1 x 1
            nn.Conv2d(b, c, 3, padding=1, bias=False),
            nn.BatchNorm2d(c),
            nn.ReLU(inplace=True),
        )
        self.head = nn.Linear(c, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        logits: Tensor = self.head(x.mean(dim=(2, 3)))
        return logits
