"""``expunge evaluate``: score models that are there already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expunge._files import require_file
from expunge.cli._options import (
    ForeignModel,
    KnownScenario,
    MovedData,
    ScenarioSeed,
    check_model_and_data,
)
from expunge.cli._output import AsJson, Output, Quiet
from expunge.cli._unlearn import scores_data, show_scores
from expunge.data import parse_scenario


def evaluate_command(
    weights: Annotated[
        Path, typer.Argument(help="The model to score: .safetensors, or a .pt state dict.")
    ],
    initial: Annotated[Path | None, typer.Option(help="The model before unlearning.")] = None,
    ideal: Annotated[
        Path | None, typer.Option(help="The retrained model: for rUA and FID.")
    ] = None,
    forget: KnownScenario = None,
    scenario_seed: ScenarioSeed = 0,
    model: ForeignModel = None,
    data: MovedData = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Score a model on data that it should have forgotten, on retained data, and on unseen data.

    A regression is scored by its errors; metrics that need classes are listed as left out.

    Example:  expunge evaluate unlearned.safetensors --ideal ideal.safetensors
    """
    for path in (weights, initial, ideal):
        if path is not None:
            require_file(path)
    if forget is not None:
        parse_scenario(forget)
    check_model_and_data(model, data)

    from expunge.engine import load_artifact
    from expunge.evaluation import evaluate_artifacts

    scored = load_artifact(weights, model=model, data=data, stage="unlearned")
    models = {} if initial is None else {"initial": load_artifact(initial, model=model, data=data)}
    scores = evaluate_artifacts(
        {scored.card.stage: scored} | models,
        ideal=None
        if ideal is None
        else load_artifact(ideal, model=model, data=data, stage="ideal"),
        scenario=forget,
        scenario_seed=scenario_seed,
        data=data,
    )
    output = Output(as_json=as_json, quiet=quiet)
    output.data(scores_data(scores))
    show_scores(output, scores)
