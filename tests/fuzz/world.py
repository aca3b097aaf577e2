"""What the cases share: a few trained models and the names that expressions use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import expunge
from expunge.evaluation._file_jobs import train_initial, unlearn_artifact


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
