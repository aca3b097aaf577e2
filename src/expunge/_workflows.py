"""Whole jobs on files: train an initial model, retrain the ideal one, unlearn."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import nn

from expunge._artifact import Artifact, Card, DataCard, ModelCard, load_artifact, save_artifact
from expunge._errors import DataError, InvalidInput
from expunge._files import refuse_existing
from expunge._part_values import describe
from expunge.data import DATASETS, SCENARIOS, Augment, ImageSet, Splits, load, parse_scenario
from expunge.distributed import SINGLE, Group
from expunge.distributed._shared_inference import shared_passes
from expunge.engine import Callback, Procedure, Recipe, Result, Run, train, unlearn
from expunge.evaluation import Predictions, Scores, predict, score, view
from expunge.methods import Retrain
from expunge.models import build_model, channel_statistics

Moment = Literal["never", "end", "every-epoch"]


@dataclass(frozen=True)
class Forgetting:
    """A data set divided by a scenario."""

    splits: Splits
    forget: ImageSet
    retain: ImageSet


def default_model(splits: Splits) -> str:
    """A model of a size that suits the images."""
    return "small-cnn" if min(splits.train.shape[1:]) < 28 else "resnet18"


def default_augment(splits: Splits) -> Augment | None:
    """Random crops and mirror images as in the paper; none for images too small to crop."""
    return Augment(padding=4, flip=splits.flip) if min(splits.train.shape[1:]) >= 28 else None


def divide(splits: Splits, scenario: str, seed: int) -> Forgetting:
    """The forget and retain sets of a scenario."""
    chosen = parse_scenario(scenario).pick(splits.train, seed)
    return Forgetting(
        splits, splits.train.subset(chosen.forget), splits.train.subset(chosen.retain)
    )


def train_initial(
    data: str,
    out: Path,
    *,
    model: str | None = None,
    width: float = 1.0,
    recipe: Recipe | None = None,
    seed: int = 0,
    limit: int | None = None,
    device: str = "auto",
    force: bool = False,
) -> Artifact:
    """Train a model on a data set's training part and write it to ``out``."""
    refuse_existing(out, force=force)
    recipe = recipe or Recipe()
    splits = load(data, limit=limit)
    name = model or default_model(splits)
    mean, std = channel_statistics(splits.train.images)
    built = ModelCard(
        name=name,
        num_classes=splits.train.num_classes,
        in_channels=splits.train.shape[0],
        width=width,
    )
    net = build_model(**built.model_dump(), mean=mean, std=std, seed=seed)
    card = Card(
        stage="initial",
        model=built,
        data=DataCard(
            spec=absolute_spec(data), limit=limit, fingerprint=splits.train.fingerprint()
        ),
        seed=seed,
        recipe=asdict(recipe),
    )
    result = train(
        net,
        splits.train,
        recipe=recipe,
        augment=default_augment(splits),
        seed=seed,
        device=device,
        checkpoint=_beside(out),
        title="initial",
    )
    return _finish(out, result, card)


def retrain_ideal(
    initial: Artifact,
    scenario: str,
    out: Path,
    *,
    data: str | None = None,
    scenario_seed: int = 0,
    seed: int | None = None,
    device: str = "auto",
    force: bool = False,
) -> Artifact:
    """Train the initial model's architecture from scratch on what is retained, by its recipe."""
    refuse_existing(out, force=force)
    if initial.card.stage != "initial":
        raise InvalidInput(f"Retrain from an initial model, not an {initial.card.stage} one.")
    parts = divide(data_of(initial.card, data), scenario, scenario_seed)
    seed = initial.card.seed + 1000 if seed is None else seed
    mean, std = channel_statistics(parts.retain.images)
    net = build_model(**initial.card.model.model_dump(), mean=mean, std=std, seed=seed)
    card = initial.card.model_copy(
        update={
            "stage": "ideal",
            "seed": seed,
            "scenario": absolute_spec(scenario),
            "scenario_seed": scenario_seed,
            "forgotten": parts.forget.fingerprint(),
        }
    )
    result = train(
        net,
        parts.retain,
        recipe=Recipe(**initial.card.recipe),
        augment=default_augment(parts.splits),
        seed=seed,
        device=device,
        checkpoint=_beside(out),
        title="ideal",
    )
    return _finish(out, result, card)


@dataclass(frozen=True)
class Unlearned:
    """An unlearned model with what it scored before and after, and the ideal beside it."""

    artifact: Artifact
    before: Scores | None = None
    after: Scores | None = None
    ideal: Scores | None = None


