"""A protocol: which models unlearn what, how, and what is measured; a small TOML file."""

from __future__ import annotations

import inspect
import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from expunge._errors import InvalidInput
from expunge._registry import Registry
from expunge._toml_lines import find_line, line_of
from expunge.bench._protocol_file import read_protocol
from expunge.data import DATASETS, Augment, parse_scenario
from expunge.engine import Procedure, Recipe
from expunge.methods import METHODS, BatchNormPolicy
from expunge.models import MODELS
from expunge.update import ADDONS, MOMENTS, Linear
from expunge.update._aggregate import as_aggregate

Positive = Annotated[float, pydantic.Field(gt=0)]
Count = Annotated[int, pydantic.Field(ge=1)]
Share = Annotated[float, pydantic.Field(gt=0, lt=1)]


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Training(_Part):
    """How initial and ideal models are trained; the defaults are the paper's."""

    epochs: Count = 100
    batch_size: Count = 256
    lr: Positive = 0.1
    momentum: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, pydantic.Field(ge=0)] = 5e-4
    schedule: Literal["step", "one-cycle"] = "step"
    augment: bool = True

    @property
    def recipe(self) -> Recipe:
        """The recipe behind it."""
        return Recipe(**self.model_dump(exclude={"augment"}))


class Unlearning(_Part):
    """How models unlearn; the defaults are the paper's. A list of ``lr``, ``alpha`` or ``epochs``
    asks for a run with each; ``beta`` is 1 - alpha where it is left out."""

    epochs: Count | tuple[Count, ...] = 10
    batch_size: Count = 256
    lr: Positive | tuple[Positive, ...] = 1e-4
    alpha: Positive | tuple[Positive, ...] = 0.05
    beta: Positive | None = None
    aggregate: str = "linear"
    p: Share = 0.3
    batchnorm: BatchNormPolicy = "published"
    strict: bool = False

    def variants(self) -> Iterator[dict[str, float]]:
        """Every combination of the values that are lists."""
        names = ("epochs", "lr", "alpha")
        given = [v if isinstance(v := getattr(self, name), tuple) else (v,) for name in names]
        for values in itertools.product(*given):
            yield dict(zip(names, values, strict=True))


class Block(_Part):
    """One data set and architecture, and everything that is tried on them."""

    name: str = ""
    data: str
    model: str
    width: Positive = 1.0
    options: dict[str, float] = {}
    """Of the model, such as ``dropout`` of vgg16."""
    limit: Count | None = None
    test_limit: Count | None = None
    scenarios: Annotated[tuple[str, ...], pydantic.Field(min_length=1)]
    methods: tuple[str, ...] = ()
    addons: tuple[str, ...] = ("none",)
    moments: Annotated[tuple[str, ...], pydantic.Field(min_length=1)] = ("published",)
    baselines: tuple[str, ...] = ()
    training: Training = Training()
    unlearning: Unlearning = Unlearning()


class Protocol(_Part):
    """The whole of it."""

    name: str = ""
    title: str = ""
    seeds: Annotated[tuple[int, ...], pydantic.Field(min_length=1)] = (0, 1, 2)
    evaluate_at: Annotated[tuple[Count, ...], pydantic.Field(min_length=1)] = (1, 2, 5, 10)
    attacks: bool = True
    block: Annotated[tuple[Block, ...], pydantic.Field(min_length=1)]

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """Every way to unlearn, block by block; seeds and scenarios multiply them."""
        return tuple(arm for block in self.block for arm in arms_of(block))

    def only(self, names: tuple[str, ...]) -> Protocol:
        """The same protocol with some of its blocks."""
        known = [block.name for block in self.block]
        for name in names:
            if name not in known:
                raise InvalidInput(
                    f"The protocol {self.name} has no block {name!r}. (it has: {', '.join(known)})"
                )
        chosen = tuple(block for block in self.block if block.name in names)
        return self.model_copy(update={"block": chosen}) if names else self


@dataclass(frozen=True)
class Arm:
    """One way to unlearn within a block. ``moments`` is empty where the add-on has none."""

    block: Block
    procedure: Procedure
    method: str
    addon: str
    moments: str = ""
    baseline: bool = False

    @property
    def label(self) -> str:
        """``SRL-FOCUS``: the short names of the paper."""
        return self.procedure.label


