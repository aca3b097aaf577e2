"""One inference pass over a split; a cache keeps its result until the model changes.

:class:`RunSplits` makes such passes for methods that look at more than the batches of a step.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from expunge._errors import InvalidInput
from expunge._kinds import Count, check_arguments, check_kind
from expunge.data import Data, as_arrays, as_batch, check_sized, labels_of, read_items
from expunge.data.text import TextExamples, TextSet
from expunge.distributed import SINGLE, Group, inference_group, interleave, shared_inference
from expunge.engine._device import ChannelsLastCalls, device_of
from expunge.engine._run_setup import check_weights
from expunge.engine._token_scores import TokenScores, score_tokens
from expunge.methods import SplitName, eval_mode, is_token_labels


class Predictions(NamedTuple):
    """Logits [N, K] and labels [N] of a split, in the order of the split, on the CPU."""

    logits: Tensor
    labels: Tensor

    @property
    def classes(self) -> Tensor:
        """The predicted class of each example."""
        return self.logits.argmax(dim=1)

    @property
    def right(self) -> Tensor:
        """How much of each example is right, in 0 to 1, float64 [N]: of a class, all or nothing."""
        return (self.classes == self.labels).double()

    @property
    def of_texts(self) -> bool:
        """Whether examples are texts, of which a part may be right."""
        return False

    def take(self, indices: Any) -> Predictions:
        """The examples at ``indices``, in that order."""
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        return Predictions(self.logits[chosen], self.labels[chosen])


@torch.inference_mode()
def predict(
    model: nn.Module,
    data: Data,
    *,
    batch_size: Count = 250,
    name: str = "data",
) -> Predictions:
    """Run ``model`` in eval mode over ``data`` once; its mode is restored afterwards.

    Images go through channels-last, unless the model cannot take them so
    (``x.view(len(x), -1)`` after a convolution). Logits that are not finite are refused. Within
    ``shared_inference``, processes take turns batch by batch. ``name`` is
    what messages call the data.
    """
    check_arguments(predict, locals())
    check_weights(model)
    group = inference_group()
    device = device_of(model)
    run = ChannelsLastCalls(model)
    with eval_mode(model):
        pieces = [
            (run(x).float().cpu(), y.cpu())
            for x, y in _batches(data, batch_size, group, device, name)
        ]
    pieces = interleave(group, pieces)
    if not pieces:
        raise InvalidInput(f"The {name} set should not be empty.")
    logits, labels = (torch.cat(part) for part in zip(*pieces, strict=True))
    return check_predictions(Predictions(logits.clone(), labels.clone()), f"the {name} set")


def check_predictions(predictions: Predictions, name: str = "the split") -> Predictions:
    """Return the predictions; refused unless logits [N, K] are finite and labels [N] below K."""
    check_kind(f"Predictions of {name}", Predictions, predictions)
    logits, labels = predictions
    for what, tensor in (("logits", logits), ("labels", labels)):
        check_kind(what, Tensor, tensor)
    if logits.ndim == 1 and labels.is_floating_point():  # a regression without a second axis
        predictions = predictions._replace(logits=logits[:, None])
        logits = predictions.logits
    if logits.ndim != 2 or labels.shape != logits.shape[:1] or len(logits) == 0:
        raise InvalidInput(
            f"Predictions of {name} should be logits [N, K] and labels [N], N > 0. "
            f"(got {tuple(logits.shape)} and {tuple(labels.shape)})"
        )
    wrong = (~torch.isfinite(logits).all(dim=1)).nonzero()
    if len(wrong):
        raise InvalidInput(
            f"Logits of {name} should be finite: {len(wrong)} of {len(logits)} examples have NaN "
            f"or infinity, the first at index {int(wrong[0])}. The model has diverged."
        )
    if labels.is_floating_point():  # a regression
        if not bool(labels.isfinite().all()):
            raise InvalidInput(f"Labels of {name} should be finite. (got NaN or infinity)")
        return predictions
    classes = logits.shape[1]
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        outside = labels[(labels < 0) | (labels >= classes)]
        raise InvalidInput(
            f"Labels of {name} should be in 0..{classes - 1}, the model's classes. "
            f"(got {int(outside[0])})"
        )
    return predictions


def _batches(
    data: Data, batch_size: int, group: Group, device: torch.device, name: str
) -> Iterable[tuple[Any, Tensor]]:
    """The batches of this process: every ``group.size``-th."""
    mine = slice(group.rank, None, group.size)
    if not isinstance(data, DataLoader):
        check_sized(data, name)
        arrays = as_arrays(data)
        if arrays is not None:
            x, y = (torch.split(part, batch_size)[mine] for part in arrays)
            return zip((part.to(device, non_blocking=True) for part in x), y, strict=True)
        order = range(len(data))  # type: ignore[arg-type]
        chosen = [list(order[start : start + batch_size]) for start in order[::batch_size]]
        data, mine = DataLoader(data, batch_sampler=chosen[mine]), slice(None)
    items = islice(read_items(data, name), mine.start, None, mine.step)
    return (as_batch(item, "retain", device, name)[:2] for item in items)


CachedResults = dict[tuple[str, int], tuple[weakref.ref[Any], Any]]
"""What a model said, by question and identity of the data."""


class PredictionCache:
    """What models said of data; whoever shares this object shares the passes.

    ``cache(model, data, ask)`` is ``ask(model, data)``, or what it returned before if the weights
    are the same: torch counted no change in place and, since fused optimizers are not counted,
    their sums are the same. Do not write to what is returned.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[nn.Module, tuple[tuple[float, ...], CachedResults]]
        self._known = weakref.WeakKeyDictionary()

    def __call__(
        self, model: nn.Module, data: Any, ask: Callable[[nn.Module, Any], Any] | None = None
    ) -> Any:
        ask = ask or predict
        answers, question = self._cached_results(model), (ask.__name__, id(data))
        reference, answer = answers.get(question, (None, None))
        # The identity of data that are gone may belong to others by now.
        if reference is None or reference() is not data:
            answer = ask(model, data)
            with suppress(TypeError):  # a list of examples cannot be referred to weakly
                answers[question] = weakref.ref(data), answer
        return answer

    def _cached_results(self, model: nn.Module) -> CachedResults:
        """What is kept of the model with its weights; nothing if changes are not counted."""
        tensors = [*model.parameters(), *model.buffers()]
        if not tensors or any(t.is_inference() for t in tensors):
            return {}
        sums = torch.stack([t.detach().sum(dtype=torch.float64).cpu() for t in tensors]).tolist()
        weights = (*map(id, tensors), *(t._version for t in tensors), *sums)
        if model not in self._known or self._known[model][0] != weights:
            self._known[model] = weights, {}
        return self._known[model][1]


