"""The settings of a deletion request."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from expunge._errors import InvalidInput
from expunge._options import Option, takes_options
from expunge._specs import join_part, split_part
from expunge.data import DATASETS
from expunge.engine import EXECUTION_OPTIONS, PLAIN_OPTIONS, Procedure, Recipe, check_recipe
from expunge.evidence import DerivedModel
from expunge.methods import METHODS
from expunge.update import ADDONS, MOMENTS

Count = Annotated[int, pydantic.Field(ge=1, strict=True)]
Seed = Annotated[int, pydantic.Field(ge=0, lt=2**63, strict=True)]
Positive = Annotated[float, pydantic.Field(gt=0, strict=True, allow_inf_nan=False)]
Share = Annotated[float, pydantic.Field(gt=0, lt=1, strict=True)]
Points = Annotated[float, pydantic.Field(gt=0, le=100, strict=True)]
Switch = Annotated[bool, pydantic.Field(strict=True)]


def _read_day(given: Any) -> str:
    """A day that is not in the future, as ISO 8601; TOML has dates of its own."""
    try:
        day = datetime.date.fromisoformat(str(given))
    except ValueError:
        raise ValueError("should be a day, such as 2025-11-18") from None
    if day > datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=1):
        raise ValueError("should not be in the future")
    return day.isoformat()


Day = Annotated[str, pydantic.BeforeValidator(_read_day)]
InputForm = Literal["bytes", "fractions", "standardised"]
"""How images are handed to a model that is not built in."""

REFRESH, EXACT_METHOD = "refresh", "retrain"
DEFAULT_METHOD, DEFAULT_ADDON = REFRESH, "none"
RETAINED_ONLY_METHODS = (REFRESH, EXACT_METHOD)
"""Methods that train on what is retained; known by name, as a recorded job loads no method."""
PROCEDURE_OPTIONS: tuple[Option, ...] = tuple(
    each
    for each in (*PLAIN_OPTIONS, *EXECUTION_OPTIONS)
    if each.name not in ("epochs", "aggregate", "beta")
)
"""The options of a procedure and of its execution that a job takes; ``max_epochs`` and ``alpha``
decide the others."""
ALWAYS_WRITTEN = {"method", "addon", "moments", "alpha", "lr", "batch_size", "batchnorm"}
"""The options that every job file and evidence states; the others only if they were chosen."""
RECORDED = "recorded"
"""The context of a validation that looks nothing up: see :meth:`Job.recorded`."""


def _setting(help: str, default: Any = None, example: Any = None) -> Any:
    """A field of a job: its help is that of the command line and of the job file."""
    return pydantic.Field(default, description=help, examples=[example] if example else None)


@takes_options(PROCEDURE_OPTIONS)
class Job(pydantic.BaseModel):
    """What to forget from which model, and how: these fields, and :data:`PROCEDURE_OPTIONS`.

    The command line and the job file offer all of them, with the same help. Data are a built-in
    dataset, or a factory that returns (train, val, test); both they and the model are left out
    where the weights have a card that names them. Margins that are not given follow from the number
    of examples: see :class:`expunge.request.verdict._checks.Margins`.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    weights: Path = _setting(
        "The trained weights: .safetensors, or a .pt state dict, never a pickled module.",
        ...,
        "model.safetensors",
    )
    model: str = _setting(
        "small-cnn, resnet18, vgg16, mlp, text-bag, hf:PATH or package.module:factory "
        "(not for files of expunge); for texts small-transformer, causal:FOLDER or a factory.",
        "",
        "small-cnn",
    )
    model_options: dict[str, Any] = _setting("Keyword arguments of the model.", {})
    data: str = _setting(
        "digits, cifar10:PATH, svhn:PATH, folder:PATH, npz:FILE, csv:FILE, parquet:FILE, hf:PATH "
        "or package.module:factory; see `expunge list datasets`. For a language model qa:FOLDER, "
        "of train.jsonl and unseen.jsonl, tofu:FOLDER, muse:FOLDER or wmdp:FOLDER.",
        "",
        "digits",
    )
    data_limit: Count | None = _setting("Use only this many training records.", None, 1000)
    data_seed: Seed = _setting("Seed of the limit, and of a val split taken from another.", 0)
    val_fraction: Share = _setting(
        "Size of val relative to train, taken out of test if the data have no val split "
        "(default: 0.1).",
        0.1,
    )
    inputs: InputForm | None = _setting(
        "How a model that is not built in gets images (default: fractions in [0, 1]).",
        None,
        "fractions",
    )
    template: str | None = _setting(
        "Prompt that a causal:FOLDER was trained with, such as 'Q: {question} A:', or its name: "
        "chat, question-answer, q-a, plain, llama-2, instruction, alpaca, human-assistant, chatml "
        "(default: chat if its tokenizer has a chat template, otherwise question-answer).",
        None,
        "chat",
    )
    ids: Path | None = _setting(
        "What to forget: indices, names or ids, as text, CSV, JSON or JSONL. Neither the name of "
        "the file nor its content is kept in the evidence.",
        None,
        "request.csv",
    )
    records: Path | None = _setting(
        "CSV that maps each training record (column index, name, file or filename) to an id, such "
        "as a person.",
        None,
        "records.csv",
    )
    id_column: str | None = _setting(
        "The column of the records that the ids refer to.", None, "person"
    )
    allow_unmapped: Switch = _setting("Accept records that belong to nobody.", False)
    skip_untrained: Switch = _setting(
        "Leave out ids without a training record, and count them.", False
    )
    include_duplicates: Switch = _setting("Also forget duplicates in the training data.", False)
    received: Day | None = _setting(
        "The day the request was received, such as 2025-11-18: an answer is due a month later.",
        None,
        "2025-11-18",
    )
    legal_basis: str | None = _setting(
        "The ground of the request, for the record.", None, "GDPR, Art. 17(1)(b)"
    )
    derived: list[DerivedModel] = _setting("Models that were made from this one.", [])
    out: Path = _setting("Folder of this model's requests.", ..., "requests")
    id_key: Path | None = _setting(
        "File of the key that ids are hashed with, created if it is not there (default: "
        "~/.config/expunge/id.key, or $EXPUNGE_ID_KEY). It stays with you.",
        None,
        "id.key",
    )
    method: str = DEFAULT_METHOD
    addon: str = DEFAULT_ADDON
    alpha: Positive = 0.05
    max_epochs: Count | None = _setting(
        "Run no more epochs than this (default: as many as suit the method and the number of "
        "records).",
        None,
        40,
    )
    augment: Switch = _setting("Crop the images by up to 4 pixels, as in training.", False)
    training_epochs: Count | None = _setting(
        "Epochs the model was trained for: what retraining would cost (default: its card).",
        None,
        100,
    )
    exact: Switch = _setting("Train again from scratch on what is retained.", False)
    base: Path | None = _setting(
        "With exact, start from these weights in place of fresh ones: the checkpoint that the "
        "model was fine-tuned from, as .safetensors.",
        None,
        "base.safetensors",
    )
    recipe: Annotated[dict[str, Any], pydantic.AfterValidator(check_recipe)] = _setting(
        "How the model was trained: fields of expunge.Recipe.", {}
    )
    budget: Share | None = _setting(
        "Part of the epochs of training that refresh takes (default: 0.2).", None, 0.2
    )
    margin_auc: Annotated[float, pydantic.Field(gt=0.5, lt=1, strict=True)] | None = _setting(
        "Largest AUC of an attack (default: 0.55, or more for few records).", None, 0.55
    )
    margin_records: Points | None = _setting(
        "Points of accuracy between the records and unseen data (default: 3, or more).", None, 3.0
    )
    margin_test: Points | None = _setting(
        "Points of test accuracy that may be lost (default: 2, or more).", None, 2.0
    )
    margin_of_class: Points | None = _setting(
        "The same in a single class (default: 5, or more).", None, 5.0
    )
    seed: Seed = _setting("Seed of everything random (default: 0).", 0)
    device: str = _setting("auto, cpu, cuda, … (default: auto).", "auto")

    @classmethod
    def recorded(cls, values: Mapping[str, Any]) -> Job:
        """The settings that an evidence states, as a job of which nothing is looked up.

        An evidence may be somebody else's: its method may be a plug-in, which is not loaded.
        """
        try:
            return cls.model_validate(values, context=RECORDED)
        except pydantic.ValidationError as error:
            raise InvalidInput(explain_violation(error)) from error

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
        if job.exact:  # its recipe decides
            return job
        missing = {k: v for k, v in preferred_settings(job.method).items() if k not in values}
        return validate(missing | values) if missing else job

    @pydantic.field_validator("method", "addon", "moments", check_fields=False)
    @classmethod
    def _known_name(cls, name: str | None, info: pydantic.ValidationInfo) -> str | None:
        if name is None or info.context == RECORDED:
            return name
        if info.field_name != "method":
            (ADDONS if info.field_name == "addon" else MOMENTS).name(name)
        elif METHODS.bare_name(name) == EXACT_METHOD:
            raise InvalidInput("to train again without the records, use `exact`")
        return name

    @pydantic.model_validator(mode="after")
    def _fits_together(self, info: pydantic.ValidationInfo) -> Job:
        if info.context == RECORDED:
            return self
        if self.id_column is not None and self.records is None:
            raise InvalidInput("`id_column` is a column of `records`, which should be given too")
        if self.budget is not None and (self.exact or METHODS.bare_name(self.method) != REFRESH):
            raise InvalidInput("`budget` is that of the method refresh")
        if self.trains_again and ADDONS.bare_name(self.addon) != "none":
            raise InvalidInput(
                f"the add-on {ADDONS.label(self.addon)} goes with a method that reads the records, "
                "such as SRL"
            )
        if self.trains_again and "alpha" in self.model_fields_set:
            raise InvalidInput("`alpha` goes with a method that reads the records, such as SRL")
        if self.base is not None and not self.exact:
            raise InvalidInput("`base` is where training again starts: it goes with `exact`")
        if self.allow_unmapped and self.records is None:
            raise InvalidInput("`allow_unmapped` is about `records`, which should be given too")
        _ = self.procedure  # refuses options that do not go together
        return self

    @pydantic.model_serializer(mode="wrap")
    def _omit_implied(self, serialize: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what was not given, or what the recipe says."""
        values: dict[str, Any] = serialize(self)
        for each in PROCEDURE_OPTIONS:
            needless = each.name not in ALWAYS_WRITTEN and values.get(each.name) == each.default
            by_recipe = each.name not in self.model_fields_set and self.trains_again
            if needless or (by_recipe and each.name != "method"):
                values.pop(each.name, None)
        return {
            k: v
            for k, v in values.items()
            if v is not None and v is not False and v not in ({}, [])
        }

    @property
    def procedure(self) -> Procedure:
        """How to unlearn, without a recipe: see :meth:`procedure_by`."""
        return self.procedure_by(None)

    def procedure_by(self, recipe: Recipe | None) -> Procedure:
        """How to unlearn: for ``max_epochs`` at most, with β = 1 − α.

        A method that trains the model again takes from the ``recipe`` what the job does not say.
        """
        names = [each.name for each in PROCEDURE_OPTIONS if each not in EXECUTION_OPTIONS]
        plain = {name: getattr(self, name) for name in names}
        if self.trains_again:
            plain = {k: v for k, v in plain.items() if k in self.model_fields_set}
            name, options = split_part(EXACT_METHOD if self.exact else self.method)
            options |= {} if self.budget is None else {"budget": self.budget}
            plain |= {"method": join_part(name, options), "addon": "none"}
        else:
            epochs = self.max_epochs or METHODS[self.method].preferred.get("epochs", 30)
            plain |= {"epochs": epochs, "beta": 1.0 - self.alpha}
        procedure = Procedure.from_plain(plain, recipe)
        if self.base is not None:
            from expunge.methods import Retrain  # loads torch

            procedure = replace(procedure, method=Retrain(reference=str(self.base)))
        if self.max_epochs is not None and procedure.epochs > self.max_epochs:
            procedure = replace(procedure, epochs=self.max_epochs)
        return procedure

    @property
    def trains_again(self) -> bool:
        """Whether the method trains the model on what is retained, and never reads the records."""
        return self.exact or split_part(self.method)[0].lower() in RETAINED_ONLY_METHODS


TEXT_METHOD = "match-answers"
TEXT_DEFAULTS_WITHOUT_UNSEEN: dict[str, Any] = {
    "addon": "FOCUS",
    "alpha": 0.05,
    "lr": 1e-4,
    "batch_size": 32,
    "max_epochs": 60,
}
"""Settings of a request to a language model with a method that pushes: small steps, as the run ends
where the records look unseen, and overshoots that point if they are large."""


def text_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a request to a language model where ``values`` has none."""
    method = str(values.get("method", TEXT_METHOD))
    pushes = METHODS[method].reads_forget and not METHODS[method].needs_unseen
    return {"method": method} | (TEXT_DEFAULTS_WITHOUT_UNSEEN if pushes else {})


def is_text_job(job: Job) -> bool:
    """Whether the model of a job is a language model."""
    kind = job.data.partition(":")[0]
    return kind in DATASETS.built_in and DATASETS[kind].texts


def preferred_settings(method: str) -> dict[str, Any]:
    """The settings of a job that suit ``method`` better than the general defaults."""
    if not METHODS[method].reads_forget:  # its recipe comes first
        return {}
    preferred = dict(METHODS[method].preferred)
    preferred.pop("beta", None)  # of a job it is 1 − α
    preferred.pop("epochs", None)
    return preferred


def make_job(**values: Any) -> Job:
    """Make a job; a value that cannot be used raises an :class:`InvalidInput` that names it."""
    try:
        return Job(**values)
    except pydantic.ValidationError as error:
        raise InvalidInput(explain_violation(error)) from error


def explain_violation(error: pydantic.ValidationError) -> str:
    """Which value cannot be used, the first of them, and what is wrong with it."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no key {name!r}."
    if first["type"] == "missing":
        return f"`{name}` should be given."
    problem = first["msg"].removeprefix("Value error, ")
    problem += "" if problem.endswith(("?", ".")) else "."
    if not name:
        return f"{problem[0].upper()}{problem[1:]}"
    return f"{name}: {problem} (got {first['input']!r})"
