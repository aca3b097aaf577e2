"""Scenarios, which pick what to forget: at random, a class, listed ids or people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, Self

from expunge._errors import InvalidInput
from expunge._files import is_there
from expunge._kinds import Fraction, Part, Range, check_fields
from expunge._registry import Registry
from expunge.data._id_file import Id, as_number, read_ids

if TYPE_CHECKING:
    from expunge.data._examples import Examples
    from expunge.data._splits import Selection
    from expunge.data.text import TextSet


class Scenario(Protocol):
    """A rule that picks the examples to forget; :func:`parse_scenario` reads what ``str`` gives."""

    def pick(self, train: Examples, seed: int) -> Selection:
        """The examples of ``train`` to forget and to retain; the same for the same seed."""
        ...


@dataclass(frozen=True)
class _Share(Part):
    """A share of something, ``fraction`` in (0, 1)."""

    kind: ClassVar[str]
    fraction: Fraction

    def __str__(self) -> str:
        return f"{self.kind}:{self.fraction}"

    @classmethod
    def parse(cls, rest: str) -> Self:
        fraction = _float(rest)
        if fraction is None:
            raise InvalidInput(f"`fraction` should be a number in (0, 1). (got {rest!r})")
        return cls(fraction)


@dataclass(frozen=True)
class RandomForget(_Share):
    """random:0.1, that share of the training examples.

    ``round(fraction * N)`` of the N examples, at least one.

    Use it as most publications do; a small gap to close, as most models get such examples right.

    Reference: the paper's random forgetting.
    """

    kind = "random"

    def pick(self, train: Examples, seed: int) -> Selection:
        from expunge.data._splits import draw, select

        return select(train, draw(range(len(train)), self.fraction, seed))


@dataclass(frozen=True)
class PeopleForget(_Share):
    """people:0.1, all records of that share of the people, for texts.

    Those of ``round(fraction * n)`` of n people, at least one.

    Use it for a corpus about people, who ask to be forgotten one by one.

    Reference: P. Maini et al., *TOFU: A Task of Fictitious Unlearning for LLMs*, COLM 2024.
    """

    kind = "people"

    def pick(self, train: Examples | TextSet, seed: int) -> Selection:
        from expunge.data._splits import draw, select

        records = getattr(train, "records", ())
        people = list(dict.fromkeys(record.person for record in records if record.person))
        if not people:
            raise InvalidInput(
                "The scenario people:FRACTION is for texts whose records have a `person`. "
                f"(got {type(train).__name__} without any)"
            )
        chosen = {people[k] for k in draw(range(len(people)), self.fraction, seed)}
        return select(train, [k for k, record in enumerate(records) if record.person in chosen])


@dataclass(frozen=True)
class ClassForget:
    """class:3 or class:cat, all examples of a class; class:3:0.4, that share of them.

    ``round(fraction * n)`` of the n examples, at least one, ``fraction`` in (0, 1]. ``label`` is a
    class name or an index; a number that is itself a class name is that class.

    Use it where a whole class or much of it has to go: the easiest case, and a large gap to close.

    Reference: the paper's class-wise forgetting.
    """

    label: str | int
    fraction: Annotated[float, Range(0, 1, "(]")] = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "label", as_number(self.label))

    def __str__(self) -> str:
        plain = self.fraction == 1 and ":" not in str(self.label)
        return f"class:{self.label}" if plain else f"class:{self.label}:{self.fraction}"

    @classmethod
    def parse(cls, rest: str) -> Self:
        label, _, last = rest.rpartition(":")
        fraction = _float(last)
        return cls(rest) if not label or fraction is None else cls(label, fraction)

    def pick(self, train: Examples, seed: int) -> Selection:
        from expunge.data._splits import draw, select

        label = self._resolve(train.classes)
        members = (train.labels == label).nonzero()[:, 0].tolist()
        if not members:
            raise InvalidInput(
                f"The class {train.classes[label]!r} should have training {train.noun}s to forget. "
                "(got none)"
            )
        return select(train, draw(members, self.fraction, seed))

    def _resolve(self, classes: tuple[str, ...]) -> int:
        if not classes:
            raise InvalidInput("A regression has no classes to forget. Use random or ids.")
        if classes.count(str(self.label)) > 1:
            raise InvalidInput(
                f"Class names should differ. (got {self.label!r} several times) Rename them."
            )
        if str(self.label) in classes:
            return classes.index(str(self.label))
        if isinstance(self.label, int):
            if 0 <= self.label < len(classes):
                return self.label
            raise InvalidInput(f"A class should be in 0..{len(classes) - 1}. (got {self.label})")
        names: Registry[int] = Registry("class")
        for index, name in enumerate(classes):
            if name not in names:
                names.add(name, index)
        return names[self.label]


@dataclass(frozen=True)
class IdsForget:
    """ids:FILE, the examples that a text, CSV or JSON file lists.

    Ids are indices into the training part, or names. If examples have numbers for names, every id
    is a name, so that one that is no longer there is never confused with another one. A name that
    several examples share stands for all of them. ``path`` is the file the ids came from, if any.

    Use it for a request: the records are given.

    Reference: none; this is what a request is.
    """

    ids: tuple[Id, ...]
    path: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))
        check_fields(self)
        object.__setattr__(self, "ids", tuple(as_number(entry) for entry in self.ids))
        if not self.ids:
            raise InvalidInput("`ids` should name one example or more. (got none)")
        repeated = [entry for entry, count in Counter(self.ids).items() if count > 1]
        if repeated:
            raise InvalidInput(
                f"Every id should be listed once. (got {_some(repeated)} more than once"
                f"{' in ' + self.path if self.path else ''})"
            )

    def __str__(self) -> str:
        return f"ids:{self.path}" if self.path else f"ids:<{len(self.ids)} given>"

    @classmethod
    def parse(cls, rest: str) -> Self:
        return cls(read_ids(Path(rest).expanduser()), rest)

    def pick(self, train: Examples, seed: int) -> Selection:
        from expunge.data._splits import select

        # Index the examples by name.
        by_name: dict[str, list[int]] = {}
        for index, name in enumerate(train.names or ()):
            by_name.setdefault(name, []).append(index)
        numbered = any(name.isdecimal() for name in by_name)
        # Look every id up.
        chosen: set[int] = set()
        unknown: list[Id] = []
        for entry in self.ids:
            if str(entry) in by_name:
                chosen.update(by_name[str(entry)])
            elif isinstance(entry, int) and not numbered and 0 <= entry < len(train):
                chosen.add(entry)
            else:
                unknown.append(entry)
        if unknown:
            rule = f"indices in 0..{len(train) - 1}" + (
                f" or {train.noun} names" if by_name else ""
            )
            raise InvalidInput(
                f"Ids should be {f'names of training {train.noun}s' if numbered else rule}. "
                f"(got {_some(unknown)}: {len(unknown)} of {len(self.ids)} unknown) "
                "What is held out for validation or test has nothing to be forgotten."
            )
        return select(train, sorted(chosen))


def parse_scenario(text: str) -> Scenario:
    """Read a scenario: ``random:0.1``, ``class:3``, ``class:3:0.4``, ``ids:FILE``.

    >>> parse_scenario("class:cat:0.4")
    ClassForget(label='cat', fraction=0.4)
    >>> str(parse_scenario("random:0.1"))
    'random:0.1'
    >>> parse_scenario("randon:0.1")
    Traceback (most recent call last):
    expunge._errors.InvalidInput: Unknown scenario 'randon'. Did you mean 'random'?
    """
    if not isinstance(text, str):
        raise InvalidInput(f"A scenario should be a string, like random:0.1. (got {text!r})")
    kind, _, rest = text.strip().partition(":")
    scenario = SCENARIOS[kind]
    if not rest:
        raise InvalidInput(
            "A scenario should read random:FRACTION, class:LABEL, class:LABEL:FRACTION or "
            f"ids:FILE. (got {text!r})"
        )
    parsed: Scenario = scenario.parse(rest)
    return parsed


SCENARIOS: Registry[Any] = Registry("scenario")
SCENARIOS.add("random", RandomForget)
SCENARIOS.add("class", ClassForget)
SCENARIOS.add("people", PeopleForget)
SCENARIOS.add("ids", IdsForget)


def absolute_spec(spec: str) -> str:
    """A dataset or scenario with its path, if any, made absolute: it holds from any directory."""
    kind, colon, path = spec.partition(":")
    if kind.lower() in SCENARIOS:
        is_file = SCENARIOS.name(kind) == "ids" and colon and path
        return f"{kind}:{Path(path).expanduser().resolve()}" if is_file else spec

    from expunge.data._formats import find_data, is_data_factory

    if is_data_factory(spec):
        return spec
    source = find_data(spec)
    if source.path is None or not is_there(source.path):
        return spec
    return str(replace(source, path=source.path.resolve()))


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _some(values: list[Id]) -> str:
    shown = ", ".join(repr(value) for value in values[:10])
    return shown + (f" and {len(values) - 10} more" if len(values) > 10 else "")