def unlearn_artifact(
    initial: Artifact,
    scenario: str,
    out: Path,
    procedure: Procedure,
    *,
    seed: int = 0,
    device: str = "auto",
    data: str | None = None,
    scenario_seed: int = 0,
    ideal: Artifact | None = None,
    evaluate_at: Moment = "end",
    force: bool = False,
    group: Group = SINGLE,
) -> Unlearned:
    """Unlearn a scenario from an initial model, score it, and write it to ``out``.

    In a ``group``, all processes make this call; the first one writes.
    """
    group.by_first(lambda: refuse_existing(out, force=force))
    if isinstance(procedure.method, Retrain):
        raise InvalidInput("To retrain from scratch, use `expunge retrain`.")
    parts = divide(data_of(initial.card, data), scenario, scenario_seed)
    reference = matching_ideal(ideal, initial.card, parts, scenario, scenario_seed)
    judge = Judge(parts, reference, attacks=True, group=group)
    result = unlearn(
        initial.model,
        forget=parts.forget,
        retain=parts.retain,
        augment=default_augment(parts.splits),
        checkpoint=_beside(out),
        callbacks=[EpochScores(judge)] if evaluate_at == "every-epoch" else [],
        seed=seed,
        device=device,
        group=group,
        **procedure.arguments(),
    )
    card = initial.card.model_copy(
        update={
            "stage": "unlearned",
            "seed": seed,
            "scenario": absolute_spec(scenario),
            "scenario_seed": scenario_seed,
            "forgotten": parts.forget.fingerprint(),
            "procedure": _written_down(procedure),
        }
    )
    artifact = _finish(out, result, card, group)
    if evaluate_at == "never":
        return Unlearned(artifact)
    before, after = judge.score(initial.model), judge.score(result.model)
    best = None if ideal is None else judge.score(ideal.model)
    return Unlearned(artifact, before, after, best)


@dataclass
class Judge:
    """Scores models on one scenario; the ideal model's predictions are computed once."""

    parts: Forgetting
    ideal: nn.Module | None = None
    attacks: bool = False
    group: Group = SINGLE
    _reference: Predictions | None = field(default=None, init=False)

    def score(self, model: nn.Module) -> Scores:
        """UA, RA, TA; with an ideal model rUA and FID; if asked for, the membership attacks."""
        with shared_passes(self.group):
            if self.ideal is not None and self._reference is None:
                self._reference = predict(self.ideal, self.parts.forget)
            views = view(
                model,
                forget=self.parts.forget,
                retain=self.parts.retain,
                test=self.parts.splits.test,
            )
        return self.group.by_first(lambda: score(views, self._reference, attacks=self.attacks))


class EpochScores(Callback):
    """Adds the scores to the history after every epoch."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def on_epoch(self, run: Run) -> None:
        run.record(**self.judge.score(run.model).as_dict())


def data_of(card: Card, override: str | None = None) -> Splits:
    """The data a model was trained on, checked by their fingerprint."""
    spec = override or card.data.spec
    splits = load(
        spec, seed=card.data.seed, val_fraction=card.data.val_fraction, limit=card.data.limit
    )
    if splits.train.fingerprint() != card.data.fingerprint:
        raise DataError(
            f"The training data at {spec} are not those the model was trained on: their "
            "fingerprint differs. Point --data at the original data."
        )
    return splits


def matching_ideal(
    ideal: Artifact | None, card: Card, parts: Forgetting, scenario: str, scenario_seed: int
) -> nn.Module | None:
    if ideal is None:
        return None
    if ideal.card.model.num_classes != card.model.num_classes:
        raise InvalidInput(
            f"The ideal model tells {ideal.card.model.num_classes} classes, the model "
            f"{card.model.num_classes}."
        )
    wanted = (parts.forget.fingerprint(), card.data.fingerprint)
    found = (ideal.card.forgotten, ideal.card.data.fingerprint)
    if ideal.card.stage != "ideal" or wanted != found:
        raise InvalidInput(
            f"The ideal model should be retrained without {scenario} (scenario seed "
            f"{scenario_seed}) of the same data. (got {ideal.card.stage}, {ideal.card.scenario}, "
            f"seed {ideal.card.scenario_seed})"
        )
    return ideal.model


def _written_down(procedure: Procedure) -> dict[str, Any] | None:
    """The procedure as plain values, where it can be told so (a user's own callable cannot)."""
    try:
        description: dict[str, Any] = describe(procedure)
    except InvalidInput:
        return None
    return description


def _finish(out: Path, result: Result, card: Card, group: Group = SINGLE) -> Artifact:
    card = card.model_copy(
        update={"epochs": result.history.epochs, "seconds": result.history.seconds}
    )
    group.by_first(lambda: save_artifact(out, result.model, card))
    if not group.is_first:
        return Artifact(result.model, card)
    _beside(out).unlink(missing_ok=True)
    return load_artifact(out)


def _beside(out: Path) -> Path:
    """Where the running state of the job that writes ``out`` is kept until it is done."""
    return out.with_name(out.name + ".checkpoint")


def absolute_spec(spec: str) -> str:
    """A spec with its path, if any, made absolute, so that it holds from any directory."""
    kind, colon, path = spec.partition(":")
    if kind not in DATASETS and kind not in SCENARIOS and Path(spec).expanduser().exists():
        return str(Path(spec).expanduser().resolve())
    if colon and kind.lower() not in ("random", "class") and path:
        return f"{kind}:{Path(path).expanduser().resolve()}"
    return spec