def arms_of(block: Block) -> Iterator[Arm]:
    """The arms of a block: its baselines, then each method with each add-on."""
    unlearning = block.unlearning
    tried = [(method, "none", True) for method in block.baselines]
    tried += [(method, addon, False) for method in block.methods for addon in block.addons]
    for method, addon, baseline in tried:
        for moments in _moments_for(addon, block.moments):
            for variant in unlearning.variants():
                yield Arm(
                    block,
                    _procedure(unlearning, method, addon, moments, variant),
                    METHODS.name(method),
                    ADDONS.name(addon),
                    moments,
                    baseline,
                )


def augment_of(block: Block) -> Augment | None:
    """Crops and mirror images as in the paper, where the protocol wants them."""
    flip = DATASETS[block.data.partition(":")[0]].flip
    return Augment(padding=4, flip=flip) if block.training.augment else None


def load_protocol(source: str | Path) -> Protocol:
    """A built-in protocol by name, or the one in a TOML file.

    >>> load_protocol("paper").seeds
    (0, 1, 2)
    """
    text, where = read_protocol(source)
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{where} is not TOML: {error}") from error
    name = Path(str(source)).stem
    merged = _with_defaults({"name": name} | given)
    try:
        protocol = Protocol.model_validate(merged)
    except pydantic.ValidationError as error:
        raise _explained(error, text, where) from error
    return _named(protocol, text, where)


def _with_defaults(given: dict[str, Any]) -> dict[str, Any]:
    """``[training]`` and ``[unlearning]`` of the protocol, below those of each block."""
    shared = {name: given.pop(name, {}) for name in ("training", "unlearning")}
    blocks = given.get("block")
    if isinstance(blocks, list):
        given["block"] = [
            block
            | {
                name: defaults | block.get(name, {})
                for name, defaults in shared.items()
                if isinstance(defaults, dict) and isinstance(block.get(name, {}), dict)
            }
            if isinstance(block, dict)
            else block
            for block in blocks
        ]
    if isinstance(given.get("seeds"), int):
        given["seeds"] = tuple(range(given["seeds"]))
    return given


def _explained(error: pydantic.ValidationError, text: str, where: str) -> InvalidInput:
    first = error.errors()[0]
    path = [part for part in first["loc"] if isinstance(part, int) or part.islower()]
    if path[:1] == ["block"] and len(path) > 3 and find_line(text, path)[1] < len(path):
        shared = path[2:]  # from the protocol's own [training] or [unlearning]
        path = shared if find_line(text, shared)[1] == len(shared) else path
    line = line_of(text, path)
    name = ".".join(str(part) for part in path)
    if first["type"] == "extra_forbidden":
        return InvalidInput(f"{where}, line {line}: there is no key {name!r}.")
    return InvalidInput(f"{where}, line {line}: {name}: {first['msg']}. (got {first['input']!r})")


def _named(protocol: Protocol, text: str, where: str) -> Protocol:
    """Names put into their registered spelling, and what cannot be combined refused."""
    checked: list[Block] = []
    for index, block in enumerate(protocol.block):

        def place(key: str, index: int = index) -> str:
            return f"{where}, line {line_of(text, ['block', index, key])}"

        checked.append(_checked(block, place, index))
    for index, block in enumerate(checked):
        if block.name in [other.name for other in checked[:index]]:
            line = line_of(text, ["block", index, "name"])
            raise InvalidInput(f"{where}, line {line}: there is another block {block.name!r}.")
    protocol = protocol.model_copy(update={"block": tuple(checked)})
    if len(set(protocol.seeds)) < len(protocol.seeds):
        raise InvalidInput(f"{where}, line {line_of(text, ['seeds'])}: a seed is there twice.")
    for index, block in enumerate(checked):
        epochs = max(v["epochs"] for v in block.unlearning.variants())
        if min(protocol.evaluate_at) > epochs:
            line = line_of(text, ["evaluate_at"])
            raise InvalidInput(
                f"{where}, line {line}: block {block.name!r} unlearns for {epochs} epochs, so "
                f"nothing would be evaluated at {list(protocol.evaluate_at)}."
            )
        _refuse_duplicates(block, index, checked, protocol, text, where)
    return protocol


