"""One inference pass over a split; every metric is derived from what it returns."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from expunge.data.batches import Data, as_arrays
from expunge.data.images import ImageSet
from expunge.errors import InvalidInput


class Predictions(NamedTuple):
    """Logits [N, K] and labels [N] of a split, in its own order, on the CPU."""

    logits: Tensor
    labels: Tensor

    @property
    def classes(self) -> Tensor:
        """The predicted class of each example."""
        return self.logits.argmax(dim=1)


@torch.inference_mode()
def predict(model: nn.Module, data: Data, *, batch_size: int = 1000) -> Predictions:
    """Run ``model`` in eval mode over ``data`` once; its mode is put back afterwards."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    training = model.training
    model.eval()
    try:
        batches = _batches(data, batch_size, device)
        pieces = [(model(x.to(device)).float().cpu(), y.cpu()) for x, y in batches]
    finally:
        model.train(training)
    if not pieces:
        raise InvalidInput("A split to evaluate should not be empty.")
    logits, labels = (torch.cat(part) for part in zip(*pieces, strict=True))
    return Predictions(logits, labels)


def _batches(data: Data, batch_size: int, device: torch.device) -> Any:
    if isinstance(data, DataLoader):
        return ((item[0], torch.as_tensor(item[1])) for item in data)
    if isinstance(data, (ImageSet, Dataset, Subset)):
        arrays = as_arrays(data)
        if arrays is not None:
            return zip(*(torch.split(part, batch_size) for part in arrays), strict=True)
    return DataLoader(data, batch_size=batch_size)
