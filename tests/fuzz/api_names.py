"""The names that the expressions of ``api.txt`` use: every entry point, with arguments that work.

An expression changes some of them: ``unlearn(lr="1")``. The data are changed in all splits, or in
those of ``only``, by functions ``x`` (of inputs), ``y`` (of labels), ``items`` (of an input and a
label, one example) and ``wrap`` (of a dataset): ``evaluate(y=lambda y: y.int())``.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, Subset, TensorDataset

import expunge
from expunge import audit, data, evaluation, methods, models, update
from expunge._errors import ExpungeError, InvalidInput
from tests import tiny
from tests.tiny import TinyConv, points

ENDS = {"forget": (0, 8), "retain": (8, 20), "test": (20, 24), "val": (24, 28)}
CHANGES = ("x", "y", "items", "wrap", "only", "base")


class Net(nn.Linear):
    """Four numbers in, classes out."""

    def __init__(self, classes: int = 3, features: int = 4) -> None:
        super().__init__(features, classes)


class Out(nn.Module):
    """A model that returns something else than logits, made of them."""

    def __init__(self, change: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.body, self.change = Net(), change

    def forward(self, x: Tensor) -> Any:
        return self.change(self.body(x))


class Named(nn.Module):
    """A model that takes its input by name and returns an object with ``logits``."""

    def __init__(self, body: nn.Module | None = None) -> None:
        super().__init__()
        self.body = body or Net()

    def forward(self, pixel_values: Any = None) -> Any:
        return types.SimpleNamespace(logits=self.body(pixel_values))


class Pair(Net):
    """A model of two inputs."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x + y)


class Stream(IterableDataset[Any]):
    """Examples without an order of their own."""

    def __init__(self, examples: Any) -> None:
        self.examples = examples

    def __iter__(self) -> Iterator[Any]:
        return iter([self.examples[k] for k in range(len(self.examples))])


class Unsized:
    """Examples that do not say how many they are."""

    def __init__(self, examples: Any) -> None:
        self.examples = examples

    def __getitem__(self, index: int) -> Any:
        return self.examples[index]


def deep() -> nn.Module:
    """Two layers, whose outputs overflow before their weights do."""
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))


def picture(x: Tensor, y: Tensor) -> tuple[Any, int]:
    """An example as an image file is read without a transform."""
    return Image.fromarray(x.reshape(2, 2).abs().mul(50).byte().numpy()), int(y)


def splits_of(
    x: Any = None,
    y: Any = None,
    items: Any = None,
    wrap: Any = None,
    only: Any = ENDS,
    base: Any = None,
) -> dict[str, Any]:
    """The four splits, changed."""
    inputs, labels = (base or points(28)).tensors
    made: dict[str, Any] = {}
    for name, (start, stop) in ENDS.items():
        own = [inputs[start:stop].clone(), labels[start:stop].clone()]
        if name not in only:
            made[name] = TensorDataset(*own)
            continue
        own = [change(part) if change else part for change, part in zip((x, y), own, strict=True)]
        part = [items(*pair) for pair in zip(*own, strict=True)] if items else TensorDataset(*own)
        made[name] = wrap(part) if wrap else part
    return made


