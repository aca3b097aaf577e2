"""How to unlearn, as one value: every option that decides a run, declared here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from expunge._errors import InvalidInput
from expunge._options import (
    Augmented,
    BatchNormPolicy,
    BatchOrder,
    MomentDtype,
    Option,
    Precision,
    Schedule,
    is_implied,
    option,
    options_of,
)
from expunge._registry import Registry
from expunge.methods import METHODS
from expunge.update import ADDONS, AGGREGATES, MOMENTS

if TYPE_CHECKING:
    from expunge.engine._recipe import Recipe
    from expunge.methods import Method
    from expunge.update import Addon, Aggregate


@dataclass(frozen=True)
class Procedure:
    """The arguments of :func:`expunge.unlearn` that decide what the model becomes.

    Names are turned into parts, so that two spellings of one procedure are equal. A field is all
    that a new option needs besides the code that obeys it and a line in the signature of
    :func:`expunge.unlearn`: the command line, job files, protocols, checkpoints, model cards and
    stage keys read the fields.

    >>> Procedure(method="SRL").method
    RandomLabel(num_classes=None)
    """

    method: Method | str = field(
        default="random-label",
        metadata=option(str, "SRL, NGPlus, SCRUB, FT: `expunge list methods`.", flag="-m"),
    )
    addon: Addon | str = field(
        default="focus",
        metadata=option(str, "none, SalUn, AND, PROB, BER, FOCUS, OPT, SAND.", flag="-a"),
    )
    aggregate: Aggregate | str | Any = field(
        default="linear", metadata=option(str, "linear, min-abs, SAGO, GRU, PDU, or torchjd:NAME.")
    )
    epochs: int = field(
        default=10,
        metadata=option(int, "Passes over the forget set.", at_least=1, resumable=True),
    )
    batch_size: int = field(
        default=256,
        metadata=option(int, "Examples of either set per step.", at_least=1, resumable=True),
    )
    lr: float = field(
        default=1e-4, metadata=option(float, "Learning rate of Adam.", above=0, resumable=True)
    )
    batchnorm: BatchNormPolicy = field(
        default="published",
        metadata=option(BatchNormPolicy, "Which batches move running statistics."),
    )
    schedule: Schedule = field(
        default="constant",
        metadata=option(Schedule, "How the learning rate changes over the run.", later=True),
    )
    augmented: Augmented = field(
        default="both",
        metadata=option(Augmented, "Which batches are augmented, if any are.", later=True),
    )
    batches: BatchOrder = field(
        default="continued",
        metadata=option(
            BatchOrder,
            "released: retain is reshuffled per epoch, and augmentation ends with the first.",
            later=True,
        ),
    )
    strict: bool = field(
        default=False, metadata=option(bool, "Weights outside the mask do not move at all.")
    )
    micro_batches: int = field(
        default=1,
        metadata=option(
            int,
            "Take each batch in this many parts: less memory, the same step but for BatchNorm.",
            at_least=1,
            later=True,
        ),
    )
    precision: Precision = field(
        default="fp32",
        metadata=option(
            Precision,
            "What the model computes in; weights and gradients stay fp32. bf16 halves the "
            "activations; fp16 is for GPUs without bf16 and scales the losses.",
            later=True,
        ),
    )
    moment_dtype: MomentDtype = field(
        default="fp32",
        metadata=option(MomentDtype, "What the add-on's moments are kept in.", later=True),
    )
    offload: bool = field(
        default=False,
        metadata=option(
            bool, "Keep the add-on's moments in main memory.", later=True, resumable=True
        ),
    )

    def __post_init__(self) -> None:
        from expunge.update._aggregate import as_aggregate

        # What can be told without torch comes first: methods and add-ons import it.
        _check_options(vars(self))
        object.__setattr__(self, "aggregate", as_aggregate(self.aggregate))
        object.__setattr__(self, "addon", ADDONS.resolve(self.addon))

        from expunge.methods import Method

        method = METHODS.resolve(self.method)
        if not isinstance(method, Method):
            raise InvalidInput(f"`method` should be a name or a method. (got {self.method!r})")
        object.__setattr__(self, "method", method)

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Procedure:
        """The procedure among the arguments of a call; None stands for the default."""
        given = {item.name: arguments[item.name] for item in fields(cls)}
        given = {name: value for name, value in given.items() if value is not None}
        return cls._with_preferences(given, arguments.get("recipe"))

    @property
    def preferred_lr(self) -> float | None:
        """The rate that the method prefers; None if it has no preference."""
        return _preferred_options(self.method).get("lr")

    @classmethod
    def _with_preferences(cls, given: dict[str, Any], recipe: Recipe | None) -> Procedure:
        """The procedure of the ``given`` options and, for others, what the method prefers.

        A method that trains the model again takes what is not given from its ``recipe``.
        """
        from expunge.update._aggregate import as_aggregate

        # What can be told without torch comes first, as in ``__post_init__``.
        _check_options(given)
        if "aggregate" in given:
            given["aggregate"] = as_aggregate(given["aggregate"])
        preferred = _preferred_options(given.get("method", cls.method))
        weights: dict[str, float] = {
            name: preferred.pop(name) for name in ("alpha", "beta") if name in preferred
        }
        if weights:
            preferred["aggregate"] = _make_linear("linear", weights)
        procedure = cls(**(preferred | given))
        own = None if recipe is None else procedure.method.own_recipe(recipe)  # type: ignore[union-attr]
        if own is None:
            return procedure
        trained = {"epochs": own.epochs, "batch_size": own.batch_size, "lr": own.lr}
        return cls(**(preferred | trained | given))

    @classmethod
    def from_plain(cls, values: Mapping[str, Any], recipe: Recipe | None = None) -> Procedure:
        """The procedure that plain values describe: :data:`PLAIN_OPTIONS` by name.

        ``recipe`` is how the model was trained, for methods that train it again.

        >>> Procedure.from_plain({"addon": "PROB", "p": 0.4}).addon.p
        0.4
        """
        given = {name: value for name, value in values.items() if value is not None}
        _check_options(given)
        addon_options, weights = (
            {each.name: given.pop(each.name) for each in PART_OPTIONS[part] if each.name in given}
            for part in ("addon", "aggregate")
        )
        if addon_options:
            given["addon"] = _make_addon(given.get("addon", cls.addon), addon_options)
        if weights:
            given["aggregate"] = _make_linear(given.get("aggregate", cls.aggregate), weights)
        return cls._with_preferences(given, recipe)

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for :func:`expunge.unlearn`."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def lasting_choices(self) -> dict[str, Any]:
        """The options that a checkpoint of the run is bound to; later ones only where chosen."""
        return {
            item.name: value
            for item in fields(self)
            if not item.metadata["resumable"]
            and not is_implied(item, value := getattr(self, item.name))
        }

    @property
    def label(self) -> str:
        """``SRL-FOCUS``: the short names of the paper."""
        addon = ADDONS.label_of(self.addon)
        method = METHODS.label_of(self.method)
        return method if addon == "none" else f"{method}-{addon}"


PART_OPTIONS: dict[str, tuple[Option, ...]] = {
    "addon": (
        Option(
            "moments",
            str,
            None,
            "adam, published or sample, for PROB, BER and FOCUS.",
            example="published",
        ),
        Option(
            "p",
            float,
            None,
            "Level of certainty of PROB, in (0, 1).",
            above=0,
            below=1,
            example=0.3,
        ),
    ),
    "aggregate": (
        Option("alpha", float, None, "Weight of the objective (linear).", above=0, example=0.05),
        Option("beta", float, None, "Weight of the constraint (linear).", above=0, example=0.95),
    ),
}
"""The options of a procedure's parts that have plain values."""