def _checked(block: Block, place: Any, index: int) -> Block:
    def known(key: str, registry: Registry[Any], names: tuple[str, ...]) -> tuple[str, ...]:
        try:
            found = tuple(registry.name(name) for name in names)
        except InvalidInput as error:
            raise InvalidInput(f"{place(key)}: {error}") from error
        for name in found:
            if found.count(name) > 1:
                raise InvalidInput(f"{place(key)}: {name!r} is there twice.")
        return found

    known("model", MODELS, (block.model,))
    for option in block.options:
        if option not in inspect.signature(MODELS[block.model]).parameters:
            raise InvalidInput(
                f"{place('options')}: the model {block.model} has no option {option!r}."
            )
    known("data", DATASETS, (block.data.partition(":")[0],))
    if "retrain" in known("baselines", METHODS, block.baselines):
        raise InvalidInput(f"{place('baselines')}: the retrained ideal is always there.")
    methods = known("methods", METHODS, block.methods)
    known("addons", ADDONS, block.addons)
    known("moments", MOMENTS, block.moments)
    for method in methods:
        part = METHODS.resolve(method)
        asked = [addon for addon in block.addons if ADDONS.name(addon) not in ("none", "saliency")]
        if not part.constrained and asked:
            raise InvalidInput(
                f"{place('methods')}: {METHODS.label(method)} has no constraint, so the add-on "
                f"{asked[0]} would change nothing. Name it among the baselines."
            )
    if not block.methods and not block.baselines:
        raise InvalidInput(f"{place('methods')}: a block should have `methods` or `baselines`.")
    for scenario in block.scenarios:
        try:
            parse_scenario(scenario)
        except InvalidInput as error:
            raise InvalidInput(f"{place('scenarios')}: {error}") from error
        if block.scenarios.count(scenario) > 1:
            raise InvalidInput(f"{place('scenarios')}: {scenario!r} is there twice.")
    try:
        aggregate = as_aggregate(block.unlearning.aggregate)
    except InvalidInput as error:
        raise InvalidInput(f"{place('unlearning')}: {error}") from error
    if not isinstance(aggregate, Linear) and block.unlearning.alpha != Unlearning().alpha:
        raise InvalidInput(f"{place('unlearning')}: `alpha` applies to the aggregation linear.")
    kind = block.data.partition(":")[0]
    name = block.name or f"{kind}-{block.model}-{index}"
    return block.model_copy(update={"name": name})


def _refuse_duplicates(
    block: Block, index: int, blocks: list[Block], protocol: Protocol, text: str, where: str
) -> None:
    """The same configuration in two blocks, or twice in one, is an oversight."""
    own = _configurations(block)
    for configuration, label in own:
        if [c for c, _ in own].count(configuration) > 1:
            line = line_of(text, ["block", index, "methods"])
            raise InvalidInput(
                f"{where}, line {line}: block {block.name!r} has {label} twice with the same "
                "settings."
            )
    for earlier in blocks[:index]:
        there = {configuration for configuration, _ in _configurations(earlier)}
        for configuration, label in own:
            if configuration in there:
                line = line_of(text, ["block", index, "methods"])
                raise InvalidInput(
                    f"{where}, line {line}: block {block.name!r} repeats {label} of block "
                    f"{earlier.name!r}: {configuration[-1]} of {block.data} with the same settings."
                )


def _configurations(block: Block) -> list[tuple[tuple[Any, ...], str]]:
    options = tuple(sorted(block.options.items()))
    sizes = (block.width, block.limit, block.test_limit)
    base = (block.data, block.model, options, *sizes, block.training)
    return [
        ((*base, arm.procedure, scenario), arm.label)
        for arm in arms_of(block)
        for scenario in block.scenarios
    ]


def _moments_for(addon: str, moments: tuple[str, ...]) -> tuple[str, ...]:
    if ADDONS.resolve(addon).statistics is None:
        return ("",)
    return tuple(MOMENTS.name(name) for name in moments)


def _procedure(
    unlearning: Unlearning, method: str, addon: str, moments: str, variant: dict[str, float]
) -> Procedure:
    kind: Any = ADDONS[addon]
    chosen: dict[str, Any] = {"moments": moments} if moments else {}
    if "p" in kind.__dataclass_fields__:
        chosen["p"] = unlearning.p
    alpha = variant["alpha"]
    beta = unlearning.beta if unlearning.beta is not None else round(1.0 - alpha, 12)
    linear = isinstance(as_aggregate(unlearning.aggregate), Linear)
    return Procedure(
        method=method,
        addon=kind(**chosen),
        aggregate=Linear(alpha, beta) if linear else unlearning.aggregate,
        epochs=int(variant["epochs"]),
        batch_size=unlearning.batch_size,
        lr=variant["lr"],
        batchnorm=unlearning.batchnorm,
        strict=unlearning.strict,
    )
