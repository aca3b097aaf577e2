"""``expunge evaluate``: score models that are there already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from expunge._errors import InvalidInput
from expunge._kinds import check_kind
from expunge.cli import _options as options
from expunge.cli._output import AsJson, Output, Quiet, number_table
from expunge.cli._unlearn import scores_data, scores_table, show_scores
from expunge.data import DATASETS

OURS = "expunge"
Definitions = Literal["expunge", "open-unlearning"]


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
    ] = OURS,
    lm_eval: Annotated[
        str | None,
        typer.Option(
            metavar="TASK", help="Score by a task of lm-evaluation-harness: a name, or a YAML file."
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Score a model on data that it should have forgotten, on retained data, and on unseen data.

    A regression is scored by its errors; metrics that need classes are listed as left out.

    A language model is scored on texts: --model causal:FOLDER --data tofu:FOLDER, or --data
    qa:FOLDER with --forget ids:FILE; see `expunge list metrics`. Or --lm-eval TASK, without --data.

    Example:  expunge evaluate unlearned.safetensors --ideal ideal.safetensors
    """
    files = {"unlearned": weights, "initial": initial, "ideal": ideal}
    given = {name: path for name, path in files.items() if path is not None}
    options.check_inputs(*given.values(), forget=forget)
    check_kind("definitions", Definitions, definitions)
    output = Output(as_json=as_json, quiet=quiet)
    if lm_eval is not None:
        if (data, forget, template, definitions) != (None, None, None, OURS):
            raise InvalidInput(
                "A task of lm-evaluation-harness has records and prompts of its own: leave `data`, "
                "`forget`, `template` and `definitions` out."
            )
        from expunge.request import evaluate_by_harness

        by_task = evaluate_by_harness(given, model=model or "", task=lm_eval)
        output.data(by_task)
        names = next(iter(by_task.values()))
        rows = ([name, *(f"{each[name]:.3f}" for each in by_task.values())] for name in names)
        output.show(number_table(["", *by_task], rows))
        return
    kind = (data or "").partition(":")[0]
    if data is not None and kind in DATASETS.built_in and DATASETS[kind].texts:
        from expunge.request import evaluate_text_files

        found = evaluate_text_files(
            given,
            model=model or "",
            data=data,
            template=template,
            forget=forget,
            seed=scenario_seed,
            definitions=definitions,  # type: ignore[arg-type]
        )
        output.data({name: score.as_dict() for name, score in found.items()})
        output.show(scores_table(found))
        return
    if template is not None or definitions != OURS:
        named = "template" if template is not None else "definitions"
        raise InvalidInput(f"`{named}` goes with texts, such as --data qa:FOLDER. (got {data})")
    options.check_inputs(model=model, data=data)

    from expunge.engine import Artifact, load_artifact
    from expunge.evaluation import evaluate_artifacts

    models: dict[str, Artifact] = {
        stage: load_artifact(path, model=model, data=data, stage=stage)  # type: ignore[arg-type]
        for stage, path in given.items()
    }
    best, scored = models.pop("ideal", None), models.pop("unlearned")
    scores = evaluate_artifacts(
        {scored.card.stage: scored} | models,
        ideal=best,
        scenario=forget,
        scenario_seed=scenario_seed,
        data=data,
    )
    output.data(scores_data(scores))
    show_scores(output, scores)
