"""Models that classify images, vectors and texts: ResNet18, VGG16 and small networks.

Each has ``num_classes``, ``in_channels`` and ``width``, a factor on the channels of every layer.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

_STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def _scaled(channels: int, width: float) -> int:
    """``channels`` times the width factor, at least 1."""
    return max(1, round(channels * width))


def _convolution(before: int, after: int, *, bias: bool = False) -> list[nn.Module]:
    """A 3x3 convolution with batch normalisation and a ReLU."""
    convolution = nn.Conv2d(before, after, 3, padding=1, bias=bias)
    return [convolution, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]


def _linear(before: int, after: int) -> list[nn.Module]:
    """A linear layer with batch normalisation and a ReLU."""
    linear = nn.Linear(before, after, bias=False)
    return [linear, nn.BatchNorm1d(after), nn.ReLU(inplace=True)]


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, projected where the shape changes."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.stride = stride
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        # A stride outside the 1x1 convolution: within, oneDNN may crash (`fast_layout` says why).
        some = x if self.stride == 1 else x[:, :, :: self.stride, :: self.stride]
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(some), inplace=True)


class ResNet18(nn.Module):
    """Four stages of two blocks, 64 to 512 channels times ``width``; 11.2 M parameters at 1.

    Use it to compare with publications, most of which have it; images of 32x32 and more.

    Reference: K. He, X. Zhang, S. Ren, J. Sun, *Deep Residual Learning for Image Recognition*, CVPR
    2016, with a first convolution of 3x3 and no pooling after it, as usual for small images.
    """

    def __init__(self, num_classes: int = 10, in_channels: int = 3, width: float = 1.0) -> None:
        super().__init__()
        sizes = [_scaled(c, width) for c in (64, 128, 256, 512)]
        self.conv1 = nn.Conv2d(in_channels, sizes[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(sizes[0])
        blocks: list[nn.Module] = []
        before = sizes[0]
        for size, stride in zip(sizes, (1, 2, 2, 2), strict=True):
            blocks += [BasicBlock(before, size, stride), BasicBlock(size, size, 1)]
            before = size
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.blocks(x)
        logits: Tensor = self.head(x.mean(dim=(2, 3)))
        return logits


def _convolutions(
    in_channels: int, width: float, *, bias: bool, last_pool: bool
) -> tuple[list[nn.Module], int]:
    """Thirteen convolutions in five pooled stages, and the channels that come out of them."""
    layers: list[nn.Module] = []
    before = in_channels
    for stage in _STAGES:
        for channels in stage:
            after = _scaled(channels, width)
            layers += _convolution(before, after, bias=bias)
            before = after
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return layers if last_pool else layers[:-1], before


class _VGG(nn.Module):
    def reset_parameters(self) -> None:
        """Draw new convolution kernels, scaled by their fan-out."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class VGG16(_VGG):
    """Thirteen 3x3 convolutions in five pooled stages, then 512-512-classes with dropout.

    Channels are multiplied by ``width``; 15.3 M parameters at 1. Images smaller than 32x32 skip the
    poolings that no longer fit.

    Use it to compare with publications, or at ``width=0.25`` for real images on a few cores.

    Reference: K. Simonyan, A. Zisserman, *Very Deep Convolutional Networks for Large-Scale Image
    Recognition*, ICLR 2015, with batch normalisation.

    Deviation: the paper's released code has another VGG16, :class:`ReleasedVGG16`.
    """

    def __init__(
        self, num_classes: int = 10, in_channels: int = 3, width: float = 1.0, dropout: float = 0.5
    ) -> None:
        super().__init__()
        layers, before = _convolutions(in_channels, width, bias=True, last_pool=True)
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

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        logits: Tensor = self.classifier(x.mean(dim=(2, 3)))
        return logits


class ReleasedVGG16(_VGG):
    """VGG16 as in the paper's released code: no bias before BatchNorm, a 2x2 map, 256-256-classes.

    Thirteen 3x3 convolutions in five stages, of which the last is not pooled but averaged to 2x2;
    no dropout. Channels and hidden units are multiplied by ``width``; 15.3 M parameters at 1.

    Use it to put results beside those of the paper's code.

    Reference: K. Simonyan, A. Zisserman, *Very Deep Convolutional Networks for Large-Scale Image
    Recognition*, ICLR 2015, with batch normalisation.
    """

    def __init__(self, num_classes: int = 10, in_channels: int = 3, width: float = 1.0) -> None:
        super().__init__()
        layers, before = _convolutions(in_channels, width, bias=False, last_pool=False)
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())
        hidden = _scaled(256, width)
        self.classifier = nn.Sequential(
            nn.Linear(4 * before, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, num_classes),
        )
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x))
        return logits


class SmallCNN(nn.Module):
    """Three 3x3 convolutions, one pooling, global average; 32 to 64 channels times ``width``.

    Use it for small images, and for tests and demonstrations that have to take seconds.

    Reference: none; the usual smallest network that learns digits by heart.
    """

    def __init__(self, num_classes: int = 10, in_channels: int = 1, width: float = 1.0) -> None:
        super().__init__()
        a, b, c = (_scaled(n, width) for n in (32, 64, 64))
        self.features = nn.Sequential(
            *_convolution(in_channels, a),
            *_convolution(a, b),
            nn.MaxPool2d(2, ceil_mode=True),  # an image may be 1 x 1
            *_convolution(b, c),
        )
        self.head = nn.Linear(c, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        logits: Tensor = self.head(x.mean(dim=(2, 3)))
        return logits


class MLP(nn.Module):
    """Two hidden layers of 256 units times ``width``, with batch normalisation, for vectors.

    Use it for tables and vectors of features. It standardises columns by the rows it trains on.

    Reference: none; the textbook's multilayer perceptron.
    """

    takes = "vectors"

    def __init__(self, num_classes: int = 2, in_channels: int = 16, width: float = 1.0) -> None:
        super().__init__()
        hidden = _scaled(256, width)
        self.features = nn.Sequential(*_linear(in_channels, hidden), *_linear(hidden, hidden))
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


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
        hidden = _scaled(128, width)
        self.embedding = nn.EmbeddingBag(
            in_channels, _scaled(64, width), mode="mean", padding_idx=0
        )
        self.features = nn.Sequential(*_linear(_scaled(64, width), hidden))
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(self.embedding(x)))
        return logits
