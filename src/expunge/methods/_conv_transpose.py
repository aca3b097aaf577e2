"""CT: transpose every convolution kernel, then fine-tune."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge.methods._fine_tune import FineTune
from expunge.methods._problem import Problem


@dataclass(frozen=True)
class ConvTranspose(FineTune):
    """Swap height and width of every square convolution kernel; then FT.

    Use it as a strong baseline for convolutional networks, where there is time to fine-tune
    afterwards.

    Reference: the Machine Unlearning Challenge of NeurIPS 2023, as described by X. F. Cadet, A.
    Borovykh, M. Malekzadeh, S. Ahmadi-Abhari, H. Haddadi, *Deep Unlearn: Benchmarking Machine
    Unlearning for Image Classification*, 2024 (arXiv 2410.01276).

    Deviation: the released code of the paper fine-tunes for one epoch less.
    """

    @torch.no_grad()
    def prepare(self, problem: Problem) -> None:
        kernels = [m.weight for m in problem.model.modules() if isinstance(m, nn.Conv2d)]
        square = [w for w in kernels if w.requires_grad and w.shape[2] == w.shape[3] > 1]
        if not square:
            raise InvalidInput(
                "`conv-transpose` needs a model with square convolution kernels larger than 1x1 "
                "that may move. (got none)"
            )
        for weight in square:
            weight.copy_(weight.transpose(2, 3).clone())