@dataclass(eq=False)
class RunSplits:
    """The forget, retain and unseen data of a run; processes share the passes over them."""

    forget: Data
    retain: Data
    unseen: Data | None = None
    group: Group = SINGLE
    cache: PredictionCache = field(default_factory=PredictionCache)
    _known_labels: dict[SplitName, Tensor] = field(default_factory=dict, init=False)
    _known_rows: dict[SplitName, TensorDataset] = field(default_factory=dict, init=False)

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
            return found
        with shared_inference(self.group):
            return predict(model, data)

    def strata(self, split: SplitName) -> Tensor:
        """The stratum of every text, all 0 where there are none, or the class [N]."""
        labels = self.labels(split)
        return labels if labels.ndim == 1 else torch.zeros(len(labels), dtype=torch.int64)

    def given(self, split: SplitName) -> Tensor | None:
        """Where answers repeat their questions [N, T], to leave out when compared; None if none."""
        data = self._data(split)
        return data.given if isinstance(data, TextExamples) else None

    def token_log_probs(self, model: nn.Module, split: SplitName) -> Tensor:
        """log π(y_t | y_<t) of a split of texts [N, T] in eval mode, in float64, on the CPU.

        A column is a position in the row of tokens; NaN where there is nothing to predict. Of
        examples with a class, log π(y) [N, 1].
        """
        rows = self._token_rows(split)
        if rows is not None:
            scores: TokenScores = self.cache(model, rows, score_tokens)
            return torch.where(scores.answered, scores.log_probs, torch.nan)
        self.labels(split)  # refuses a regression, with what to do instead
        logits, labels = self.predict(model, split)
        return logits.double().log_softmax(dim=1).gather(1, labels[:, None])

    def _token_rows(self, split: SplitName) -> TensorDataset | None:
        """A split of texts, always the same object; None for examples with a class."""
        data = self._data(split)
        if isinstance(data, TextSet | TextExamples):
            return data if isinstance(data, TextSet) else data.texts
        arrays = None if isinstance(data, DataLoader) else as_arrays(data)
        if arrays is not None and is_token_labels(arrays[1]):
            return self._known_rows.setdefault(split, TensorDataset(*arrays))
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
