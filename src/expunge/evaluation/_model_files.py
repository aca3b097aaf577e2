"""Train an initial model, retrain the ideal one, unlearn and score: from file to file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from expunge._errors import InvalidInput
from expunge._files import refuse_existing
from expunge._part_values import describe
from expunge.data import absolute_spec, divide, load
from expunge.distributed import SINGLE, Group
from expunge.engine import Procedure, Recipe, Result, unlearn
from expunge.engine._artifact import (
    Artifact,
    Card,
    DataCard,
    ModelCard,
    load_artifact,
    load_card_data,
    matching_ideal,
    save_artifact,
)
from expunge.engine._model_from_config import (
    default_augment,
    default_model,
    sizes_for,
    train_from_config,
)
from expunge.evaluation._scorer import EpochScores, Scorer
from expunge.evaluation._scores import Scores
from expunge.methods import Retrain

EvaluateAt = Literal["never", "end", "every-epoch"]


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
    """Train a model on a dataset's training part and write it to ``out``."""
    refuse_existing(out, force=force)
    recipe = recipe or Recipe()
    splits = load(data, limit=limit)
    card = Card(
        stage="initial",
        model=ModelCard(
            name=model or default_model(splits), width=width, **sizes_for(splits.train)
        ),
        data=DataCard(
            spec=absolute_spec(data), limit=limit, fingerprint=splits.train.fingerprint()
        ),
        seed=seed,
        recipe=recipe.as_dict(),
    )
    result = train_from_config(
        card.model.model_dump(),
        splits.train,
        recipe=recipe,
        augment=default_augment(splits),
        seed=seed,
        device=device,
        checkpoint=_checkpoint_of(out),
        title="initial",
    )
    return _write(out, result, card)


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
    division = divide(load_card_data(initial.card, data), scenario, scenario_seed)
    seed = initial.card.seed + 1000 if seed is None else seed
    card = initial.card.model_copy(
        update={
            "stage": "ideal",
            "seed": seed,
            "scenario": absolute_spec(scenario),
            "scenario_seed": scenario_seed,
            "forgotten": division.forget.fingerprint(),
        }
    )
    result = train_from_config(
        card.model.model_dump(),
        division.retain,
        recipe=Recipe(**card.recipe),
        augment=default_augment(division.splits),
        seed=seed,
        device=device,
        checkpoint=_checkpoint_of(out),
        title="ideal",
    )
    return _write(out, result, card)


@dataclass(frozen=True)
class Unlearned:
    """An unlearned model with its scores before and after, and the ideal model's beside them."""

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
    evaluate_at: EvaluateAt = "end",
    force: bool = False,
    group: Group = SINGLE,
) -> Unlearned:
    """Unlearn a scenario from an initial model, score it, and write it to ``out``.

    In a ``group``, all processes make this call; the first one writes.
    """
    # What to forget, and whom to compare with.
    group.run_in_first(lambda: refuse_existing(out, force=force))
    if isinstance(procedure.method, Retrain):
        raise InvalidInput("To retrain from scratch, use `expunge retrain`.")
    division = divide(load_card_data(initial.card, data), scenario, scenario_seed)
    reference = matching_ideal(ideal, initial.card, division, scenario, scenario_seed)
    scorer = Scorer(division, reference, attacks=True, group=group)

    # Unlearn; a killed run resumes from its checkpoint beside ``out``.
    result = unlearn(
        initial.model,
        forget=division.forget,
        retain=division.retain,
        unseen=division.splits.val,
        augment=default_augment(division.splits),
        checkpoint=_checkpoint_of(out),
        callbacks=[EpochScores(scorer)] if evaluate_at == "every-epoch" else [],
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
            "forgotten": division.forget.fingerprint(),
            "procedure": _describe_if_plain(procedure),
        }
    )

    # Score all three models, then write: a model that cannot be scored leaves no file.
    if evaluate_at == "never":
        return Unlearned(_write(out, result, card, group))
    before, after = scorer.score(initial.model), scorer.score(result.model)
    best = None if ideal is None else scorer.score(ideal.model)
    return Unlearned(_write(out, result, card, group), before, after, best)


def _describe_if_plain(procedure: Procedure) -> dict[str, Any] | None:
    """The procedure as plain values; None if it has a part that has none (a user's callable)."""
    try:
        description: dict[str, Any] = describe(procedure)
    except InvalidInput:
        return None
    return description


def _write(out: Path, result: Result, card: Card, group: Group = SINGLE) -> Artifact:
    card = card.model_copy(update={"epochs": result.history.epochs})
    seconds = result.history.seconds
    group.run_in_first(lambda: save_artifact(out, result.model, card))
    if not group.is_first:
        return Artifact(result.model, card, seconds)
    _checkpoint_of(out).unlink(missing_ok=True)
    return replace(load_artifact(out), seconds=seconds)


def _checkpoint_of(out: Path) -> Path:
    """Where the state of the run that writes ``out`` is kept until it is done."""
    return out.with_name(out.name + ".checkpoint")