def _divided(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The splits that some of the options describe, and the other options."""
    changes = {name: options[name] for name in CHANGES if name in options}
    return splits_of(**changes), {k: v for k, v in options.items() if k not in CHANGES}


def unlearn(model: Any = None, **options: Any) -> Any:
    """``expunge.unlearn``."""
    splits, rest = _divided(options)
    chosen = {"forget": splits["forget"], "retain": splits["retain"], "epochs": 1, "batch_size": 4}
    chosen |= {"progress": False, "device": "cpu", **rest}
    return tiny.unlearn(Net() if model is None else model, **chosen)


def train(model: Any = None, **options: Any) -> Any:
    """``expunge.train``."""
    splits, rest = _divided(options)
    recipe = expunge.Recipe(epochs=1, batch_size=4)
    chosen = {"recipe": recipe, "progress": False, "device": "cpu", **rest}
    return tiny.train(Net() if model is None else model, splits["retain"], **chosen)


def evaluate(model: Any = None, **options: Any) -> Any:
    """``expunge.evaluate``."""
    splits, rest = _divided(options)
    chosen = {name: splits[name] for name in ("forget", "retain", "test")} | rest
    return expunge.evaluate(Net() if model is None else model, **chosen)


def predict(model: Any = None, **options: Any) -> Any:
    """``expunge.evaluation.predict``."""
    splits, rest = _divided(options)
    return evaluation.predict(Net() if model is None else model, splits["forget"], **rest)


def each(**options: Any) -> str:
    """The four above, one after the other: all accept the arguments, or all refuse them."""
    refusals = []
    for call in (unlearn, train, evaluate, predict):
        try:
            call(**options)
        except ExpungeError as error:
            refusals.append(f"{call.__name__}: {error}")
    if len(refusals) == 4:
        raise InvalidInput(" | ".join(refusals))
    return f"refused by {len(refusals)}: {refusals}" if refusals else "accepted by all"


def backward(with_: Any = None, **changes: Any) -> None:
    """``Update.backward``, of functions of a model and a batch."""
    model, x = Net(), torch.randn(4, 4)
    chosen = {
        "objective": lambda m, x: m(x).square().mean(),
        "constraint": lambda m, x: m(x).mean(),
        "params": lambda m, x: m.parameters(),
    } | changes
    chosen_update = with_ or update.Update()
    chosen_update.backward(**{name: make(model, x) for name, make in chosen.items()})


def combine(with_: Any = None, **changes: Any) -> Any:
    """``Update.combine``."""
    gradients = [torch.randn(3), torch.randn(2, 2)]
    chosen = {"objective": gradients, "constraint": [g.clone() for g in gradients], **changes}
    return (with_ or update.Update()).combine(**chosen)


def examples(count: int = 12, classes: int = 3, seed: int = 0) -> data.Examples:
    """Vectors with a class each."""
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return data.Examples(x, torch.arange(count) % classes, [str(k) for k in range(classes)])


def predictions(count: int = 8, classes: int = 3, **changes: Any) -> Any:
    """Logits and labels."""
    chosen = {"logits": torch.randn(count, classes), "labels": torch.arange(count) % classes}
    return evaluation.Predictions(**chosen | changes)


def views(**changes: Any) -> Any:
    """Predictions of every split."""
    return evaluation.Views(
        **{name: predictions() for name in ("forget", "test", "retain")} | changes
    )


def run_audit(**changes: Any) -> Any:
    """``expunge.audit.run_audit``."""
    own = {"unlearned", "initial", "ideal", *ENDS}
    subject = {"unlearned": Net()}
    subject |= {name: examples(seed=k) for k, name in enumerate(("forget", "retain", "test"))}
    subject |= {name: value for name, value in changes.items() if name in own}
    options = {name: value for name, value in changes.items() if name not in own}
    return audit.run_audit(audit.AuditInput(**subject), **options)  # type: ignore[arg-type]


def request(**options: Any) -> Any:
    """``expunge.forget``, whose data are named otherwise."""
    parts = (points(24), points(12, seed=1), points(12, seed=2))
    chosen = {"model": Net(), "data": parts, "ids": [3], "out": "requests"}
    return expunge.forget(**chosen | {"dry_run": True, "progress": False, **options})


def _pair(targets: Any) -> list[TensorDataset]:
    inputs = [torch.randn(8, 4, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    return [TensorDataset(x, targets(x)) for x in inputs]


def names() -> dict[str, Any]:
    """What the expressions may use: all that is public, and the functions above."""
    whole = points(24)
    public: dict[str, Any] = {}
    for package in (expunge, update, methods, models, evaluation, data):
        public |= {name: getattr(package, name) for name in package.__all__}
    images = [
        TensorDataset(torch.randint(0, 255, (6, 1, 5, 5), dtype=torch.uint8), torch.arange(6) % 3)
        for _ in range(2)
    ]
    return (
        public
        | {
            "torch": torch,
            "nn": nn,
            "F": F,
            "np": np,
            "nan": math.nan,
            "inf": math.inf,
            "Subset": Subset,
            "ConcatDataset": ConcatDataset,
            "DataLoader": DataLoader,
            "TensorDataset": TensorDataset,
            "StepLR": torch.optim.lr_scheduler.StepLR,
            "SGD": torch.optim.SGD(Net().parameters(), lr=0.1),
            "BCE": F.binary_cross_entropy_with_logits,
            "Conv": TinyConv,
            "Deep": deep,
            "data": whole,
            "forget": Subset(whole, range(8)),
            "copies": TensorDataset(*(tensor[:8].clone() for tensor in whole.tensors)),
            "hot": _pair(lambda x: (x[:, :3] > 0).float()),
            "numbers": _pair(lambda x: x[:, :1]),
            "bytes_": images,
            "points": points,
        }
        | {own.__name__: own for own in OWN}
    )


OWN = (
    *(Net, Out, Named, Pair, Stream, Unsized, picture, unlearn, train, evaluate, predict, each),
    *(backward, combine, examples, predictions, views, run_audit, request),
)
