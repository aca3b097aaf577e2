"""VGG16 with batch normalisation for small images (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

from torch import Tensor, nn

from expunge.models._normalise import scaled

_STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class VGG16(nn.Module):
    """Thirteen 3x3 convolutions in five pooled stages, then 512-512-classes with dropout.

    Channels are multiplied by ``width``; 15.3 M parameters at 1. Images smaller than 32x32 skip the
    poolings that no longer fit.

    Use it to compare with publications, or at ``width=0.25`` for real images on a few cores.

    Reference: K. Simonyan, A. Zisserman, *Very Deep Convolutional Networks for Large-Scale Image
    Recognition*, ICLR 2015, with batch normalisation.

    Deviation: the paper's released code has another VGG16, :class:`ReleasedVGG16`.
    """

    def __init__(
        self,
        num_classes: int = 10,
        in_channels: int = 3,
        width: float = 1.0,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = in_channels
        for stage in _STAGES:
            for channels in stage:
                after = scaled(channels, width)
                layers += [
                    nn.Conv2d(before, after, 3, padding=1, bias=True),
                    nn.BatchNorm2d(after),
                    nn.ReLU(inplace=True),
                ]
                before = after
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(before, before),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(before, before),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(before, num_classes),
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new convolution kernels, scaled by their fan-out."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        logits: Tensor = self.classifier(x.mean(dim=(2, 3)))
        return logits


class ReleasedVGG16(nn.Module):
    """VGG16 as in the paper's released code: no bias before BatchNorm, a 2x2 map, 256-256-classes.

    Thirteen 3x3 convolutions in five stages, of which the last is not pooled but averaged to 2x2;
    no dropout. Channels and hidden units are multiplied by ``width``; 15.3 M parameters at 1.

    Use it to put results beside those of the paper's code.

    Reference: K. Simonyan, A. Zisserman, *Very Deep Convolutional Networks for Large-Scale Image
    Recognition*, ICLR 2015, with batch normalisation.
    """

    def __init__(self, num_classes: int = 10, in_channels: int = 3, width: float = 1.0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = in_channels
        for number, stage in enumerate(_STAGES):
            for channels in stage:
                after = scaled(channels, width)
                layers += [
                    nn.Conv2d(before, after, 3, padding=1, bias=False),
                    nn.BatchNorm2d(after),
                    nn.ReLU(inplace=True),
                ]
                before = after
            if number + 1 < len(_STAGES):
                layers.append(nn.MaxPool2d(2, ceil_mode=True))
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())
        hidden = scaled(256, width)
        self.classifier = nn.Sequential(
            nn.Linear(4 * before, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, num_classes),
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new convolution kernels, scaled by their fan-out."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x))
        return logits
