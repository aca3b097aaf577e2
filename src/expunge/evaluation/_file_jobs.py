"""Train an initial model, retrain the ideal one, unlearn and score: from file to file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from expunge import engine
from expunge._errors import InvalidInput
from expunge._files import TORCH_SUFFIXES, check_weights_out, refuse_existing, write_text
from expunge._serialisation import describe
from expunge._specs import join_spec
from expunge.data import Division, Examples, Splits, absolute_spec, divide, load
from expunge.distributed import SINGLE, Group, as_group
from expunge.evaluation._scorer import EpochScores, Scorer
from expunge.evaluation._scores import Scores
from expunge.methods import Retrain
from expunge.models import is_external, read_model_spec

EvaluateAt = Literal["never", "end", "every-epoch"]
CHECKPOINT, TIMES = ".checkpoint", ".times.json"


def train_initial(
    data: str,
    out: Path,
    *,
    model: str | None = None,
    width: float = 1.0,
    recipe: engine.Recipe | None = None,
    seed: int = 0,
    limit: int | None = None,
    device: str = "auto",
    force: bool = False,
    progress: bool = True,
) -> engine.Artifact:
    """Train a model on a dataset's training part and write it to ``out``."""
    _check_out(out, force=force)
    splits = load(data, limit=limit)
    name, options = read_model_spec(model or engine.default_model(splits))
    width = options.pop("width", width)
    card = engine.Card(
        stage="initial",
        model=engine.ModelCard(name=name, width=width, options=options, **engine.sizes_for(splits)),
        data=engine.describe_data(engine.DataCard(spec=absolute_spec(data), limit=limit), splits),
        seed=seed,
        recipe=(recipe or engine.Recipe()).as_dict(),
    )
    execution = engine.Execution(seed=seed, device=device, progress=progress, title="initial")
    return _train(card, splits.train, splits, execution, out)


def retrain_ideal(
    initial: engine.Artifact,
    scenario: str,
    out: Path,
    *,
    data: str | None = None,
    scenario_seed: int = 0,
    seed: int | None = None,
    recipe: engine.Recipe | None = None,
    device: str = "auto",
    force: bool = False,
    progress: bool = True,
) -> engine.Artifact:
    """Train the initial model's architecture from scratch on what is retained, by its recipe."""
    _check_out(out, force=force)
    if initial.card.stage != "initial":
        raise InvalidInput(f"Retrain from an initial model, not an {initial.card.stage} one.")
    recipe = recipe or recipe_of(initial.card)
    division = divide(engine.load_card_data(initial.card, data), scenario, scenario_seed)
    seed = initial.card.seed + 1000 if seed is None else seed
    card = initial.card.model_copy(
        update=_forgetting("ideal", seed, division, scenario, scenario_seed)
        | {"recipe": recipe.as_dict()}
    )
    execution = engine.Execution(seed=seed, device=device, progress=progress, title="ideal")
    return _train(card, division.retain, division.splits, execution, out)


def _train(
    card: engine.Card, data: Examples, splits: Splits, execution: engine.Execution, out: Path
) -> engine.Artifact:
    """Train the model that ``card`` describes on ``data``, by its recipe, and write it."""
    result = engine.train_from_config(
        card.model.model_dump(),
        data,
        recipe=recipe_of(card),
        augment=engine.default_augment(splits),
        execution=replace(execution, checkpoint=_beside(out, CHECKPOINT)),
    )
    return _write(out, result, card)


def _forgetting(
    stage: str, seed: int, division: Division, scenario: str, scenario_seed: int
) -> dict[str, Any]:
    """What the card of a model without the forgotten examples says of them."""
    return {
        "stage": stage,
        "seed": seed,
        "scenario": absolute_spec(scenario),
        "scenario_seed": scenario_seed,
        "forgotten": division.forget.fingerprint(),
    }


def recipe_of(card: engine.Card) -> engine.Recipe:
    """How a model was trained; an error if its card does not say."""
    if not card.recipe:
        raise InvalidInput(
            "The weights do not say how they were trained, so that it cannot be repeated. Give "
            "--epochs, --batch-size and --lr to `expunge retrain`, or a `recipe` in the card "
            "beside the weights."
        )
    return engine.Recipe(**card.recipe)


def recipe_to_follow(method: Any, card: engine.Card) -> engine.Recipe | None:
    """The recipe of a model, if it is known and the method trains the model again."""
    recipe = engine.Recipe(**card.recipe) if card.recipe else None
    return None if recipe is None or method.own_recipe(recipe) is None else recipe


