"""The membership attacks by name, and one call that runs any of them."""

from __future__ import annotations

from collections.abc import Sequence

from expunge._registry import Registry
from expunge.evaluation._views import Views
from expunge.evaluation.attacks._attack import Attack
from expunge.evaluation.attacks._features import FEATURES
from expunge.evaluation.attacks._population import LossThreshold, SVCAttack
from expunge.evaluation.attacks._report import AttackReport, make_report
from expunge.evaluation.attacks._rmia import RMIA

ATTACKS: Registry[Attack] = Registry("attack")
ATTACKS.add("loss", LossThreshold())
for _feature in FEATURES:
    ATTACKS.add(f"svc-{_feature}", SVCAttack(_feature))
ATTACKS.add("rmia", RMIA())


def run_attack(
    attack: Attack | str,
    target: Views,
    references: Sequence[Views] = (),
    *,
    name: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> AttackReport:
    """Attack ``target`` and report, with bootstrap intervals at ``level``.

    >>> from expunge.evaluation import Predictions, LossThreshold
    >>> import torch
    >>> logits = torch.linspace(-3, 3, 200)[:, None] * torch.tensor([[1.0, -1.0]])
    >>> same = Predictions(logits, torch.zeros(200, dtype=torch.int64))
    >>> run_attack("loss", Views(forget=same, test=same)).auc.value
    0.5
    """
    part = ATTACKS[attack] if isinstance(attack, str) else attack
    member_scores = part.score(target, references, seed=seed)
    label = name or next((key for key in ATTACKS if ATTACKS[key] == part), type(part).__name__)
    return make_report(label, member_scores, level=level, resamples=resamples, seed=seed)
