"""ResNet18 for small images: a 3x3 stem, no initial pooling (He et al., 2016)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from expunge.models._normalise import scaled


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, projected where the shape changes."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x), inplace=True)


class ResNet18(nn.Module):
    """Four stages of two blocks, 64 to 512 channels times ``width``; 11.2 M parameters at 1.

    Use it to compare with publications, most of which have it; images of 32x32 and more.

    Reference: K. He, X. Zhang, S. Ren, J. Sun, *Deep Residual Learning for Image Recognition*, CVPR
    2016, with a first convolution of 3x3 and no pooling after it, as usual for small images.
    """

    def __init__(self, num_classes: int = 10, in_channels: int = 3, width: float = 1.0) -> None:
        super().__init__()
        sizes = [scaled(c, width) for c in (64, 128, 256, 512)]
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
