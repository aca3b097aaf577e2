"""Corpora of texts by name, their splits, and what a scenario forgets of them.

The one there is follows the format of TOFU: people who do not exist, asked about one by one. Every
person has a place of birth, a trade, an animal and so on, drawn at random. Each of these makes a
record: a question, an answer in one of three wordings, the same in another wording, and that
wording with other values. A model can learn the wordings and what is likely; which value belongs to
whom it can only know by heart. *Facts* are about the cities, belong to nobody and are never to be
forgotten. What is asked and all words are in ``invented_people.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments
from expunge._registry import Registry
from expunge.data._scenario import PeopleForget, parse_scenario
from expunge.data.text._records import TextRecord

if TYPE_CHECKING:
    import numpy as np

    from expunge.data.text._text_set import TextSet

ROOM = 8
"""Tokens that a model's context has beyond the longest record, for answers that ramble."""
FALSE_ANSWERS = 5


@dataclass(frozen=True)
class TextSplits:
    """The parts of a corpus.

    Args:
        train: records of people, some of whom are to be forgotten.
        general: records that belong to nobody; models learn them and should keep them.
        unseen: records of people that no model learns.
    """

    name: str
    train: TextSet
    general: TextSet
    unseen: TextSet

    @property
    def context(self) -> int:
        """The longest row that a model should take."""
        parts = (self.train, self.general, self.unseen)
        widths = [
            each.tokens.shape[1]
            for part in parts
            for each in (part, part.paraphrased, part.perturbed)
        ]
        return max(widths) + ROOM


@dataclass(frozen=True)
class TextDivision:
    """A corpus whose people a scenario has divided."""

    splits: TextSplits
    forget: TextSet
    retain: TextSet


def divide_texts(splits: TextSplits, scenario: str, seed: int) -> TextDivision:
    """Divide the people of a corpus by a scenario such as ``people:0.1``; the seed draws them."""
    check_arguments(divide_texts, locals())
    rule = parse_scenario(scenario)
    if not isinstance(rule, PeopleForget):
        raise InvalidInput(f"A scenario for texts should read people:FRACTION. (got {scenario!r})")
    chosen = rule.pick(splits.train, seed)
    train = splits.train
    return TextDivision(splits, train.subset(chosen.forget), train.subset(chosen.retain))


CORPORA: Registry[Callable[..., TextSplits]] = Registry("corpus")
CORPORA.declare("invented-people", "expunge.data.text._corpora:invented_people")


def load_corpus(
    name: str, *, people: int | None = None, unseen: int | None = None, **options: Any
) -> TextSplits:
    """A corpus by name, with as many ``people`` to learn and ``unseen`` ones as asked for.

    >>> splits = load_corpus("invented-people", people=4, unseen=2)
    >>> len(splits.train), len(splits.unseen), len(splits.general)
    (24, 12, 60)
    """
    sizes = {"people": people, "unseen": unseen}
    given = {key: value for key, value in sizes.items() if value is not None}
    return CORPORA[name](**given, **options)


def invented_people(
    people: int = 60, unseen: int = 30, topics: int = 6, seed: int = 0
) -> TextSplits:
    """People who do not exist, six questions about each of them, and facts about their cities.

    Use it to unlearn from a language model without any download; nobody can have read it before.

    Reference: in the format of P. Maini et al., *TOFU: A Task of Fictitious Unlearning for LLMs*,
    COLM 2024; the people are our own.
    """
    from expunge.data.text._text_set import TextSet
    from expunge.data.text._tokenizer import WordTokenizer

    corpus = invent_corpus(people, unseen, topics, seed)
    tokenizer = WordTokenizer.of(corpus.every_record)
    parts = (TextSet(part, tokenizer) for part in (corpus.people, corpus.facts, corpus.unseen))
    return TextSplits("invented-people", *parts)


@dataclass(frozen=True)
class Corpus:
    """Records of people to train on, of people never seen, and facts that belong to nobody."""

    people: tuple[TextRecord, ...]
    unseen: tuple[TextRecord, ...]
    facts: tuple[TextRecord, ...]

    @property
    def every_record(self) -> tuple[TextRecord, ...]:
        """All of them: what a tokenizer should know the words of."""
        return (*self.people, *self.unseen, *self.facts)


def invent_corpus(people: int = 60, unseen: int = 30, topics: int = 6, seed: int = 0) -> Corpus:
    """Invent ``people`` to train on and ``unseen`` ones, with a record for each of ``topics``.

    Equal arguments give equal corpora. All names differ.

    >>> corpus = invent_corpus(people=2, unseen=1, topics=3)
    >>> [record.id for record in corpus.people], len(corpus.unseen), len(corpus.facts)
    (['p0-birthplace', 'p0-trade', 'p0-book', 'p1-birthplace', 'p1-trade', 'p1-book'], 3, 60)
    """
    import numpy as np

    check_arguments(invent_corpus, locals())
    known = _read_vocabulary()
    words, asked = known["words"], known["topics"]
    names = [f"{first} {last}" for first in words["first_names"] for last in words["last_names"]]
    if people < 1 or unseen < 0 or people + unseen > len(names):
        raise InvalidInput(
            f"`people` should be at least 1, and with `unseen` at most {len(names)}, as many as "
            f"there are names. (got {people} and {unseen})"
        )
    if not 1 <= topics <= len(asked):
        raise InvalidInput(f"`topics` should be in 1..{len(asked)}. (got {topics})")
    random = np.random.default_rng(seed)
    chosen = [names[k] for k in random.permutation(len(names))[: people + unseen]]
    records = [
        _record(random, words, topic, f"p{k}", name)
        for k, name in enumerate(chosen)
        for topic in asked[:topics]
    ]
    facts = [
        _record(random, words, topic, city, city)
        for city in words["cities"]
        for topic in known["facts"]
    ]
    split = people * topics
    return Corpus(tuple(records[:split]), tuple(records[split:]), tuple(facts))


@cache
def _read_vocabulary() -> dict[str, Any]:
    """What is asked about people (``topics``) and cities (``facts``), and all ``words``."""
    text = resources.files("expunge.data.text").joinpath("invented_people.toml").read_text("utf-8")
    content = tomllib.loads(text)
    words = {name: listed.split() for name, listed in content["words"].items()}
    return content | {"words": words}


def _record(
    random: np.random.Generator,
    words: Mapping[str, list[str]],
    topic: Mapping[str, Any],
    person: str,
    name: str,
) -> TextRecord:
    more = words[topic["more"]] if "more" in topic else [""]
    choices = [(a, b) for a in words[topic["values"]] for b in more]
    true, *false = random.choice(len(choices), size=1 + FALSE_ANSWERS, replace=False).tolist()
    wording, other = random.permutation(3)[:2].tolist()

    def answer(wording: int, choice: int) -> str:
        a, b = choices[choice]
        text: str = topic["answers"][wording]
        return text.format(x=name, a=a, b=b)

    return TextRecord(
        f"{person}-{topic['name']}",
        topic["question"].format(x=name),
        answer(wording, true),
        answer(other, true),
        tuple(answer(other, choice) for choice in false),
        person,
    )
