"""Models to forget from, what to forget, and models retrained without it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import expunge
from expunge import Augment, Recipe
from expunge import _tensors as tensors
from expunge.data import load
from expunge.data._splits import thin_out
from expunge.models import build_model

RETRAINED = 1000
"""Added to the seed of a model for the one that is retrained; twice for an independent one."""
SMALL_SETS = ("random:0.01", "records:150", "person:12", "person:60", "sequence:2")
"""Sets that share one retrained model, which saw none of them: together they are a few percent."""
SETS = ("random:0.1", *SMALL_SETS, "random:0.5", "class:3:0.4", "class:3", "sequence:10")
CLASS = 3
"""The class that records, and most of a person's records, are of."""
PART = 0.01
"""The share of the training data that each request of a sequence is for."""


class Data(NamedTuple):
    """Inputs that models take as they are, and their labels."""

    train: TensorDataset
    val: TensorDataset
    test: TensorDataset


class PlainCNN(nn.Module):
    """Four convolutions with biases and without normalisation, and two linear layers."""

    def __init__(self, channels: int = 3, classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for wide in (16, 24, 32, 32):
            layers += [nn.Conv2d(channels, wide, 3, padding=1), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] if wide < 32 or len(layers) > 8 else []
            channels = wide
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, classes))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x).flatten(1))
        return logits


class TextClassifier(nn.Module):
    """A transformer of two layers over tokens, with LayerNorm and dropout: BERT in small."""

    def __init__(self, tokens: int, length: int, classes: int, size: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(tokens, size)
        self.places = nn.Embedding(length, size)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(size, 4, 2 * size, dropout=0.1, batch_first=True)
            for _ in range(2)
        )
        for block in self.blocks:  # attention has another name for it
            block.self_attn.reset_parameters = block.self_attn._reset_parameters
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, classes)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.words(x) + self.places.weight
        for block in self.blocks:
            hidden = block(hidden)
        logits: Tensor = self.head(self.norm(hidden.mean(dim=1)))
        return logits


class AugmentingModel(nn.Module):
    """A model that augments its own inputs while it is trained.

    A request knows crops by up to 4 pixels alone; this way it trains with those of the recipe.
    """

    def __init__(self, model: nn.Module, augment: Augment) -> None:
        super().__init__()
        self.model, self.augment = model, augment

    def forward(self, x: Tensor) -> Tensor:
        x = self.augment(x, torch.default_generator) if self.training else x
        logits: Tensor = self.model(x)
        return logits


@dataclass(frozen=True)
class Kind:
    """An architecture with its data and recipe, and the sets that requests are made for."""

    data: Callable[[str], Data]
    model: Callable[[], nn.Module]
    recipe: Recipe
    augment: Augment | None = None
    sets: tuple[str, ...] = SETS


def images(name: str, size: int, folder: str) -> Data:
    """``size`` standardised training images, and all of val and test, but at most 10,000."""
    splits = load(f"{name}:{folder}", limit=size)
    mean = splits.train.inputs.float().mean(dim=(0, 2, 3), keepdim=True)
    std = splits.train.inputs.float().std(dim=(0, 2, 3), keepdim=True)
    parts = [splits.train, thin_out(splits.val, 1000), thin_out(splits.test, 10_000)]
    return Data(*(TensorDataset((p.inputs.float() - mean) / std, p.labels) for p in parts))


