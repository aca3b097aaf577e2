"""Corpora of texts by name, their splits, and what a scenario forgets of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments
from expunge._registry import Registry
from expunge.data._scenario import PeopleForget, parse_scenario

if TYPE_CHECKING:
    from expunge.data.text._text_set import TextSet

ROOM = 8
"""Tokens that a model's context has beyond the longest record, for answers that ramble."""


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
    from expunge.data.text._invented_people import invent_corpus
    from expunge.data.text._text_set import TextSet
    from expunge.data.text._tokenizer import WordTokenizer

    corpus = invent_corpus(people, unseen, topics, seed)
    tokenizer = WordTokenizer.of(corpus.every_record)
    parts = (TextSet(part, tokenizer) for part in (corpus.people, corpus.facts, corpus.unseen))
    return TextSplits("invented-people", *parts)


def divide_texts(splits: TextSplits, scenario: str, seed: int) -> TextDivision:
    """Divide the people of a corpus by a scenario such as ``people:0.1``; the seed draws them."""
    check_arguments(divide_texts, locals())
    rule = parse_scenario(scenario)
    if not isinstance(rule, PeopleForget):
        raise InvalidInput(f"A scenario for texts should read people:FRACTION. (got {scenario!r})")
    chosen = rule.pick(splits.train, seed)
    train = splits.train
    return TextDivision(splits, train.subset(chosen.forget), train.subset(chosen.retain))
