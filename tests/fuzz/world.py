"""What the cases share: a few trained models and the names that expressions use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

import expunge
from expunge import methods, models, update
from expunge.data import load, parse_scenario
from expunge.evaluation._model_files import train_initial, unlearn_artifact
from tests.tiny import TinyConv, points


@dataclass(frozen=True)
class World:
    """Files that command lines name, made once."""

    folder: Path

    @cached_property
    def files(self) -> dict[str, str]:
        """Placeholders of a command line: what is there."""
        files = {
            "text": "neither weights nor a table\n",
            "file": "somebody's\n",
            "ids": "3\n7\n",
            "unknown": "99999\n",
        }
        for name, text in files.items():
            (self.folder / name).write_text(text)
        (self.folder / "quote.csv").write_text('id\n"3\n17\n')
        np.savez(self.folder / "a.npz", x=np.zeros((8, 8, 8), np.uint8), y=np.arange(8) % 2)
        pixels = np.random.default_rng(0).integers(0, 255, (60, 1, 1), dtype=np.uint8)
        names = np.array(["cat\x1b[2J", "dog\x9b31m", "\x1b]0;title\x07"])
        np.savez(self.folder / "pixel.npz", x=pixels, y=np.arange(60) % 3)
        np.savez(self.folder / "escapes.npz", x=pixels, y=np.arange(60) % 3, classes=names)
        rows = "".join(f"{k},review {k},{'ab'[k % 2]}\n" for k in range(40))
        (self.folder / "table.csv").write_text(f"id,text,label\n{rows}")
        torch.save(nn.Linear(2, 2).state_dict(), self.folder / "initial.pt")
        others = {"quote": "quote.csv", "npz": "a.npz", "torch": "initial.pt"}
        others |= {"pixel": "pixel.npz", "escapes": "escapes.npz", "table": "table.csv"}
        found = {name: str(self.folder / name) for name in files}
        found |= {name: str(self.folder / file) for name, file in others.items()}
        models = {"initial": self.initial, "unlearned": self.unlearned, "named": self.named}
        return found | {name: str(path) for name, path in models.items()}

    @cached_property
    def initial(self) -> Path:
        """A model of sixty digits."""
        return self._train("initial.safetensors", "digits")

    @cached_property
    def named(self) -> Path:
        """A model of classes whose names are commands for a terminal."""
        return self._train("named.safetensors", str(self.folder / "escapes.npz"))

    def _train(self, name: str, data: str) -> Path:
        recipe = expunge.Recipe(epochs=1, batch_size=32)
        options: dict[str, Any] = {"recipe": recipe, "limit": 60, "device": "cpu"}
        train_initial(data, self.folder / name, width=0.1, progress=False, **options)
        return self.folder / name

    @cached_property
    def unlearned(self) -> Path:
        """The same, having unlearned some of them."""
        from expunge.engine import Procedure
        from expunge.engine._artifact import load_artifact

        path = self.folder / "unlearned.safetensors"
        procedure = Procedure(epochs=1, batch_size=16)
        found = load_artifact(self.initial)
        unlearn_artifact(found, "random:0.2", path, procedure, evaluate_at="never")
        return path


class Net(nn.Linear):
    """Four numbers in, classes out."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__(4, classes)


def deep() -> nn.Module:
    """Two layers, whose outputs overflow before their weights do."""
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))


def _pair(targets: Any) -> list[TensorDataset]:
    made = []
    for seed in (0, 1):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(seed))
        made.append(TensorDataset(x, targets(x)))
    return made


def names() -> dict[str, Any]:
    """What the expressions of ``api.txt`` may use."""
    data = points(24)
    forget, retain, rest = (Subset(data, range(*ends)) for ends in ((0, 8), (8, 20), (20, 24)))
    images = [
        TensorDataset(torch.randint(0, 255, (6, 1, 5, 5), dtype=torch.uint8), torch.arange(6) % 3)
        for _ in range(2)
    ]

    def unlearn(model: Any = None, **options: Any) -> Any:
        chosen = {"forget": forget, "retain": retain, "epochs": 1, "batch_size": 4}
        chosen |= {"progress": False, "device": "cpu", **options}
        return expunge.unlearn(Net() if model is None else model, **chosen)

    def evaluate(model: Any = None, **options: Any) -> Any:
        chosen = {"forget": forget, "retain": retain, "test": rest, **options}
        return expunge.evaluate(Net() if model is None else model, **chosen)

    def backward(**changes: Any) -> None:
        model, x = Net(), torch.randn(4, 4)
        chosen = {
            "objective": lambda m, x: m(x).square().mean(),
            "constraint": lambda m, x: m(x).mean(),
            "params": lambda m, x: m.parameters(),
        } | changes
        update.Update().backward(**{name: make(model, x) for name, make in chosen.items()})

    def request(**options: Any) -> Any:
        chosen = {"model": Net(), "data": (data, points(12, seed=1), points(12, seed=2))}
        chosen |= {"ids": [3], "out": "requests", "dry_run": True, "progress": False, **options}
        return expunge.forget(**chosen)

    parts = {
        name: getattr(module, name)
        for module, listed in (
            (update, "Prob Focus Linear AdamMoments SampleMoments Update"),
            (methods, "Scrub RandomLabel"),
            (expunge, "Recipe Augment Callback"),
            (models, "build_model Normalise"),
        )
        for name in listed.split()
    }
    return parts | {
        "torch": torch,
        "nn": nn,
        "F": F,
        "nan": math.nan,
        "inf": math.inf,
        "Subset": Subset,
        "ConcatDataset": ConcatDataset,
        "DataLoader": DataLoader,
        "StepLR": torch.optim.lr_scheduler.StepLR,
        "SGD": torch.optim.SGD(Net().parameters(), lr=0.1),
        "BCE": F.binary_cross_entropy_with_logits,
        "Net": Net,
        "Deep": deep,
        "Conv": TinyConv,
        "data": data,
        "forget": forget,
        "retain": retain,
        "copies": TensorDataset(*(tensor[:8].clone() for tensor in data.tensors)),
        "hot": _pair(lambda x: (x[:, :3] > 0).float()),
        "numbers": _pair(lambda x: x[:, :1]),
        "bytes_": images,
        "unlearn": unlearn,
        "evaluate": evaluate,
        "backward": backward,
        "request": request,
        "load": load,
        "parse_scenario": parse_scenario,
    }
