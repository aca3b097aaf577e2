"""Shadow models for U-LiRA: trained on a random half, unlearned by the procedure under test.

Every shadow serves all target examples. It trains on a random ``share`` of the retain set and a
random half of the targets, then unlearns those targets with the method and add-on under test. So
each target has been unlearned by one half of the shadows and never seen by the other, and N
trainings and N unlearnings judge any number of targets. Trainings are shared by every method and
add-on that is audited; only unlearnings are not.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from expunge import _tensors as tensors
from expunge import dispatch, engine
from expunge._errors import InvalidInput
from expunge._serialisation import describe, rebuild
from expunge.data import Augment, Examples, ImageSet
from expunge.evaluation.attacks._lira import ShadowScores, scaled_confidence
from expunge.store import Locked, Stage, Store, file_lock

VERSION = 1
HERE = "expunge.evaluation.attacks._shadow_models"
WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class ShadowPlan:
    """How many shadows to train, in pairs with complementary halves, of which model, and how."""

    model: engine.ModelCard
    recipe: engine.Recipe
    procedure: engine.Procedure
    augment: Augment | None = None
    count: int = 16
    share: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 4 or self.count % 2:
            raise InvalidInput(
                f"The number of shadows should be even and at least 4. (got {self.count})"
            )
        if not 0.0 < self.share <= 1.0:
            raise InvalidInput(f"`share` should be in (0, 1]. (got {self.share})")


@dataclass(frozen=True)
class Shadows:
    """The confidences of the shadows in the targets, before and after they unlearned."""

    trained: ShadowScores
    unlearned: ShadowScores
    notes: tuple[str, ...] = ()
    """Notes for the report, such as on damaged results that were computed again."""


def run_shadows(
    plan: ShadowPlan,
    *,
    retain: Examples,
    targets: Examples,
    store: Store,
    workers: int | None = None,
    device: str = "auto",
    report: Any = None,
) -> Shadows:
    """Train and unlearn the shadows that the store does not have; collect all confidences."""
    with shared_data(store, retain, targets) as path:
        stages = shadow_stages(plan, path, device)
        outcome = dispatch.run(stages, store, workers=workers, report=report)
        outcome.check()

    def collect(stages: list[Stage]) -> ShadowScores:
        scores = [tensors.load(store.open(each).path("scores.safetensors"))[0] for each in stages]
        confidence, seen = (
            np.stack([each[name].numpy() for each in scores]) for name in ("confidence", "seen")
        )
        return ShadowScores(confidence, seen.astype(bool))

    return Shadows(collect(stages[::2]), collect(stages[1::2]), tuple(outcome.warnings))


def shadow_stages(plan: ShadowPlan, data: Path, device: str = "auto") -> list[Stage]:
    """Two stages per shadow, training before unlearning."""
    base = {
        "data": data.stem,
        "model": plan.model.model_dump(),
        "recipe": plan.recipe.as_dict(),
        "augment": describe(plan.augment),
        "share": plan.share,
        "seed": plan.seed,
    }
    options = {"data": str(data), "device": device}
    stages = []
    for index in range(plan.count):
        trained = Stage(
            "shadow-train",
            base | {"index": index},
            run=f"{HERE}:train_shadow",
            version=VERSION,
            title=f"shadow {index}: train",
            options=options,
            cost=float(plan.recipe.epochs),
        )
        unlearned = Stage(
            "shadow-unlearn",
            {"procedure": describe(plan.procedure)},
            parents=(trained,),
            run=f"{HERE}:unlearn_shadow",
            version=VERSION,
            title=f"shadow {index}: unlearn",
            options=options,
            cost=0.2 * plan.procedure.epochs,
        )
        stages += [trained, unlearned]
    return stages


def train_shadow(context: dispatch.Context) -> None:
    """A stage: train one shadow; keep its weights and its confidences in the targets."""
    config = context.config
    retain, targets = _read_data(Path(context.options["data"]))
    seen, kept = draw_members(len(targets), len(retain), config)
    data = join(targets.subset(np.flatnonzero(seen)), retain.subset(kept))
    seed = int(config["seed"]) * 1_000_003 + int(config["index"])
    result = engine.train_from_config(
        config["model"],
        data,
        recipe=engine.Recipe(**config["recipe"]),
        augment=rebuild(config["augment"]),
        execution=_execution(context, seed),
    )
    tensors.save(context.folder / WEIGHTS, result.model.state_dict(), {})
    _save_scores(context.folder, result.model, targets, seen)


def unlearn_shadow(context: dispatch.Context) -> None:
    """A stage: the shadow unlearns the targets it saw, by the procedure under test."""
    parent = context.parents[0]
    retain, targets = _read_data(Path(context.options["data"]))
    seen, kept = draw_members(len(targets), len(retain), parent.config)
    procedure: engine.Procedure = rebuild(context.config["procedure"])
    left_out = np.setdiff1d(np.arange(len(retain)), kept)
    result = engine.unlearn(
        engine.restore_from_config(parent.config["model"], parent.path(WEIGHTS)),
        forget=targets.subset(np.flatnonzero(seen)),
        retain=retain.subset(kept),
        unseen=retain.subset(left_out) if len(left_out) else None,
        method=procedure,
        augment=rebuild(parent.config["augment"]),
        execution=_execution(context, int(parent.config["index"])),
    )
    _save_scores(context.folder, result.model, targets, seen)


def _execution(context: dispatch.Context, seed: int) -> engine.Execution:
    return engine.Execution(
        seed=seed,
        device=context.options["device"],
        checkpoint=context.folder / ".checkpoint",
        callbacks=[engine.StepReporter(context.progress)],
        progress=False,
    )


def draw_members(
    targets: int, retained: int, config: dict[str, Any]
) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], np.ndarray[Any, np.dtype[np.int64]]]:
    """The targets and the retained examples that a shadow sees, by seed and index alone.

    Shadows 2k and 2k+1 see complementary halves of the targets, so every target is seen by exactly
    half of an even number of shadows, and more shadows extend fewer.
    """
    seed, index = int(config["seed"]), int(config["index"])
    half = np.random.default_rng([seed, index // 2, 0]).permutation(targets) < targets // 2
    seen = half if index % 2 == 0 else ~half
    count = max(1, round(float(config["share"]) * retained))
    kept = np.random.default_rng([seed, index, 1]).permutation(retained)[:count]
    return seen, np.sort(kept)


def _save_scores(folder: Path, model: nn.Module, targets: Examples, seen: Any) -> None:
    predictions = engine.predict(model, targets)
    confidence = scaled_confidence(predictions.logits, predictions.labels)
    arrays = {"confidence": torch.from_numpy(confidence), "seen": torch.from_numpy(seen.copy())}
    tensors.save(folder / "scores.safetensors", arrays, {})


@contextmanager
def shared_data(store: Store, retain: Examples, targets: Examples) -> Iterator[Path]:
    """A file with the examples, for the workers alone: named after its content, gone at the end.

    The records to be forgotten are among them, so that what an audit which was killed left behind
    is removed by the next.
    """
    words = f"{retain.fingerprint()}/{targets.fingerprint()}/{len(retain.classes)}"
    name = hashlib.sha256(words.encode()).hexdigest()
    store.prepare()
    base = store.root / ".data"
    base.mkdir(exist_ok=True)
    remove_abandoned_data(base)
    folder = base / secrets.token_hex(8)
    with file_lock(folder.with_suffix(".lock")):
        try:
            folder.mkdir(mode=0o700)
            path = folder / f"{name}.safetensors"
            arrays = {"retain": retain.inputs, "retain_labels": retain.labels}
            arrays |= {"targets": targets.inputs, "targets_labels": targets.labels}
            tensors.save(path, arrays, {"classes": list(retain.classes)})
            yield path
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned_data(base: Path) -> None:
    """Remove the examples of audits that are no longer running: nobody holds their locks."""
    for path in list(base.iterdir()):
        try:
            with file_lock(path.with_suffix(".lock")):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                elif path.suffix != ".lock":
                    path.unlink(missing_ok=True)
        except Locked:
            continue


def _read_data(path: Path) -> tuple[Examples, Examples]:
    arrays, notes = tensors.load(path)
    images = arrays["retain"].ndim == 4 and arrays["retain"].dtype == torch.uint8
    retain, targets = (
        (ImageSet if images else Examples)(arrays[name], arrays[f"{name}_labels"], notes["classes"])
        for name in ("retain", "targets")
    )
    return retain, targets


def join(a: Examples, b: Examples) -> Examples:
    """The examples of both, those of ``a`` first, without their names."""
    return type(a)(torch.cat([a.inputs, b.inputs]), torch.cat([a.labels, b.labels]), a.classes)