def unlearn_artifact(
    initial: engine.Artifact,
    scenario: str,
    out: Path,
    procedure: engine.Procedure,
    *,
    execution: engine.Execution = engine.Execution(),
    data: str | None = None,
    scenario_seed: int = 0,
    ideal: engine.Artifact | None = None,
    evaluate_at: EvaluateAt = "end",
    force: bool = False,
) -> tuple[engine.Artifact, dict[str, Scores]]:
    """Unlearn a scenario from an initial model and write it to ``out``; and scores by model.

    In a group of processes, all of them make this call; the first one writes.
    """
    # What to forget, and whom to compare with.
    group = as_group(execution.group)
    group.run_in_first(lambda: _check_out(out, force=force))
    if isinstance(procedure.method, Retrain):
        raise InvalidInput("To retrain from scratch, use `expunge retrain`.")
    division = divide(engine.load_card_data(initial.card, data), scenario, scenario_seed)
    reference = engine.matching_ideal(ideal, initial.card, division, scenario, scenario_seed)
    scorer = Scorer(division, reference, attacks=True, group=group)

    # Unlearn; a killed run resumes from its checkpoint beside ``out``.
    result = engine.unlearn(
        initial.model,
        forget=division.forget,
        retain=division.retain,
        unseen=division.splits.val,
        loss=engine.loss_for(division.splits.train),
        method=procedure,
        optimizer=recipe_to_follow(procedure.method, initial.card),
        augment=engine.default_augment(division.splits),
        execution=replace(
            execution,
            checkpoint=_beside(out, CHECKPOINT),
            callbacks=[EpochScores(scorer)] if evaluate_at == "every-epoch" else [],
        ),
    )
    card = initial.card.model_copy(
        update=_forgetting("unlearned", execution.seed, division, scenario, scenario_seed)
        | {"procedure": None}
    )
    with suppress(InvalidInput):  # a part that is a user's callable is not plain values
        card = card.model_copy(update={"procedure": describe(procedure)})

    # Score all three models, then write: a model that cannot be scored leaves no file.
    scores = {}
    if evaluate_at != "never":
        scores = {"initial": scorer.score(initial.model), "unlearned": scorer.score(result.model)}
        if ideal is not None:
            scores["ideal"] = scorer.score(ideal.model)
    return _write(out, result, card, group), scores


def _write(
    out: Path, result: engine.Result, card: engine.Card, group: Group = SINGLE
) -> engine.Artifact:
    epochs, seconds = result.history.epochs, result.history.seconds
    card = card.model_copy(update={"epochs": epochs})
    times = {
        "seconds": seconds,
        "epochs": [{k: v for k, v in row.items() if "seconds" in k} for row in epochs],
    }

    def write() -> None:
        write_text(_beside(out, TIMES), json.dumps(times, indent=1) + "\n")
        engine.save_artifact(out, result.model, card)

    group.run_in_first(write)
    if not group.is_first:
        return engine.Artifact(result.model, card, seconds)
    _beside(out, CHECKPOINT).unlink(missing_ok=True)
    named = join_spec(card.model.name, card.model.options)
    external = is_external(card.model.name)
    return replace(engine.load_artifact(out, model=named if external else None), seconds=seconds)


def _check_out(out: Path, *, force: bool) -> None:
    """Raise unless weights, their card and the times of their run may be written."""
    check_weights_out(out, force=force)
    if out.suffix.lower() in TORCH_SUFFIXES:
        refuse_existing(engine.sidecar_of(out), force=force)
    refuse_existing(_beside(out, TIMES), force=True)


def _beside(out: Path, ending: str) -> Path:
    """A file about the run that writes ``out``: its state until it is done (:data:`CHECKPOINT`), or
    its times (:data:`TIMES`), which are not in the weights: equal runs give equal files."""
    return out.with_name(out.name + ending)


def evaluate_artifacts(
    models: Mapping[str, engine.Artifact],
    *,
    ideal: engine.Artifact | None = None,
    scenario: str | None = None,
    scenario_seed: int = 0,
    data: str | None = None,
) -> dict[str, Scores]:
    """The scores of one or more models on what the first should forget, and of the ideal model."""
    first = next(iter(models.values()))
    scenario, scenario_seed = forgotten_by(first.card, scenario, scenario_seed)
    division = divide(engine.load_card_data(first.card, data), scenario, scenario_seed)
    for name, artifact in models.items():
        if artifact.card.data.fingerprint != first.card.data.fingerprint:
            raise InvalidInput(f"The {name} model was trained on other data than the first one.")
    reference = engine.matching_ideal(ideal, first.card, division, scenario, scenario_seed)
    scorer = Scorer(division, reference, attacks=True)
    scores = {name: scorer.score(artifact.model) for name, artifact in models.items()}
    return scores if ideal is None else scores | {"ideal": scorer.score(ideal.model)}


def forgotten_by(card: engine.Card, scenario: str | None, scenario_seed: int) -> tuple[str, int]:
    """What a model should have forgotten, and the seed of its draw: by its card, or as given."""
    if card.scenario is None or card.scenario_seed is None:
        if scenario is None:
            raise InvalidInput(
                f"An {card.stage} model has forgotten nothing, as far as its card says. Give "
                "--forget: what it was, or is, to forget."
            )
        return scenario, scenario_seed
    if scenario is not None and absolute_spec(scenario) != card.scenario:
        raise InvalidInput(
            f"The card says that the model unlearned {card.scenario}. (got {scenario}) Leave "
            "--forget out."
        )
    return card.scenario, card.scenario_seed
