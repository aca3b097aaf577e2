"""Read a protocol from TOML: fill in its defaults, check its names."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Begin complaints with the place that they are about."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {error}") from error


def load_protocol(source: str | Path) -> Protocol:
    """A built-in protocol by name, or the one in a TOML file."""
    text, file = read_protocol(source)
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{file} is not TOML: {error}") from error
    with _at(file):
        merged = _with_defaults({"name": Path(str(source)).stem} | given)
        try:
            return _checked(Protocol.model_validate(merged))
        except pydantic.ValidationError as error:
            raise _explained(error, given) from error


def _with_defaults(given: dict[str, Any]) -> dict[str, Any]:
    """What is said for every block, below what each says; two tables are merged key by key."""
    tables = {name: given.pop(name, {}) for name in ("training", "unlearning")}
    names = ("seeds", "full_scores", "metrics", "ideals")
    shared = {name: given.pop(name) for name in names if name in given}
    every, blocks = given.pop(EVERY_BLOCK, {}), given.get("block", [])

    def merged(block: dict[str, Any]) -> dict[str, Any]:
        block = shared | every | block
        if isinstance(count := block.get("seeds"), int) and count <= MAX_SEEDS:
            block["seeds"] = tuple(range(count))
        return block | {name: table | block.get(name, {}) for name, table in tables.items()}

    try:
        given["block"] = [merged(block) for block in blocks]
    except (TypeError, AttributeError) as error:
        raise InvalidInput(
            "A protocol has tables [training], [unlearning], [every_block] and [[block]]; one of "
            "them is something else."
        ) from error
    return given


def _explained(error: pydantic.ValidationError, given: dict[str, Any]) -> InvalidInput:
    # Of a value that fits neither of two types, what says most; without pydantic's names for them.
    first = max(error.errors(), key=lambda e: (e["input"] in ([], ()), len(e["loc"])))
    path = [p for p in first["loc"] if isinstance(p, int) or (p.isidentifier() and p != "bool")]
    name = ".".join(str(part) for part in _written_at(path, given))
    if first["type"] == "extra_forbidden":
        return InvalidInput(f"there is no key {name!r}.")
    rule = "should not be empty" if first["input"] in ([], ()) else first["msg"]
    return InvalidInput(f"{name}: {rule}. (got {first['input']!r})")


def _written_at(path: list[Any], given: dict[str, Any]) -> list[Any]:
    """Where a key of a block is written: in the block, or as a default above it."""
    match path:
        case ["block", int(index), key, *rest]:
            for place, table in (
                (["block", index], given["block"][index]),
                ([EVERY_BLOCK], given.get(EVERY_BLOCK, {})),
                ([], given),
            ):
                inner = table.get(key)
                if key in table and not (isinstance(inner, dict) and rest and rest[0] not in inner):
                    return [*place, key, *rest]
    return path


def _checked(protocol: Protocol) -> Protocol:
    """The protocol with every block named; what cannot be combined is refused."""
    blocks: list[Block] = []
    for index, block in enumerate(protocol.block):
        name = block.name or f"{block.dataset}-{block.model}-{index}"
        with _at(f"block.{index}"):
            if name in [other.name for other in blocks]:
                raise InvalidInput(f"name: there is another block {name!r}.")
            if len(set(block.seeds)) < len(block.seeds):
                raise InvalidInput("seeds: a seed is listed twice.")
            _check_parts(block)
            _check_measured(protocol, block)
        blocks.append(block.model_copy(update={"name": name}))
    return protocol.model_copy(update={"block": tuple(blocks)})


def _check_measured(protocol: Protocol, block: Block) -> None:
    """Refuse measurements that would be left out unnoticed, or that nothing supports."""
    if "klom" in block.metrics and block.ideals < MIN_IDEALS_OF_KLOM:
        raise InvalidInput(
            "metrics: KLoM compares with the spread of retrained models, and each of them with the "
            f"others: `ideals` should be at least {MIN_IDEALS_OF_KLOM}. (got {block.ideals})"
        )
    for key, value, for_texts, remedy in (
        ("attacks", protocol.attacks, (True, False), "Give true or false"),
        ("metrics", list(block.metrics), ([],), "Leave it out"),
        ("ideals", block.ideals, (1,), "Leave it out"),
        ("full_scores", block.full_scores, ("every",), "Leave it out"),
        ("evaluate_steps", list(block.evaluate_steps), ([],), "Leave it out"),
    ):
        if block.is_text and value not in for_texts:
            raise InvalidInput(
                f"{key}: `{key}` = {value!r} is for images, and the data {block.data} are "
                f"texts. {remedy}, or put {block.name or 'this block'!r} in a protocol of its own."
            )


def _check_parts(block: Block) -> None:
    """Refuse unknown names and parts that do not go together."""

    def registered(key: str, registry: Registry[Any], names: tuple[str, ...]) -> tuple[str, ...]:
        with _at(key):
            full_names = tuple(registry.name(name) for name in names)
            for name in full_names:
                if "(" in name:  # options of the part itself
                    registry.resolve(name)
            return full_names

    # Model and data.
    models: Registry[Any] = LANGUAGE_MODELS if block.is_text else MODELS
    registered("model", models, (block.model,))
    for option in block.options:
        if option not in inspect.signature(models[block.model]).parameters:
            raise InvalidInput(f"options: the model {block.model} has no option {option!r}.")
    registered("data", CORPORA if block.is_text else DATASETS, (block.dataset,))
    for scenario in block.scenarios:
        with _at("scenarios"):
            rule = parse_scenario(scenario)
        if isinstance(rule, PeopleForget) != block.is_text:
            rule_of_data = "people:FRACTION, as" if block.is_text else "one for images, as"
            raise InvalidInput(
                f"scenarios: the scenario should be {rule_of_data} the data are "
                f"{block.data}. (got {scenario!r})"
            )

    # Methods and add-ons.
    baselines = registered("baselines", METHODS, block.baselines)
    if "retrain" in [METHODS.bare_name(name) for name in baselines]:
        raise InvalidInput("baselines: the retrained ideal is always there.")
    methods = registered("methods", METHODS, block.methods)
    addons = registered("addons", ADDONS, block.addons)
    registered("moments", MOMENTS, block.moments)
    needing = [addon for addon in addons if not ADDONS[addon].needs_saliency and addon != "none"]
    for method in methods:
        if not METHODS.resolve(method).constrained and needing:
            raise InvalidInput(
                f"methods: {METHODS.label(method)} has no constraint, so the add-on "
                f"{needing[0]} would change nothing. Name it among the baselines."
            )
    if not block.methods and not block.baselines:
        raise InvalidInput("methods: a block should have `methods` or `baselines`.")

    for method in (*methods, *baselines) if block.is_text else ():
        if not METHODS[method].token_losses:
            raise InvalidInput(f"methods: {METHODS.label(method)} is not for language models.")
        if METHODS[method].needs_answers:
            raise InvalidInput(
                f"methods: {METHODS.label(method)} needs answers to prefer, which "
                "the data of a protocol do not have. Take NPO."
            )

    # Aggregation.
    usual = block.unlearning.aggregate
    for key, name in (("unlearning", usual), *(("aggregates", each) for each in block.aggregates)):
        with _at(key):
            as_aggregate(name)
    linear = isinstance(as_aggregate(usual), WeightedSum)
    if not linear and block.unlearning.alpha != Unlearning().alpha:
        raise InvalidInput("unlearning: `alpha` applies to the aggregation linear.")
