"""``expunge evaluate``: score models that are there already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expunge._errors import InvalidInput
from expunge._files import require_file
from expunge.cli import _options as options
from expunge.cli._output import AsJson, Output, Quiet
from expunge.cli._unlearn import scores_data, scores_table, show_scores
from expunge.data import DATASETS, parse_scenario

DEFINITIONS = ("expunge", "open-unlearning")


def evaluate_command(
    weights: Annotated[
        Path, typer.Argument(help="The model to score: .safetensors, or a .pt state dict.")
    ],
    initial: Annotated[Path | None, typer.Option(help="The model before unlearning.")] = None,
    ideal: Annotated[
        Path | None, typer.Option(help="The retrained model: for rUA and FID.")
    ] = None,
    forget: options.KnownScenario = None,
    scenario_seed: options.ScenarioSeed = 0,
    model: options.ForeignModel = None,
    data: options.MovedData = None,
    template: Annotated[
        str | None,
        typer.Option(help="Prompt that a causal:FOLDER was trained with, as for `forget`."),
    ] = None,
    definitions: Annotated[
        str,
        typer.Option(help="Of the metrics of texts: expunge, or open-unlearning to compare with."),
    ] = "expunge",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Score a model on data that it should have forgotten, on retained data, and on unseen data.

    A regression is scored by its errors; metrics that need classes are listed as left out.

    A language model is scored on texts: --model causal:FOLDER --data tofu:FOLDER, or --data
    qa:FOLDER with --forget ids:FILE; see `expunge list metrics`.

    Example:  expunge evaluate unlearned.safetensors --ideal ideal.safetensors
    """
    for path in (weights, initial, ideal):
        if path is not None:
            require_file(path)
    if forget is not None:
        parse_scenario(forget)
    if definitions not in DEFINITIONS:
        raise InvalidInput(
            f"`definitions` should be one of {', '.join(DEFINITIONS)}. (got {definitions!r})"
        )
    output = Output(as_json=as_json, quiet=quiet)
    kind = (data or "").partition(":")[0]
    if data is not None and kind in DATASETS.built_in and DATASETS[kind].texts:
        from expunge.request import evaluate_text_files

        files = {"unlearned": weights, "initial": initial, "ideal": ideal}
        given = {name: path for name, path in files.items() if path is not None}
        settings = {"model": model or "", "data": data, "template": template}
        settings["definitions"] = definitions
        found = evaluate_text_files(given, **settings, forget=forget, seed=scenario_seed)  # type: ignore[arg-type]
        output.data({name: score.as_dict() for name, score in found.items()})
        output.show(scores_table(found))
        return
    if template is not None or definitions != DEFINITIONS[0]:
        named = "template" if template is not None else "definitions"
        raise InvalidInput(f"`{named}` goes with texts, such as --data qa:FOLDER. (got {data})")
    options.check_model_and_data(model, data)

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
    output.data(scores_data(scores))
    show_scores(output, scores)
