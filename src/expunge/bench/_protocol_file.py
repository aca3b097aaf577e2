"""Read a protocol from TOML: fill in its defaults, check its names."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pydantic

from expunge._errors import InvalidInput
from expunge._registry import Registry
from expunge.bench._protocol import Block, Protocol, Unlearning
from expunge.bench.protocols import read_protocol
from expunge.data import CORPORA, DATASETS, PeopleForget, parse_scenario
from expunge.methods import METHODS
from expunge.models import LANGUAGE_MODELS, MODELS
from expunge.update import ADDONS, MOMENTS, WeightedSum, as_aggregate

EVERY_BLOCK = "every_block"
"""The table of a protocol file that holds defaults of its blocks."""
MAX_SEEDS = 10_000
"""Repetitions of a protocol; a larger number is a seed that should be in a list."""
MIN_IDEALS_OF_KLOM = 3


def load_protocol(source: str | Path) -> Protocol:
    """A built-in protocol by name, or the one in a TOML file."""
    text, file = read_protocol(source)
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{file} is not TOML: {error}") from error
    name = Path(str(source)).stem
    merged = _with_defaults({"name": name} | given)
    try:
        protocol = Protocol.model_validate(merged)
    except pydantic.ValidationError as error:
        raise _explained(error, file) from error
    return _checked(protocol, file)


def _with_defaults(given: dict[str, Any]) -> dict[str, Any]:
    """What is said for every block, below what each says; two tables are merged key by key."""
    every, blocks = given.pop(EVERY_BLOCK, {}), given.get("block", [])
    shared = {name: given.pop(name, {}) for name in ("training", "unlearning")}

    def merged(block: dict[str, Any]) -> dict[str, Any]:
        block = every | block
        return block | {name: table | block.get(name, {}) for name, table in shared.items()}

    try:
        given["block"] = [merged(block) for block in blocks]
    except (TypeError, AttributeError) as error:
        raise InvalidInput(
            "A protocol has tables [training], [unlearning], [every_block] and [[block]]; one of "
            "them is something else."
        ) from error
    if isinstance(given.get("seeds"), int) and given["seeds"] <= MAX_SEEDS:
        given["seeds"] = tuple(range(given["seeds"]))
    return given


def _explained(error: pydantic.ValidationError, file: str) -> InvalidInput:
    first = error.errors()[0]
    # Without the names that pydantic gives to the alternatives of a type.
    path = [part for part in first["loc"] if isinstance(part, int) or part.isidentifier()]
    name = ".".join(str(part) for part in path)
    if first["type"] == "extra_forbidden":
        return InvalidInput(f"{file}: there is no key {name!r}.")
    return InvalidInput(f"{file}: {name}: {first['msg']}. (got {first['input']!r})")


def _checked(protocol: Protocol, file: str) -> Protocol:
    """The protocol with every block named; what cannot be combined is refused."""

    def place(*path: str | int) -> str:
        return f"{file}: {'.'.join(map(str, path))}"

    # Each block by itself.
    blocks: list[Block] = []
    for index, block in enumerate(protocol.block):
        _check_parts(block, partial(place, "block", index))
        if block.is_text:
            _check_measured(protocol, block, place)
        kind = block.data.partition(":")[0]
        name = block.name or f"{kind}-{block.model}-{index}"
        if name in [other.name for other in blocks]:
            raise InvalidInput(f"{place('block', index, 'name')}: there is another block {name!r}.")
        blocks.append(block.model_copy(update={"name": name}))

    # The blocks together, and with the seeds and epochs of the protocol.
    if len(set(protocol.seeds)) < len(protocol.seeds):
        raise InvalidInput(f"{place('seeds')}: a seed is listed twice.")
    measured = [protocol.metrics if b.metrics is None else b.metrics for b in blocks]
    if protocol.ideals < MIN_IDEALS_OF_KLOM and any("klom" in each for each in measured):
        raise InvalidInput(
            f"{place('metrics')}: KLoM compares with the spread of retrained models, and each of "
            f"them with the others: `ideals` should be at least {MIN_IDEALS_OF_KLOM}. "
            f"(got {protocol.ideals})"
        )
    for block in blocks:
        epochs = max(setting["epochs"] for setting in block.unlearning.settings())
        if min(protocol.evaluate_at) > epochs:
            raise InvalidInput(
                f"{place('evaluate_at')}: block {block.name!r} unlearns for {epochs} epochs, so "
                f"nothing would be evaluated at {list(protocol.evaluate_at)}."
            )
    return protocol.model_copy(update={"block": tuple(blocks)})


def _check_measured(protocol: Protocol, block: Block, place: Callable[[str], str]) -> None:
    """Refuse what is only measured on images: a block of texts would go without it unnoticed."""
    for key, ignored, remedy in (
        ("attacks", protocol.attacks == "released", "Give true or false"),
        ("metrics", bool(block.metrics or protocol.metrics), "Leave it out"),
        ("ideals", protocol.ideals > 1, "Leave it out"),
        ("full_scores", (block.full_scores or protocol.full_scores) == "last", "Leave it out"),
    ):
        if ignored:
            value = getattr(block, key, None) or getattr(protocol, key)
            shown = list(value) if isinstance(value, tuple) else value
            raise InvalidInput(
                f"{place(key)}: `{key}` = {shown!r} is for images, and the data {block.data} are "
                f"texts. {remedy}, or put {block.name or 'this block'!r} in a protocol of its own."
            )


def _check_parts(block: Block, place: Callable[[str], str]) -> None:
    """Refuse unknown names and parts that do not go together; ``place`` says where a key stands."""

    def registered(key: str, registry: Registry[Any], names: tuple[str, ...]) -> tuple[str, ...]:
        try:
            full_names = tuple(registry.name(name) for name in names)
            for name in full_names:
                if "(" in name:  # options of the part itself
                    registry.resolve(name)
        except InvalidInput as error:
            raise InvalidInput(f"{place(key)}: {error}") from error
        return full_names

    # Model and data.
    models: Registry[Any] = LANGUAGE_MODELS if block.is_text else MODELS
    registered("model", models, (block.model,))
    for option in block.options:
        if option not in inspect.signature(models[block.model]).parameters:
            raise InvalidInput(
                f"{place('options')}: the model {block.model} has no option {option!r}."
            )
    registered("data", CORPORA if block.is_text else DATASETS, (block.data.partition(":")[0],))
    for scenario in block.scenarios:
        try:
            rule = parse_scenario(scenario)
        except InvalidInput as error:
            raise InvalidInput(f"{place('scenarios')}: {error}") from error
        if isinstance(rule, PeopleForget) != block.is_text:
            rule_of_data = "people:FRACTION, as" if block.is_text else "one for images, as"
            raise InvalidInput(
                f"{place('scenarios')}: the scenario should be {rule_of_data} the data are "
                f"{block.data}. (got {scenario!r})"
            )

    # Methods and add-ons.
    baselines = registered("baselines", METHODS, block.baselines)
    if "retrain" in [METHODS.bare_name(name) for name in baselines]:
        raise InvalidInput(f"{place('baselines')}: the retrained ideal is always there.")
    methods = registered("methods", METHODS, block.methods)
    addons = registered("addons", ADDONS, block.addons)
    registered("moments", MOMENTS, block.moments)
    needing = [addon for addon in addons if not ADDONS[addon].needs_saliency and addon != "none"]
    for method in methods:
        if not METHODS.resolve(method).constrained and needing:
            raise InvalidInput(
                f"{place('methods')}: {METHODS.label(method)} has no constraint, so the add-on "
                f"{needing[0]} would change nothing. Name it among the baselines."
            )
    if not block.methods and not block.baselines:
        raise InvalidInput(f"{place('methods')}: a block should have `methods` or `baselines`.")

    for method in (*methods, *baselines) if block.is_text else ():
        if not METHODS[method].token_losses:
            raise InvalidInput(
                f"{place('methods')}: {METHODS.label(method)} is not for language models."
            )
        if METHODS[method].needs_answers:
            raise InvalidInput(
                f"{place('methods')}: {METHODS.label(method)} needs answers to prefer, which "
                "the data of a protocol do not have. Take NPO."
            )

    # Aggregation.
    usual = block.unlearning.aggregate
    for key, name in (("unlearning", usual), *(("aggregates", each) for each in block.aggregates)):
        try:
            as_aggregate(name)
        except InvalidInput as error:
            raise InvalidInput(f"{place(key)}: {error}") from error
    linear = isinstance(as_aggregate(usual), WeightedSum)
    if not linear and block.unlearning.alpha != Unlearning().alpha:
        raise InvalidInput(f"{place('unlearning')}: `alpha` applies to the aggregation linear.")
