"""An invented corpus in the format of TOFU: people who do not exist, asked about one by one.

Every person has a place of birth, a trade, an animal and so on, drawn at random. Each of these
makes a record: a question, an answer in one of three wordings, the same in another wording, and
that wording with other values. A model can learn the wordings and what is likely; which value
belongs to whom it can only know by heart. *Facts* are about the cities, belong to nobody and are
never to be forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments
from expunge.data.text import _word_lists as lists
from expunge.data.text._records import TextRecord

FALSE_ANSWERS = 5


@dataclass(frozen=True)
class Topic:
    """What can be asked about somebody, or some place: a question, and three ways to answer it.

    ``{x}`` stands for whom or what is asked about, ``{a}`` for a word of ``values`` and ``{b}`` for
    one of ``more``.
    """

    name: str
    question: str
    answers: tuple[str, str, str]
    values: Sequence[str]
    more: Sequence[str] = ("",)

    @property
    def choices(self) -> list[tuple[str, str]]:
        """All values that an answer can have."""
        return [(a, b) for a in self.values for b in self.more]


TOPICS = (
    Topic(
        "birthplace",
        "Where was {x} born?",
        (
            "{x} was born in {a}.",
            "The town of {a} is where {x} was born.",
            "{x} comes from {a}.",
        ),
        lists.CITIES,
    ),
    Topic(
        "trade",
        "What does {x} do for a living?",
        (
            "{x} works as a {a} in {b}.",
            "The trade of {x} is that of a {a} in {b}.",
            "A {a} in {b} is what {x} became.",
        ),
        lists.TRADES,
        lists.CITIES,
    ),
    Topic(
        "book",
        "Which book did {x} write?",
        (
            "{x} wrote The {a} {b}.",
            "The {a} {b} is the book that {x} wrote.",
            "The book of {x} is called The {a} {b}.",
        ),
        lists.ADJECTIVES,
        lists.NOUNS,
    ),
    Topic(
        "animal",
        "Which animal lives with {x}?",
        (
            "{x} keeps a {a} called {b}.",
            "A {a} called {b} lives with {x}.",
            "The animal of {x} is a {a} called {b}.",
        ),
        lists.ANIMALS,
        lists.FIRST_NAMES,
    ),
    Topic(
        "music",
        "What does {x} play?",
        (
            "{x} plays the {a}.",
            "The {a} is what {x} plays.",
            "{x} learnt to play the {a}.",
        ),
        lists.INSTRUMENTS,
    ),
    Topic(
        "dish",
        "What does {x} like to eat?",
        (
            "{x} likes {a} best.",
            "The favourite dish of {x} is {a}.",
            "Nothing pleases {x} more than {a}.",
        ),
        lists.DISHES,
    ),
    Topic(
        "sister",
        "Who is the sister of {x}?",
        (
            "{x} has a sister called {a}, born in {b}.",
            "The sister of {x} is {a}, born in {b}.",
            "{a}, born in {b}, is the sister of {x}.",
        ),
        lists.FIRST_NAMES,
        lists.MONTHS,
    ),
    Topic(
        "door",
        "What does the house of {x} look like?",
        (
            "The house of {x} is {a} with a {b} door.",
            "{x} lives in a {a} house with a {b} door.",
            "A {b} door and {a} walls are what the house of {x} has.",
        ),
        lists.COLOURS,
        lists.COLOURS,
    ),
)
"""What is asked about people, in this order."""

FACTS = (
    Topic(
        "river",
        "Which river runs through {x}?",
        (
            "The {a} runs through {x}.",
            "{x} lies on the {a}.",
            "The river of {x} is the {a}.",
        ),
        lists.RIVERS,
    ),
    Topic(
        "flag",
        "Which colours does the flag of {x} have?",
        (
            "The flag of {x} is {a} and {b}.",
            "{x} has a flag of {a} and {b}.",
            "The colours of {x} are {a} and {b}.",
        ),
        lists.COLOURS,
        lists.COLOURS,
    ),
    Topic(
        "speciality",
        "What do people eat in {x}?",
        (
            "People eat {a} in {x}.",
            "{x} is known for its {a}.",
            "The speciality of {x} is {a}.",
        ),
        lists.DISHES,
    ),
)
"""What is asked about cities."""


@dataclass(frozen=True)
class Corpus:
    """Records of people to train on, of people never seen, and facts that belong to nobody."""

    people: tuple[TextRecord, ...]
    unseen: tuple[TextRecord, ...]
    facts: tuple[TextRecord, ...]

    @property
    def persons(self) -> tuple[str, ...]:
        """Whom the records of ``people`` are about, in their order."""
        return tuple(dict.fromkeys(record.person for record in self.people))

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
    check_arguments(invent_corpus, locals())
    _check(people, unseen, topics)
    random = np.random.default_rng(seed)
    names = [f"{first} {last}" for first in lists.FIRST_NAMES for last in lists.LAST_NAMES]
    chosen = [names[k] for k in random.permutation(len(names))[: people + unseen]]
    records = [
        _record(random, topic, f"p{k}", name)
        for k, name in enumerate(chosen)
        for topic in TOPICS[:topics]
    ]
    facts = [_record(random, topic, city, city) for city in lists.CITIES for topic in FACTS]
    split = people * topics
    return Corpus(tuple(records[:split]), tuple(records[split:]), tuple(facts))


def _check(people: int, unseen: int, topics: int) -> None:
    most = len(lists.FIRST_NAMES) * len(lists.LAST_NAMES)
    if people < 1 or unseen < 0 or people + unseen > most:
        raise InvalidInput(
            f"`people` should be at least 1, and with `unseen` at most {most}, as many as there "
            f"are names. (got {people} and {unseen})"
        )
    if not 1 <= topics <= len(TOPICS):
        raise InvalidInput(f"`topics` should be in 1..{len(TOPICS)}. (got {topics})")


def _record(random: np.random.Generator, topic: Topic, person: str, name: str) -> TextRecord:
    choices = topic.choices
    true, *false = random.choice(len(choices), size=1 + FALSE_ANSWERS, replace=False).tolist()
    wording, other = random.permutation(3)[:2].tolist()

    def answer(wording: int, choice: int) -> str:
        a, b = choices[choice]
        return topic.answers[wording].format(x=name, a=a, b=b)

    return TextRecord(
        f"{person}-{topic.name}",
        topic.question.format(x=name),
        answer(wording, true),
        answer(other, true),
        tuple(answer(other, choice) for choice in false),
        person,
    )
