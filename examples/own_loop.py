"""The focus vector in your own training loop: two lines, any model, any losses.

A small regression net learns its training data; we then push it away from one part
(objective) while holding it on the other (constraint), with and without the focus vector.
"""

import torch
from torch import nn

import expunge


def mean_square(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (model(x) - y).square().mean()


def run(addon: str) -> tuple[float, float]:
    torch.manual_seed(0)
    x = torch.randn(256, 8)
    y = x.sum(dim=1, keepdim=True).sin()
    forget, retain = (x[:64], y[:64]), (x[64:], y[64:])

    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(400):
        optimizer.zero_grad()
        mean_square(model, x, y).backward()
        optimizer.step()

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    update = expunge.Update(addon=addon, aggregate=expunge.WeightedSum(0.05, 0.95))
    feasible = 0
    for _ in range(100):
        update.backward(
            objective=-mean_square(model, *forget),
            constraint=mean_square(model, *retain),
            params=model.parameters(),
        )
        optimizer.step()
        feasible += update.diagnostics.feasible
    with torch.no_grad():
        losses = float(mean_square(model, *forget)), float(mean_square(model, *retain))
    print(
        f"{addon:>6}: loss on forget {losses[0]:.4f}, on retain {losses[1]:.4f}; "
        f"{feasible} of 100 steps feasible"
    )
    return losses


if __name__ == "__main__":
    for addon in ("none", "focus"):
        run(addon)
