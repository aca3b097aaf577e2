"""How to unlearn, as one value: every option that decides a run, declared here and nowhere else."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from expunge._errors import InvalidInput
from expunge._kinds import Count, Fraction, Positive
from expunge._options import (
    AugmentSplits,
    BatchNormPolicy,
    Option,
    RetainOrder,
    Schedule,
    option,
    options_of,
)
from expunge._registry import Registry
from expunge.engine._recipe import common_options
from expunge.methods import METHODS
from expunge.update import ADDONS, AGGREGATES, MOMENTS, WeightedSum, as_aggregate

if TYPE_CHECKING:
    from expunge.engine._recipe import Recipe
    from expunge.methods import Method
    from expunge.update import Addon, Aggregate


@dataclass(frozen=True)
class Procedure:
    """What decides what the model becomes, for :func:`expunge.unlearn` in place of a ``method``.

    Names are turned into parts, so that two spellings of one procedure are equal. What is left out
    has the general default; :meth:`preferred` takes what suits the method instead. A field is all
    that a new option needs besides the code that obeys it: the command line, job files, protocols,
    checkpoints, model cards and stage keys read the fields.

    Args:
        method, addon, aggregate, epochs, batch_size, lr: as for :func:`expunge.unlearn`.
        batchnorm: what may move running statistics: ``published`` (every batch), ``retain-only``,
            ``frozen``.
        schedule: ``constant``, ``linear`` for a rate that falls to 0 over the run, ``one-cycle``
            for one that rises first, for 30 % of it, ``step`` for a tenth of it after 91 %.
        augment_splits: which images are augmented: those of ``both`` sets, of ``retain`` alone, or
            ``none``.
        retain_order: ``released`` is as in the paper's released code: retain data are shuffled
            anew at every epoch, and augmentation ends with the first one.
        strict: a parameter outside the mask does not move at all; see :class:`expunge.Update`.

    >>> Procedure(method="SRL").method
    RandomLabel(num_classes=None)
    """

    method: Method | str = option(
        "random-label", str, "refresh, SRL, NGPlus, SCRUB, FT: `expunge list methods`.", flag="-m"
    )
    addon: Addon | str = option("focus", str, "none, SalUn, AND, PROB, BER, FOCUS, OPT.", flag="-a")
    aggregate: Aggregate | str | Any = option(
        "linear", str, "linear, min-abs, SAGO, GRU, PDU, or torchjd:NAME."
    )
    epochs: int = option(
        10, Count, "Passes over the forget set (retrain, refresh: the retain set).", resumable=True
    )
    batch_size: int = option(256, Count, "Examples of either set per step.", resumable=True)
    lr: float = option(1e-4, Positive, "Learning rate of the optimizer.", resumable=True)
    batchnorm: BatchNormPolicy = option(
        "published", BatchNormPolicy, "Which batches move running statistics."
    )
    schedule: Schedule = option(
        "constant", Schedule, "How the learning rate changes over the run.", later=True
    )
    augment_splits: AugmentSplits = option(
        "both",
        AugmentSplits,
        "Which batches are augmented, if any are.",
        later=True,
        stored="augmented",
    )
    retain_order: RetainOrder = option(
        "continued",
        RetainOrder,
        "released: retain is reshuffled per epoch, and augmentation ends with the first.",
        later=True,
        stored="batches",
    )
    strict: bool = option(False, bool, "Weights outside the mask do not move at all.")

    def __post_init__(self) -> None:
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
    def preferred(cls, recipe: Recipe | None = None, **given: Any) -> Procedure:
        """The procedure of the ``given`` options and, for others, what the method prefers.

        A method that trains the model again takes what is not given from the ``recipe`` by which
        it was trained.

        >>> Procedure.preferred(method="l1-sparse", strict=True).aggregate
        WeightedSum(alpha=0.0005, beta=0.9995)
        """
        # What can be told without torch comes first, as in ``__post_init__``.
        _check_options(given)
        if "aggregate" in given:
            given["aggregate"] = as_aggregate(given["aggregate"])
        preferred = _preferred(given.get("method", cls.method))
        weights = _taken(preferred, "aggregate")
        if weights:
            preferred["aggregate"] = WeightedSum(**weights)
        procedure = cls(**(preferred | given))
        method: Any = procedure.method
        addon: Any = procedure.addon
        own = None if recipe is None else method.own_recipe(recipe)
        if own is not None:
            procedure = cls(**(preferred | common_options(own) | given))
        if method.constrained or addon.needs_saliency or addon == ADDONS.resolve("none"):
            return procedure
        if "addon" in given:
            warnings.warn(
                f"{METHODS.label_of(method)} has no constraint, so the add-on "
                f"{ADDONS.label_of(addon)} changes nothing.",
                stacklevel=2,
            )
        return replace(procedure, addon="none")

    @classmethod
    def from_plain(cls, values: Mapping[str, Any], recipe: Recipe | None = None) -> Procedure:
        """The procedure that plain values describe: :data:`PLAIN_OPTIONS` by name.

        ``recipe`` is how the model was trained, for methods that train it again.

        >>> Procedure.from_plain({"addon": "PROB", "p": 0.4}).addon.p
        0.4
        """
        given = {name: value for name, value in values.items() if value is not None}
        _check_options(given)
        addon_options, weights = _taken(given, "addon"), _taken(given, "aggregate")
        if addon_options:
            given["addon"] = _make_addon(given.get("addon", cls.addon), addon_options)
        if weights:  # of the two, the one not given is the method's
            weights = _taken(_preferred(given.get("method", cls.method)), "aggregate") | weights
            given["aggregate"] = _make_linear(given.get("aggregate", cls.aggregate), weights)
        return cls.preferred(recipe, **given)

    def checkpoint_bound_options(self) -> dict[str, Any]:
        """The options that a checkpoint of the run is bound to."""
        bound = [item.name for item in fields(self) if not item.metadata["resumable"]]
        return {name: getattr(self, name) for name in bound}

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
        Option("p", Fraction, None, "Level of certainty of PROB, in (0, 1).", example=0.3),
    ),
    "aggregate": (
        Option("alpha", Positive, None, "Weight of the objective (linear).", example=0.05),
        Option("beta", Positive, None, "Weight of the constraint (linear).", example=0.95),
    ),
}
"""The options of a procedure's parts that have plain values."""

PLAIN_OPTIONS: tuple[Option, ...] = tuple(
    each for own in options_of(Procedure) for each in (own, *PART_OPTIONS.get(own.name, ()))
)
"""The options of a procedure in plain values, those of a part behind the part's name."""


def _preferred(method: Any) -> dict[str, Any]:
    """What a method, or the method of that name, prefers to the general defaults."""
    return dict(getattr(METHODS[method] if isinstance(method, str) else method, "preferred", {}))


def _taken(values: dict[str, Any], part: str) -> dict[str, Any]:
    """The options of a part, which are removed from ``values``."""
    return {each.name: values.pop(each.name) for each in PART_OPTIONS[part] if each.name in values}


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


def _make_addon(name: str, chosen: dict[str, Any]) -> Addon:
    addon: Addon = ADDONS.resolve(name)
    for option_name in chosen:
        if option_name not in type(addon).__dataclass_fields__:
            raise InvalidInput(
                f"`{option_name}` does not apply to the add-on {ADDONS.label(name)}."
            )
    return replace(addon, **chosen)


def _make_linear(name: str, weights: dict[str, float]) -> Aggregate:
    if name not in AGGREGATES or AGGREGATES[name] is not WeightedSum:
        raise InvalidInput("`alpha` and `beta` apply to the aggregation linear.")
    return WeightedSum(**weights)
