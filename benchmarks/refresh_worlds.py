"""Models to refresh, their data, and models retrained without the records to forget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import expunge
from expunge import Augment, Recipe
from expunge import _tensors as tensors
from expunge.data import load
from expunge.data._splits import thin_out
from expunge.models import build_model

IDEAL_SEED, SECOND_SEED = 1000, 2000
"""Added to the seed of the initial model: the retrained model, and the one that is the floor."""
TEST_SIZE = 4000


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


@dataclass(frozen=True)
class Kind:
    """An architecture with its data and recipe."""

    data: Callable[[str], tuple[TensorDataset, TensorDataset]]
    model: Callable[[], nn.Module]
    recipe: Recipe
    forget: int
    augment: Augment | None = None


def images(name: str, size: int) -> Callable[[str], tuple[TensorDataset, TensorDataset]]:
    """``size`` training images as floats that the models take as they are, and test images."""

    def read(folder: str) -> tuple[TensorDataset, TensorDataset]:
        splits = load(f"{name}:{folder}", limit=size)
        test = thin_out(splits.test, TEST_SIZE)
        mean = splits.train.inputs.float().mean(dim=(0, 2, 3), keepdim=True)
        std = splits.train.inputs.float().std(dim=(0, 2, 3), keepdim=True)

        def scaled(part: Any) -> TensorDataset:
            return TensorDataset((part.inputs.float() - mean) / std, part.labels)

        return scaled(splits.train), scaled(test)

    return read


def table(folder: str) -> tuple[TensorDataset, TensorDataset]:
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
    x = (x - x.mean(dim=0)) / x.std(dim=0)
    return TensorDataset(x[:3000], y[:3000]), TensorDataset(x[3000:], y[3000:])


def texts(folder: str) -> tuple[TensorDataset, TensorDataset]:
    """Texts of 24 words of 500, 6 classes that prefer some words and some neighbours."""
    generator = torch.Generator().manual_seed(0)
    classes, words, length, count = 6, 500, 24, 5000
    liking = torch.randn(classes, words, generator=generator).mul(0.6).softmax(dim=1)
    labels = torch.randint(classes, (count,), generator=generator)
    tokens = torch.multinomial(liking[labels], length, replacement=True, generator=generator)
    wrong = torch.rand(count, generator=generator) < 0.1
    given = torch.where(wrong, torch.randint(classes, (count,), generator=generator), labels)
    return TensorDataset(tokens[:2500], given[:2500]), TensorDataset(tokens[2500:], given[2500:])


def network(name: str, **options: Any) -> Callable[[], nn.Module]:
    """A built-in model of 1/8 of its width that takes inputs as they are."""
    return lambda: build_model(name, width=1 / 8, mean=[0.0] * 3, std=[1.0] * 3, **options)


SGD = Recipe(epochs=25, batch_size=128, lr=0.1, weight_decay=0.0, schedule="one-cycle")
ADAMW = Recipe(
    epochs=25, batch_size=64, lr=2e-3, weight_decay=0.01, schedule="one-cycle", algorithm="adamw"
)
SHIFTS = Augment(padding=1, flip=True)

KINDS = {
    "vgg": Kind(images("cifar10", 5000), network("vgg16", dropout=0.0), SGD, 500, SHIFTS),
    "resnet": Kind(images("cifar10", 5000), network("resnet18"), SGD, 500, SHIFTS),
    "cnn": Kind(images("svhn", 4000), PlainCNN, ADAMW, 400),
    "mlp": Kind(
        table,
        lambda: nn.Sequential(
            nn.Linear(30, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 5)
        ),
        ADAMW,
        300,
    ),
    "text": Kind(texts, lambda: TextClassifier(500, 24, 6), ADAMW, 250),
}


@lru_cache
def data_of(kind: str, folder: str) -> tuple[TensorDataset, TensorDataset]:
    """Training and test data of a kind, read once."""
    return KINDS[kind].data(folder)


@dataclass(frozen=True, eq=False)
class World:
    """Models of one kind and seed; those that are trained are kept in ``store``."""

    kind: str
    seed: int
    store: Path
    data: str

    @property
    def spec(self) -> Kind:
        """What the model is, and how it is trained."""
        return KINDS[self.kind]

    @cached_property
    def parts(self) -> tuple[TensorDataset, TensorDataset, TensorDataset]:
        """What to forget, the same for all seeds; what is retained; test data."""
        train, test = data_of(self.kind, self.data)
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(7))
        chosen = {"forget": order[: self.spec.forget], "retain": order[self.spec.forget :]}
        forget, retain = (TensorDataset(*(t[i] for t in train.tensors)) for i in chosen.values())
        return forget, retain, test

    def fresh(self, seed: int) -> nn.Module:
        """A model that saw nothing."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.spec.model()

    def trained(self, role: str) -> tuple[nn.Module, float]:
        """The ``initial``, ``ideal`` or ``second`` model, and the processor seconds it took."""
        offset = {"initial": 0, "ideal": IDEAL_SEED, "second": SECOND_SEED}[role]
        seed, path = self.seed + offset, self.store / f"{self.kind}-{self.seed}-{role}.safetensors"
        model = self.fresh(seed)
        if not path.exists():
            train = data_of(self.kind, self.data)[0] if role == "initial" else self.parts[1]
            result = expunge.train(
                model,
                train,
                recipe=self.spec.recipe,
                augment=self.spec.augment,
                seed=seed,
                device="cpu",
                progress=False,
            )
            seconds = result.history.epochs[-1]["processor_seconds"]
            tensors.save(path, result.model.state_dict(), {"seconds": seconds})
        state, metadata = tensors.load(path)
        model.load_state_dict(state)
        return model.eval(), metadata["seconds"]
