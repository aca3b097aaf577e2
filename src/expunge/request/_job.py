"""The settings of a deletion request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from expunge._errors import InvalidInput
from expunge._options import Option, takes_options
from expunge._specs import join_part, split_part
from expunge.engine._execution import EXECUTION_OPTIONS
from expunge.engine._procedure import PLAIN_OPTIONS, Procedure
from expunge.engine._recipe import Recipe
from expunge.methods import METHODS
from expunge.update import ADDONS, MOMENTS

Count = Annotated[int, pydantic.Field(ge=1, strict=True)]
Seed = Annotated[int, pydantic.Field(ge=0, lt=2**63, strict=True)]
Positive = Annotated[float, pydantic.Field(gt=0, strict=True, allow_inf_nan=False)]
Share = Annotated[float, pydantic.Field(gt=0, lt=1, strict=True)]
Points = Annotated[float, pydantic.Field(gt=0, le=100, strict=True)]
Switch = Annotated[bool, pydantic.Field(strict=True)]
IncludeDuplicates = Literal["none", "exact", "near"]
"""Which duplicates of forgotten records are also forgotten; ``near`` includes the exact ones."""

InputForm = Literal["bytes", "fractions", "standardised"]
"""How images are handed to a model that is not built in."""

DEFAULT_METHOD, DEFAULT_ADDON, EXACT_METHOD = "refresh", "none", "retrain"
TRAINING_AGAIN = (DEFAULT_METHOD, EXACT_METHOD)
"""Methods that train on what is retained; known by name, as a recorded job loads no method."""
PROCEDURE_OPTIONS: tuple[Option, ...] = tuple(
    each
    for each in (*PLAIN_OPTIONS, *EXECUTION_OPTIONS)
    if each.name not in ("epochs", "aggregate", "beta")
)
"""The options of a procedure and of its execution that a job takes; ``max_epochs`` and ``alpha``
decide the others."""
EXECUTION_NAMES = {each.name for each in EXECUTION_OPTIONS}
ALWAYS_WRITTEN = {"method", "addon", "moments", "alpha", "lr", "batch_size", "batchnorm"}
"""The options that every job file and evidence states; the others only if they were chosen."""
RECORDED = "recorded"
"""The context of a validation that looks nothing up: see :meth:`Job.recorded`."""
OPTIONAL = (
    "inputs",
    "allow_unmapped",
    "skip_untrained",
    "training_epochs",
    "id_key",
    "keep_examples",
    "exact",
    "recipe",
    "budget",
    "margin_auc",
    "margin_records",
    "margin_test",
    "margin_of_class",
)
"""Fields that are stated only if they were given."""


@takes_options(PROCEDURE_OPTIONS)
class Job(pydantic.BaseModel):
    """What to forget from which model, and how: these fields, and :data:`PROCEDURE_OPTIONS`.

    Args:
        model: a built-in name or ``package.module:factory``; empty if the weights have a card.
        model_options: keyword arguments of the model or of its factory.
        weights: ``.safetensors``, or a ``.pt`` state dict.
        data: a built-in dataset (``npz:FILE``, ``folder:PATH``, …) or ``package.module:factory``;
            empty if the weights have a card that names it.
        val_fraction: size of val relative to train, if the data have no val split.
        val_from: the split that val is then taken out of. ``test`` leaves the training records, and
            so their indices, as they are; ``train`` is for models that were trained without val.
        inputs: how a model that is not built in gets images: as ``fractions`` in [0, 1] (the
            default, unless the preflight finds that it was trained with another of these), as
            ``bytes``, which are floats in 0..255, or ``standardised`` to mean 0 and deviation 1.
        ids: what to forget: indices, names, or values of ``id_column`` of ``records``.
        allow_unmapped: accept ``records`` that give some training records to nobody.
        skip_untrained: leave out ids without a training record instead of refusing them.
        include_duplicates: which duplicates in the training data are also forgotten: ``none``, the
            ``exact`` ones, or the ``near`` ones too, some of which may be there by chance.
        training_epochs: for how many epochs the model was trained, which says what retraining would
            cost; None takes the number from the card of the weights, if they have one.
        id_key: the file of the key that ids are hashed with, created if it is not there (default:
            the user's). Whoever holds it can look a person up; it stays with you.
        keep_examples: put thumbnails and labels of forgotten records into the bundle, where there
            is otherwise nothing of their content.
        max_epochs: more epochs are never run; None for as many as suit the method and the number of
            records.
        exact: train again from scratch on what is retained, by the recipe.
        recipe: how the model was trained, as fields of :class:`expunge.Recipe`, for ``exact`` and
            methods that train it again (default: that of the weights' card, if they have one).
        budget: the part of the epochs of the recipe that ``refresh`` trains for.
        margin_auc: the largest AUC of an attack.
        margin_records: points of accuracy between the records and unseen data of their classes.
        margin_test, margin_of_class: points of test accuracy that may be lost, in all and in one
            class. Margins that are not given follow from the number of examples, see
            :class:`expunge.request.verdict._checks.Margins`.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model: str = ""
    model_options: dict[str, Any] = {}
    weights: Path
    data: str = ""
    data_limit: Count | None = None
    data_seed: Seed = 0
    val_fraction: Share = 0.1
    val_from: Literal["test", "train"] = "test"
    inputs: InputForm | None = None
    ids: Path | None = None
    id_column: str | None = None
    records: Path | None = None
    allow_unmapped: Switch = False
    skip_untrained: Switch = False
    out: Path
    method: str = DEFAULT_METHOD
    addon: str = DEFAULT_ADDON
    alpha: Positive = 0.05
    max_epochs: Count | None = None
    exact: Switch = False
    recipe: dict[str, Any] = {}
    budget: Share | None = None
    margin_auc: Annotated[float, pydantic.Field(gt=0.5, lt=1, strict=True)] | None = None
    margin_records: Points | None = None
    margin_test: Points | None = None
    margin_of_class: Points | None = None
    include_duplicates: IncludeDuplicates = "none"
    training_epochs: Count | None = None
    id_key: Path | None = None
    keep_examples: Switch = False
    augment: Switch = False
    seed: Seed = 0
    device: str = "auto"

    @classmethod
    def recorded(cls, values: Mapping[str, Any]) -> Job:
        """The settings that an evidence states, as a job of which nothing is looked up.

        An evidence may be somebody else's: its method may be a plug-in, which is not loaded.
        """
        try:
            return cls.model_validate(values, context=RECORDED)
        except pydantic.ValidationError as error:
            raise InvalidInput(explain_violation(error)[1]) from error

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _prefer(
        cls,
        values: Any,
        validate: pydantic.ModelWrapValidatorHandler[Job],
        info: pydantic.ValidationInfo,
    ) -> Job:
        """Fill in the options that the method prefers and nobody chose."""
        job = validate(values)  # mistakes are found before the method, and with it torch, is loaded
        if not isinstance(values, dict) or info.context == RECORDED:
            return job
        if is_text_job(job):
            values = text_defaults(values) | values
            job = validate(values)
        missing = {k: v for k, v in preferred_settings(job.method).items() if k not in values}
        return validate(missing | values) if missing else job

    @pydantic.field_validator("include_duplicates", mode="before")
    @classmethod
    def _from_bool(cls, value: object) -> object:
        return {True: "exact", False: "none"}.get(value, value) if type(value) is bool else value

    @pydantic.field_validator("method")
    @classmethod
    def _known_method(cls, name: str, info: pydantic.ValidationInfo) -> str:
        if info.context == RECORDED:
            return name
        if METHODS.bare_name(name) == EXACT_METHOD:
            raise InvalidInput("to train again without the records, use `exact`")
        return name

    @pydantic.field_validator("recipe")
    @classmethod
    def _makes_a_recipe(cls, values: dict[str, Any]) -> dict[str, Any]:
        try:
            Recipe(**values)
        except TypeError as error:
            raise ValueError(f"{error}") from error
        return values

    @pydantic.field_validator("addon")
    @classmethod
    def _known_addon(cls, name: str, info: pydantic.ValidationInfo) -> str:
        if info.context != RECORDED:
            ADDONS.name(name)
        return name

    @pydantic.field_validator("moments", check_fields=False)
    @classmethod
    def _known_moments(cls, name: str | None, info: pydantic.ValidationInfo) -> str | None:
        if name is not None and info.context != RECORDED:
            MOMENTS.name(name)
        return name

    @pydantic.model_validator(mode="after")
    def _fits_together(self, info: pydantic.ValidationInfo) -> Job:
        if info.context == RECORDED:
            return self
        if self.id_column is not None and self.records is None:
            raise InvalidInput("`id_column` is a column of `records`, which should be given too")
        if self.budget is not None and (self.exact or METHODS.bare_name(self.method) != "refresh"):
            raise InvalidInput("`budget` is that of the method refresh")
        if self.trains_again and ADDONS.bare_name(self.addon) != "none":
            raise InvalidInput(
                f"the add-on {ADDONS.label(self.addon)} goes with a method that reads the records, "
                "such as SRL"
            )
        if self.trains_again and "alpha" in self.model_fields_set:
            raise InvalidInput("`alpha` goes with a method that reads the records, such as SRL")
        if self.allow_unmapped and self.records is None:
            raise InvalidInput("`allow_unmapped` is about `records`, which should be given too")
        _ = self.procedure  # refuses options that do not go together
        return self

    @pydantic.model_serializer(mode="wrap")
    def _omit_implied(self, serialize: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = serialize(self)
        for each in PROCEDURE_OPTIONS:
            needless = each.name not in ALWAYS_WRITTEN and values.get(each.name) == each.default
            by_recipe = each.name not in self.model_fields_set and self.trains_again
            if needless or (by_recipe and each.name != "method"):
                values.pop(each.name, None)
        for name in OPTIONAL:
            if not values.get(name):
                values.pop(name, None)
        return values

    @property
    def procedure(self) -> Procedure:
        """How to unlearn, without a recipe: see :meth:`procedure_by`."""
        return self.procedure_by(None)

    def procedure_by(self, recipe: Recipe | None) -> Procedure:
        """How to unlearn: for ``max_epochs`` at most, with β = 1 − α.

        A method that trains the model again takes from the ``recipe`` what the job does not say.
        """
        plain = {each.name: getattr(self, each.name) for each in PROCEDURE_OPTIONS}
        plain = {k: v for k, v in plain.items() if k not in EXECUTION_NAMES}
        if self.trains_again:
            plain = {k: v for k, v in plain.items() if k in self.model_fields_set}
            name, options = split_part(EXACT_METHOD if self.exact else self.method)
            options |= {} if self.budget is None else {"budget": self.budget}
            plain |= {"method": join_part(name, options), "addon": "none"}
        else:
            epochs = self.max_epochs or usual_epochs(self.method)
            plain |= {"epochs": epochs, "beta": 1.0 - self.alpha}
        procedure = Procedure.from_plain(plain, recipe)
        if self.max_epochs is not None and procedure.epochs > self.max_epochs:
            procedure = replace(procedure, epochs=self.max_epochs)
        return procedure

    @property
    def trains_again(self) -> bool:
        """Whether the method trains the model on what is retained, and never reads the records."""
        return self.exact or split_part(self.method)[0].lower() in TRAINING_AGAIN


TEXT_METHOD = "match-answers"
PUSHING: dict[str, Any] = {
    "addon": "FOCUS",
    "alpha": 0.05,
    "lr": 1e-4,
    "batch_size": 32,
    "max_epochs": 60,
}
"""Settings of a request to a language model with a method that pushes: small steps, as the run ends
where the records look unseen, and passes by that point if they are large."""
TEXT_DATA = "qa"
"""The format of data that are questions and answers."""


def text_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a request to a language model where ``values`` has none."""
    method = str(values.get("method", TEXT_METHOD))
    return {"method": method} | ({} if METHODS[method].needs_unseen else PUSHING)


def is_text_job(job: Job) -> bool:
    """Whether the model of a job is a language model."""
    return job.data.partition(":")[0] == TEXT_DATA


def preferred_settings(method: str) -> dict[str, Any]:
    """The settings of a job that suit ``method`` better than the general defaults."""
    if not METHODS[method].reads_forget:  # its recipe comes first
        return {}
    preferred = dict(METHODS[method].preferred)
    preferred.pop("beta", None)  # of a job it is 1 − α
    preferred.pop("epochs", None)
    return preferred


def usual_epochs(method: str) -> int:
    """The epochs of ``method`` for a forget set of the usual size."""
    return int(METHODS[method].preferred.get("epochs", 30))


def make_job(**values: Any) -> Job:
    """Make a job; a value that cannot be used raises an :class:`InvalidInput` that names it."""
    try:
        return Job(**values)
    except pydantic.ValidationError as error:
        raise InvalidInput(explain_violation(error)[1]) from error


def explain_violation(error: pydantic.ValidationError) -> tuple[list[str | int], str]:
    """The path of the first value that cannot be used, and what is wrong with it."""
    first = error.errors()[0]
    path = list(first["loc"])
    name = ".".join(str(part) for part in path)
    if first["type"] == "extra_forbidden":
        return path, f"there is no key {name!r}."
    if first["type"] == "missing":
        return path, f"`{name}` should be given."
    problem = first["msg"].removeprefix("Value error, ").rstrip(".")
    if not path:
        return path, f"{problem[0].upper()}{problem[1:]}."
    return path, f"{name}: {problem}. (got {first['input']!r})"
