"""Likelihoods of token sequences under a causal language model."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge.data.text import IGNORED as IGNORED


def next_token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean negative log-likelihood of the labelled tokens, each given those before it.

    ``labels`` [B, T] are the tokens themselves, -100 where there is nothing to predict; ``logits``
    [B, T, V] at one position are about the next, so they are shifted here. The mean is over all
    labelled tokens of the batch, in float32 at least. Class numbers [B] with logits [B, K] have no
    next position: for them this is the cross-entropy.

    >>> logits = torch.zeros(1, 3, 4)
    >>> float(next_token_loss(logits, torch.tensor([[-100, 1, 2]]))) == torch.tensor(4.0).log()
    tensor(True)
    """
    predicted, wanted = shifted(logits, labels)
    return F.cross_entropy(predicted, wanted, ignore_index=IGNORED)


def token_log_likelihoods(logits: Tensor, labels: Tensor) -> Tensor:
    """log π(y_t | y_<t) of each token [B, T-1]; 0 where there is nothing to predict."""
    predicted, wanted = shifted(logits, labels)
    losses = F.cross_entropy(predicted, wanted, ignore_index=IGNORED, reduction="none")
    return -losses.view(len(labels), -1)


def sequence_log_likelihood(logits: Tensor, labels: Tensor) -> Tensor:
    """log π(y|x) of each sequence [B]: the sum over its labelled tokens, each given the earlier."""
    return token_log_likelihoods(logits, labels).sum(dim=1)


def is_labelled(labels: Tensor) -> Tensor:
    """Which tokens are to be predicted [B, T-1]; of class numbers, all [B, 1]."""
    if labels.dim() == 2:
        return labels[:, 1:] != IGNORED
    return torch.ones_like(labels[:, None], dtype=torch.bool)


def labelled(logits: Tensor, labels: Tensor) -> Tensor:
    """The rows of logits [B, T, V] that are about a label, [N, V]; other logits as they are."""
    if logits.dim() != 3 or logits.shape[:-1] != labels.shape:
        return logits
    return logits[:, :-1][labels[:, 1:] != IGNORED]


def labelled_rows(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The logits that are about a label [N, V], in float32 at least, and those labels [N]."""
    predicted, wanted = shifted(logits, labels)
    if labels.dim() == 1:
        return predicted, wanted
    chosen = wanted != IGNORED
    return predicted.transpose(1, 2)[chosen], wanted[chosen]


def count_of(targets: Tensor) -> int:
    """The number of items that a mean over a batch averages: labelled tokens, or examples.

    >>> count_of(torch.tensor([[1, 2, 3], [4, 5, -100]])), count_of(torch.tensor([0, 1]))
    (3, 2)
    """
    if is_token_labels(targets):
        return int((targets[:, 1:] != IGNORED).sum())
    return len(targets)


def is_token_labels(targets: Tensor) -> bool:
    """Whether targets are token sequences [B, T]."""
    return targets.dim() == 2 and not targets.is_floating_point()


def check_token_loss(loss: object) -> None:
    """Refuse a user's loss where the method defines its own."""
    if loss not in (F.cross_entropy, next_token_loss):
        raise InvalidInput(
            "This method's losses are token likelihoods: leave `loss` out, or take "
            f"`neg-grad-plus`, which reads it. (got {getattr(loss, '__name__', loss)})"
        )


def shifted(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [B, V, T-1] and the next tokens [B, T-1]; or [B, K] and [B], unchanged."""
    if logits.shape[:-1] != labels.shape or labels.dim() not in (1, 2):
        raise InvalidInput(
            "Token losses need logits [B, T, V] with labels [B, T], or [B, K] with [B]. "
            f"(got {list(logits.shape)} with {list(labels.shape)})"
        )
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if labels.dim() == 1:
        return wide, labels
    wanted = labels[:, 1:]
    _check_tokens(wanted, logits.shape[-1])
    return wide[:, :-1].transpose(1, 2), wanted


def _check_tokens(wanted: Tensor, vocabulary: int) -> None:
    """Refuse labels outside the vocabulary, or none; only on the CPU, to wait for no device."""
    if wanted.device.type != "cpu":
        return
    labels = wanted[wanted != IGNORED]
    if not len(labels):
        raise InvalidInput(
            f"A batch should have a token to predict: labels other than {IGNORED} after the first "
            f"position. (got labels [B, T-1] = {list(wanted.shape)}, all ignored)"
        )
    low, high = labels.aminmax()
    if low < 0 or high >= vocabulary:
        bad = int(low if low < 0 else high)
        raise InvalidInput(
            f"Labels should be in 0..{vocabulary - 1}, or {IGNORED} to be ignored. (got {bad})"
        )
