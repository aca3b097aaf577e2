"""Whole splits for methods that look at more than the batches of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from expunge._errors import InvalidInput
from expunge.data import Data, as_arrays, labels_of
from expunge.data.text import TextExamples, TextSet
from expunge.distributed import SINGLE, Group, shared_inference
from expunge.engine._predict import PredictionCache, Predictions, predict
from expunge.engine._token_scores import TokenRows, TokenScores, score_tokens
from expunge.methods import SplitName, is_token_labels


@dataclass(eq=False)
class RunSplits:
    """The forget, retain and unseen data of a run; processes share the passes over them."""

    forget: Data
    retain: Data
    unseen: Data | None = None
    group: Group = SINGLE
    cache: PredictionCache = field(default_factory=PredictionCache)
    _known_labels: dict[SplitName, Tensor] = field(default_factory=dict, init=False)
    _known_rows: dict[SplitName, TokenRows] = field(default_factory=dict, init=False)

    def labels(self, split: SplitName) -> Tensor:
        """The labels of a split [N], read once."""
        if split not in self._known_labels:
            labels = labels_of(self._data(split))
            if labels.is_floating_point():
                raise InvalidInput(
                    "This method compares the examples of each class, and a regression has no "
                    "classes, nor have several labels per example. Use a method that needs its "
                    "loss alone, such as neg-grad-plus or fine-tune."
                )
            self._known_labels[split] = labels
        return self._known_labels[split]

    def predict(self, model: nn.Module, split: SplitName) -> tuple[Tensor, Tensor]:
        """Logits [N, K] and labels [N] of a split; one pass serves all who ask before a step."""
        data = self._data(split)
        if not self.group:
            found: Predictions = self.cache(model, data)
            return found.logits, found.labels
        with shared_inference(self.group):
            predictions = predict(model, data)
        return predictions.logits, predictions.labels

    def strata(self, split: SplitName) -> Tensor:
        """The stratum of every text, all 0 where there are none, or the class [N]."""
        labels = self.labels(split)
        return labels if labels.ndim == 1 else torch.zeros(len(labels), dtype=torch.int64)

    def given(self, split: SplitName) -> Tensor | None:
        """Where answers repeat their questions [N, T], to leave out when compared; None if none."""
        data = self._data(split)
        return data.given if isinstance(data, TextExamples) else None

    def token_log_probs(self, model: nn.Module, split: SplitName) -> Tensor:
        """log p of every token to predict [N, T], NaN elsewhere; of classes, log p_y [N, 1]."""
        rows = self._token_rows(split)
        if rows is not None:
            scores: TokenScores = self.cache(model, rows, score_tokens)
            return torch.where(scores.answered, scores.log_probs, torch.nan)
        self.labels(split)  # refuses a regression, with what to do instead
        logits, labels = self.predict(model, split)
        return logits.double().log_softmax(dim=1).gather(1, labels[:, None])

    def _token_rows(self, split: SplitName) -> TextSet | TokenRows | None:
        """A split of texts, always the same object; None for examples with a class."""
        data = self._data(split)
        if isinstance(data, TextSet | TextExamples):
            return data if isinstance(data, TextSet) else data.texts
        arrays = None if isinstance(data, DataLoader) else as_arrays(data)
        if arrays is not None and is_token_labels(arrays[1]):
            return self._known_rows.setdefault(split, TokenRows(*arrays))
        if arrays is None and not isinstance(data, DataLoader) and isinstance(data[0], Mapping):
            raise InvalidInput(
                "This method asks about whole sets of texts: give them as `expunge.data.TextSet`, "
                f"or as tensors of tokens and labels. (got {type(data).__name__} as {split})"
            )
        return None

    def _data(self, split: SplitName) -> Data:
        data: Data | None = getattr(self, split)
        if data is None:
            raise InvalidInput(
                "This method compares with data that the model never saw: give `unseen`, such as "
                "a validation set."
            )
        return data