PLAIN_OPTIONS: tuple[Option, ...] = tuple(
    each for own in options_of(Procedure) for each in (own, *PART_OPTIONS.get(own.name, ()))
)
"""The options of a procedure in plain values, those of a part behind the part's name."""


def _check_options(values: Mapping[str, Any]) -> None:
    """Raise at a value out of its range and at an unknown name; parts are left to themselves."""
    for each in (*options_of(Procedure), *PART_OPTIONS["addon"]):
        if each.name in values and each.type is not str:
            each.check(values[each.name])
    registries: tuple[tuple[str, Registry[Any]], ...]
    registries = (("method", METHODS), ("addon", ADDONS), ("moments", MOMENTS))
    for name, registry in registries:
        if isinstance(values.get(name), str):
            registry.name(values[name])


def _preferred_options(method: Method | str) -> dict[str, Any]:
    """The options that suit a method better than the general defaults."""
    kind: Any = METHODS[method] if isinstance(method, str) else method
    return dict(getattr(kind, "preferred", {}))


def _make_addon(name: str, chosen: dict[str, Any]) -> Addon:
    addon: Addon = ADDONS.resolve(name)
    for option_name in chosen:
        if option_name not in type(addon).__dataclass_fields__:
            raise InvalidInput(
                f"`{option_name}` does not apply to the add-on {ADDONS.label(name)}."
            )
    return replace(addon, **chosen)


def _make_linear(name: str, weights: dict[str, float]) -> Aggregate:
    from expunge.update import Linear

    if name not in AGGREGATES or AGGREGATES[name] is not Linear:
        raise InvalidInput("`alpha` and `beta` apply to the aggregation linear.")
    return Linear(**weights)
