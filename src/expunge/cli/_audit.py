"""``expunge audit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expunge._errors import InvalidInput
from expunge._files import refuse_existing, refuse_no_folder
from expunge.cli import _options as options
from expunge.cli._output import AsJson, Output, Quiet

if TYPE_CHECKING:
    from expunge.engine import Artifact, Procedure


MAX_MODELS = 1024
"""Shadow models: far more than any attack gains from."""


def _check_even(count: int) -> int:
    if count % 2 or count == 2:
        raise typer.BadParameter(f"Shadow models come in pairs, two pairs or more. (got {count})")
    return count


def audit_command(
    unlearned: Annotated[Path, typer.Argument(help="The unlearned model, from `expunge unlearn`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report.")],
    initial: Annotated[
        Path | None,
        typer.Option(help="The model before unlearning: to compare, and to validate U-LiRA."),
    ] = None,
    ideal: Annotated[
        Path | None,
        typer.Option(help="The retrained model: for rUA, FID and RMIA, and to validate U-LiRA."),
    ] = None,
    shadows: Annotated[
        int,
        typer.Option(
            min=0,
            max=MAX_MODELS,
            callback=_check_even,
            help="Shadow models for U-LiRA: an even number, best 16 or more; 0 for none.",
        ),
    ] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Shadow models to train in parallel.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Where to keep shadow models (default: a cache folder).")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, max=2**32 - 1, help="Seed of samples, bootstrap and shadow models."),
    ] = 0,
    forget: options.KnownScenario = None,
    scenario_seed: options.ScenarioSeed = 0,
    model: options.ForeignModel = None,
    data: options.MovedData = None,
    trust_card: Annotated[
        bool,
        typer.Option("--trust-card", help="Import the method that the weights' card names."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an earlier report.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Audit an unlearned model: metrics, and membership attacks with intervals.

    The attacks form a ladder: population attacks (seconds), RMIA with the ideal model as its
    reference, and U-LiRA with shadow models (longest; the only one that judges each example by
    itself). With --initial and --ideal, it also says which of the two the outputs on the forget set
    are nearer to.
    If interrupted, the same command resumes; audits of other add-ons reuse the shadow models.

    Example:  expunge audit unlearned.safetensors --initial initial.safetensors
    --ideal ideal.safetensors --shadows 16 -o audit
    """
    refuse_no_folder(out)
    refuse_existing(out / "report.json", force=force)
    options.check_inputs(unlearned, initial, ideal, forget=forget, model=model, data=data)

    from expunge.audit import AuditInput, run_audit, terminal, write_audit
    from expunge.audit import as_json as audit_data
    from expunge.data import cache_dir, divide
    from expunge.dispatch import Display
    from expunge.engine import default_augment, load_artifact, load_card_data, matching_ideal
    from expunge.evaluation import ShadowPlan, forgotten_by, recipe_of
    from expunge.store import Store

    output = Output(as_json=as_json, quiet=quiet)
    # The models, and what they were to forget.
    audited = load_artifact(unlearned, model=model, data=data, stage="unlearned")
    scenario, draw = forgotten_by(audited.card, forget, scenario_seed)
    parts = divide(load_card_data(audited.card, data), scenario, draw)
    if parts.forget.is_regression:
        raise InvalidInput(
            "Audits attack the probabilities of classes, and a regression has none. Score it with "
            "`expunge evaluate`, which has a membership attack on errors."
        )
    before = None if initial is None else load_artifact(initial, model=model, data=data)
    if before is not None and before.card.stage != "initial":
        raise InvalidInput(
            "--initial should be the model before unlearning, from `expunge train`. (got an "
            f"{before.card.stage} one, {initial})"
        )
    if before is not None and before.card.data.fingerprint != audited.card.data.fingerprint:
        raise InvalidInput("The initial model was trained on other data than the unlearned one.")
    retrained = None
    if ideal is not None:
        retrained = load_artifact(ideal, model=model, data=data, stage="ideal")
    inputs = AuditInput(
        audited.model,
        parts.forget,
        parts.retain,
        parts.splits.test,
        parts.splits.val if len(parts.splits.val) else None,
        initial=None if before is None else before.model,
        ideal=matching_ideal(retrained, audited.card, parts, scenario, draw),
    )
    # The models to train for the attacks.
    plan = None
    if shadows:
        plan = ShadowPlan(
            audited.card.model,
            recipe_of(audited.card),
            _procedure(audited, trust_card=trust_card),
            augment=default_augment(parts.splits),
            count=shadows,
            seed=seed,
        )
    # The audit and its report.
    with Display("shadow models", console=output.messages) as display:
        found = run_audit(
            inputs,
            plan=plan,
            store=Store(store or cache_dir() / "store"),
            workers=workers,
            seed=seed,
            progress=lambda text: output.message(f"  {text}", style="dim"),
            report=display,
        )
    written = write_audit(found, out)
    output.data(lambda: audit_data(found))
    output.show(terminal(found), highlight=True)
    output.wrote(f"{', '.join(p.name for p in written)} to {out}/")


def _procedure(model: Artifact, *, trust_card: bool) -> Procedure:
    """How the model was unlearned, as its card says; code that the card names needs trust."""
    from expunge._serialisation import code_of_parts, rebuild

    if model.card.procedure is None:
        raise InvalidInput(
            "The weights file does not say how the model was unlearned, so shadow models cannot "
            "repeat it. Audit without --shadows."
        )
    if not trust_card and (code := code_of_parts(model.card.procedure)):
        raise InvalidInput(
            f"The card of the weights names code, {', '.join(code)}, which was not imported. If "
            "you know it, use --trust-card; or audit without --shadows."
        )
    procedure: Procedure = rebuild(model.card.procedure)
    return procedure