def digits(folder: str, *, flat: bool = False) -> Data:
    """Scikit-learn's digits: 1,000 to train on, 197 for val, 600 for test; as rows if ``flat``."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = torch.randperm(len(found.target), generator=torch.Generator().manual_seed(0))
    x, y = torch.tensor(found.images).float()[order] / 8 - 1, torch.tensor(found.target)[order]
    return _divided(x.flatten(1) if flat else x[:, None], y, 1000, 197)


def table(folder: str) -> Data:
    """Rows of 30 columns, 5 classes of 3 clusters each, a tenth of the labels wrong."""
    from sklearn.datasets import make_classification

    x, y = make_classification(
        6000,
        30,
        n_informative=12,
        n_redundant=6,
        n_classes=5,
        n_clusters_per_class=3,
        flip_y=0.1,
        class_sep=1.2,
        random_state=0,
    )
    x, y = torch.tensor(x).float(), torch.tensor(y)
    return _divided((x - x.mean(dim=0)) / x.std(dim=0), y, 3000, 500)


def texts(folder: str) -> Data:
    """Texts of 24 words of 500, 6 classes that prefer some words, a tenth of the labels wrong."""
    generator = torch.Generator().manual_seed(0)
    classes, words, length, count = 6, 500, 24, 5000
    liking = torch.randn(classes, words, generator=generator).mul(0.6).softmax(dim=1)
    labels = torch.randint(classes, (count,), generator=generator)
    tokens = torch.multinomial(liking[labels], length, replacement=True, generator=generator)
    wrong = torch.rand(count, generator=generator) < 0.1
    given = torch.where(wrong, torch.randint(classes, (count,), generator=generator), labels)
    return _divided(tokens, given, 2500, 500)


def _divided(x: Tensor, y: Tensor, train: int, val: int) -> Data:
    sizes = [train, val, len(x) - train - val]
    return Data(*(TensorDataset(*part) for part in zip(x.split(sizes), y.split(sizes))))  # noqa: B905


def network(name: str, **options: Any) -> nn.Module:
    """A built-in model of 1/8 of its width that takes inputs as they are."""
    return build_model(name, width=1 / 8, mean=[0.0] * 3, std=[1.0] * 3, **options)


def perceptron(columns: int, classes: int) -> nn.Module:
    """Two hidden layers of 128 units."""
    layers = [nn.Linear(columns, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, classes))


SGD = Recipe(epochs=25, batch_size=64, lr=0.05, schedule="one-cycle")
ADAMW = Recipe(
    epochs=25, batch_size=64, lr=2e-3, weight_decay=0.01, schedule="one-cycle", algorithm="adamw"
)
SHIFTS = Augment(padding=1, flip=True)
CIFAR = partial(images, "cifar10", 5000)
FEWER = ("random:0.1", "random:0.5", "class:3:0.4", "class:3")
VGG16 = partial(network, "vgg16", dropout=0.0)

KINDS = {
    "vgg": Kind(CIFAR, VGG16, SGD, SHIFTS),
    "vgg-10000": Kind(partial(images, "cifar10", 10_000), VGG16, SGD, SHIFTS, FEWER),
    "vgg-45000": Kind(
        partial(images, "cifar10", 45_000),
        VGG16,
        Recipe(epochs=14, batch_size=128, lr=0.1, schedule="one-cycle"),
        SHIFTS,
        ("random:0.1",),
    ),
    "vgg-svhn": Kind(partial(images, "svhn", 10_000), VGG16, SGD, Augment(1, False), FEWER),
    "resnet": Kind(CIFAR, partial(network, "resnet18"), SGD, SHIFTS, FEWER),
    "cnn": Kind(partial(images, "svhn", 4000), PlainCNN, ADAMW),
    "mlp": Kind(table, partial(perceptron, 30, 5), ADAMW),
    "text": Kind(texts, partial(TextClassifier, 500, 24, 6), ADAMW),
    "rows": Kind(partial(digits, flat=True), partial(perceptron, 64, 10), ADAMW, None, FEWER),
    "digits": Kind(
        digits,
        partial(build_model, "small-cnn", in_channels=1, width=0.5, mean=[0.0], std=[1.0]),
        Recipe(epochs=25, batch_size=32, lr=0.05, schedule="one-cycle"),
        None,
        FEWER,
    ),
}


@lru_cache
def data_of(kind: str, folder: str) -> Data:
    """The data of a kind, read once."""
    return KINDS[kind].data(folder)


def part(data: TensorDataset, indices: Sequence[int]) -> TensorDataset:
    """Some of the examples."""
    return TensorDataset(*(tensor[list(indices)] for tensor in data.tensors))


@dataclass(frozen=True)
class World:
    """Models of one kind and seed; those that are trained are kept in ``store``."""

    kind: str
    seed: int
    store: Path
    folder: str

    @property
    def spec(self) -> Kind:
        """What the model is, and how it is trained."""
        return KINDS[self.kind]

    @property
    def data(self) -> Data:
        """Training, validation and test data, the same for all seeds."""
        return data_of(self.kind, self.folder)

    def forget_set(self, scenario: str) -> list[int]:
        """The training records that a scenario names, sorted; the same for all seeds.

        ``sequence:K`` is the K-th of disjoint sets of :data:`PART`; ``random`` begins alike.
        """
        labels = self.data.train.tensors[1]
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(7))
        name, *sizes = scenario.split(":")
        if name == "random":
            return sorted(order[: round(float(sizes[0]) * len(labels))].tolist())
        if name == "sequence":
            size = round(PART * len(labels))
            return sorted(order[(int(sizes[0]) - 1) * size : int(sizes[0]) * size].tolist())
        first, second = (order[labels[order] == c] for c in (CLASS, CLASS + 1))
        if name == "class":
            share = float(sizes[1]) if len(sizes) > 1 else 1.0
            return sorted(first[: round(share * len(first))].tolist())
        count = int(sizes[0])
        if name == "records":
            return sorted(first[:count].tolist())
        if name == "person":  # two of three records of one class, the others of the next
            own, others = first[150:][: 2 * count // 3], second[: count - 2 * count // 3]
            return sorted(own.tolist() + others.tolist())
        raise ValueError(f"No such forget set: {scenario}")

    def forgotten(self, scenario: str) -> list[int]:
        """All records that are gone after a scenario: of a sequence, those of all its requests."""
        name, *sizes = scenario.split(":")
        if name != "sequence":
            return self.forget_set(scenario)
        each = (self.forget_set(f"{name}:{k + 1}") for k in range(int(sizes[0])))
        return sorted(i for records in each for i in records)

    def left_out(self, scenario: str) -> list[int]:
        """What the retrained model was not trained on: the forget set, or more."""
        own = [s for s in SMALL_SETS if s in self.spec.sets]
        names = own if scenario in own else [scenario]
        return sorted({i for name in names for i in self.forgotten(name)})

    def retained(self, left_out: Sequence[int]) -> TensorDataset:
        """The other training records."""
        gone = set(left_out)
        train = self.data.train
        return part(train, [i for i in range(len(train)) if i not in gone])

    def initial(self) -> tuple[nn.Module, float]:
        """The model trained on everything, and the processor seconds it took."""
        return self._trained((), self.seed)

    def retrained(self, left_out: Sequence[int], again: int = 0) -> tuple[nn.Module, float]:
        """A model trained without some records; ``again`` for independent ones."""
        return self._trained(left_out, self.seed + RETRAINED * (1 + again))

    def _trained(self, left_out: Sequence[int], seed: int) -> tuple[nn.Module, float]:
        """A model; it is trained once and kept."""
        spec = self.spec
        content = f"{self.kind} {spec.recipe} {spec.augment} {seed} {list(left_out)}"
        name = hashlib.sha256(content.encode()).hexdigest()[:16]
        path = self.store / f"{self.kind}-{seed}-{name}.safetensors"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = spec.model()
        if not path.exists():
            result = expunge.train(
                model,
                self.retained(left_out),
                recipe=spec.recipe,
                augment=spec.augment,
                execution=expunge.Execution(seed=seed, device="cpu", progress=False),
            )
            seconds = result.history.epochs[-1]["processor_seconds"]
            tensors.save(path, result.model.state_dict(), {"seconds": seconds})
        state, metadata = tensors.load(path)
        model.load_state_dict(state)
        return model.eval(), metadata["seconds"]
