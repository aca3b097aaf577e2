"""The focus vector inside Lightning, with manual optimisation.

A small regression net has been trained on two parts of its data. A ``LightningModule`` pushes it
away from one part (objective) while holding it on the other (constraint). Lightning keeps the loop,
the loaders, the optimizer and the checkpoints; the update fills ``p.grad``, and its state is saved
in the checkpoint, so that a run can be resumed.

Run:  pip install 'expunge[lightning]'
      python examples/lightning_loop.py
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.utilities import CombinedLoader
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import expunge


def mean_square(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    x, y = batch
    return (net(x) - y).square().mean()


class Unlearning(lightning.LightningModule):
    """Both losses in one step, on a pair of batches."""

    def __init__(self, net: nn.Module, addon: str = "focus") -> None:
        super().__init__()
        self.automatic_optimization = False
        self.net = net
        self.update = expunge.Update(addon, expunge.WeightedSum(0.05, 0.95))

    def training_step(self, batch: dict[str, Any], index: int) -> None:
        optimizer = self.optimizers()
        self.update.backward(
            objective=-mean_square(self.net, batch["forget"]),
            constraint=mean_square(self.net, batch["retain"]),
            params=self.net.parameters(),
        )
        optimizer.step()
        seen = self.update.diagnostics
        shown = {"cosine": seen.cosine, "feasible": float(seen.feasible)}
        self.log_dict(shown, on_step=False, on_epoch=True, batch_size=1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["update"] = self.update.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.update.load_state_dict(checkpoint["update"])


def world() -> tuple[nn.Module, TensorDataset, TensorDataset]:
    """A net that fits both parts."""
    torch.manual_seed(0)
    x = torch.randn(256, 8)
    y = x.sum(dim=1, keepdim=True).sin()
    net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(400):
        optimizer.zero_grad()
        mean_square(net, (x, y)).backward()
        optimizer.step()
    return net, TensorDataset(x[:64], y[:64]), TensorDataset(x[64:], y[64:])


def loader(forget: TensorDataset, retain: TensorDataset) -> CombinedLoader:
    """An epoch is one pass over the forget set; the retain set is cycled through."""
    both = {
        "forget": DataLoader(forget, batch_size=16),
        "retain": DataLoader(retain, batch_size=48),
    }
    return CombinedLoader(both, mode="max_size_cycle")


def run(addon: str = "focus", epochs: int = 25, resume: Path | None = None) -> lightning.Trainer:
    """Unlearn for ``epochs`` in total; ``resume`` is a checkpoint to resume from."""
    net, forget, retain = world()
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", enable_checkpointing=False, **quiet
    )
    model = Unlearning(net, addon)
    trainer.fit(model, loader(forget, retain), ckpt_path=resume and str(resume))
    with torch.no_grad():
        losses = [float(mean_square(net, data.tensors)) for data in (forget, retain)]
    means = trainer.callback_metrics
    print(
        f"{addon:>6}: loss on forget {losses[0]:.4f}, on retain {losses[1]:.4f}; in the last epoch "
        f"cosine {means['cosine']:.3f}, feasible {100 * means['feasible']:.0f} %"
    )
    return trainer


if __name__ == "__main__":
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for addon in ("none", "focus"):
        run(addon)
