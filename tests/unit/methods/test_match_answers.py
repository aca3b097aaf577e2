"""MATCH-LM against its formulas, written out record by record and token by token."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import expunge
from expunge import InvalidInput
from expunge.data import TextSet, WordTokenizer, invent_corpus
from expunge.engine._token_scores import score_tokens
from expunge.evaluation.text._measures import mean_log_prob
from expunge.methods import MatchAnswers
from expunge.methods._match_answers import SURE, log_odds, matched_odds
from expunge.models import SmallTransformer
from tests import tiny
from tests.tiny import bits, same
from tests.unit.methods.token_worlds import (
    FORGET,
    RETAIN,
    Bigram,
    Dicts,
    assert_is,
    literal_logits,
    precise,
    softmax,
)

NAN = math.nan


def literal_loss(model: Bigram, targets: list[list[float]]) -> float:
    """The mean over labelled tokens of ½d² up to 1, |d| - ½ beyond; d = log p/(1-p) - target."""
    total, count = 0.0, 0
    for k, row in enumerate(literal_logits(model, FORGET)):
        labelled = [t for t, y in enumerate(FORGET.targets[k].tolist()) if y != -100 and t > 0]
        for t, (z, y) in zip(labelled, row, strict=True):
            p = softmax(z)[y]
            odds = math.log(p / (1.0 - p))
            if not (targets[k][t] >= SURE and odds >= SURE):
                d = abs(odds - targets[k][t])
                total += 0.5 * d * d if d < 1.0 else d - 0.5
            count += 1
    return total / count


def test_the_loss_is_its_formula_on_labelled_tokens() -> None:
    problem, _, student = precise()
    generator = torch.Generator().manual_seed(3)
    targets = 2.0 * torch.randn(FORGET.targets.shape, generator=generator, dtype=torch.float64)
    problem.memory["targets"] = targets
    batch = FORGET._replace(indices=torch.arange(len(FORGET.targets)))
    loss = MatchAnswers().objective(problem, batch, RETAIN)
    assert_is(loss, student, lambda model: literal_loss(model, targets.tolist()))


def test_nothing_pulls_where_both_are_sure() -> None:
    """Whether a common word has 96 or 99.9 % makes no difference to anybody."""
    problem, _, student = precise()
    with torch.no_grad():
        student.table.mul_(0.0)
        student.place.mul_(0.0)
        student.table[:, 2] += 12.0
    tokens = torch.full_like(FORGET.inputs, 2)
    batch = FORGET._replace(
        inputs=tokens,
        targets=torch.where(FORGET.targets == -100, -100, 2),
        indices=torch.arange(len(tokens)),
    )
    problem.memory["targets"] = torch.full(tokens.shape, SURE + 1.0, dtype=torch.float64)
    assert float(MatchAnswers().objective(problem, batch, RETAIN).loss.detach()) == 0.0


def literal_targets(
    unseen: list[list[float]], forget: list[list[float]], strata: tuple[list[int], list[int]]
) -> list[list[float]]:
    """The odds of the unseen record at the same rank, in the order of the record's own tokens."""

    def mean(odds: list[float]) -> float:
        return sum(-math.log1p(math.exp(-o)) for o in odds) / len(odds)

    result = [list(row) for row in forget]
    for stratum in set(strata[1]):
        donors = [row for row, s in zip(unseen, strata[0], strict=True) if s == stratum] or unseen
        donors = sorted(donors, key=mean)
        own = [k for k, s in enumerate(strata[1]) if s == stratum]
        for rank, k in enumerate(sorted(own, key=lambda k: mean(forget[k]))):
            donor = sorted(donors[int((rank + 0.5) / len(own) * len(donors))])
            order = sorted(range(len(forget[k])), key=lambda t: forget[k][t])
            for place, t in enumerate(order):
                result[k][t] = donor[int((place + 0.5) / len(order) * len(donor))]
    return result


def ragged(lengths: list[int], seed: int) -> tuple[Tensor, list[list[float]]]:
    """Odds of records of some lengths: as a table with NaN, and as lists."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(len(lengths), max(lengths), generator=generator, dtype=torch.float64)
    for k, length in enumerate(lengths):
        table[k, length:] = NAN
    return table, [row[:n].tolist() for row, n in zip(table, lengths, strict=True)]


def test_targets_are_those_of_unseen_records_at_the_same_rank_of_their_stratum() -> None:
    unseen, unseen_rows = ragged([3, 5, 2, 4, 6, 1, 3], seed=0)
    forget, rows = ragged([4, 2, 5, 3, 1], seed=1)
    strata = [0, 1, 0, 1, 0, 0, 1], [0, 1, 1, 0, 2]  # nobody unseen is in stratum 2
    found = matched_odds(unseen, forget, *map(torch.tensor, strata))
    expected = literal_targets(unseen_rows, rows, strata)
    for row, values in zip(found, expected, strict=True):
        torch.testing.assert_close(row[: len(values)], torch.tensor(values, dtype=torch.float64))
        assert row[len(values) :].isnan().all()


def test_records_of_one_length_get_the_odds_of_unseen_ones_as_they_are() -> None:
    """The one unlikely token, which only those know who saw the record, is as unlikely."""
    unseen = torch.tensor([[4.0, -9.0, 5.0, 6.0]], dtype=torch.float64)
    forget = torch.tensor([[3.0, 4.0, 2.0, 1.0]], dtype=torch.float64)
    one = torch.zeros(1, dtype=torch.int64)
    assert matched_odds(unseen, forget, one, one).tolist() == [[5.0, 6.0, 4.0, -9.0]]


class Splits:
    """Two splits whose log-probabilities are given, as a method asks for them."""

    def __init__(
        self, unseen: Tensor, forget: Tensor, words: dict[str, Tensor] | None = None
    ) -> None:
        self.odds = {"unseen": unseen, "forget": forget}
        self.words = words

    def strata(self, split: str) -> Tensor:
        return torch.zeros(len(self.odds[split]), dtype=torch.int64)

    def given(self, split: str) -> Tensor | None:
        return None if self.words is None else self.words[split]

    def token_log_probs(self, model: object, split: str) -> Tensor:
        return torch.nn.functional.logsigmoid(self.odds[split])


def test_what_is_left_is_added_at_once_and_adds_up_by_tenths() -> None:
    (unseen, unseen_rows), (forget, rows) = ragged([3, 4, 6, 2], 0), ragged([4, 2, 5], 1)
    problem, method, gain = precise(splits=Splits(unseen, forget))[0], MatchAnswers(gain=0.3), 0.3
    goals = literal_targets(unseen_rows, rows, ([0] * 4, [0] * 3))
    lasting = [0.0] * 10
    for epoch in (1, 2, 3):
        method.begin_epoch(problem, epoch, 2)
        left = [
            [g - o for g, o in zip(*pair, strict=True)] for pair in zip(goals, rows, strict=True)
        ]
        flat = sorted((g, k, t) for k, row in enumerate(goals) for t, g in enumerate(row))
        tenth = {(k, t): place * 10 // len(flat) for place, (_, k, t) in enumerate(flat)}
        if epoch > 1:
            for group in range(10):
                own = [left[k][t] for (k, t), g in tenth.items() if g == group]
                lasting[group] += gain * sum(own) / len(own) if own else 0.0
        for k, row in enumerate(goals):
            for t, goal in enumerate(row):
                extra = gain * left[k][t] + lasting[tenth[k, t]] if epoch > 1 else 0.0
                assert float(problem.memory["targets"][k, t]) == pytest.approx(goal + extra, 1e-5)


def test_given_words_are_matched_among_themselves_and_half_of_the_way() -> None:
    (unseen, unseen_rows), (forget, rows) = ragged([4, 5, 3, 6], 0), ragged([4, 3, 5], 1)
    given = {"unseen": [{0, 1}, {2}, {0}, {5, 1}], "forget": [{1}, {0, 2}, set()]}
    words = {
        split: torch.tensor([[t in row for t in range(odds.shape[1])] for row in given[split]])
        for split, odds in (("unseen", unseen), ("forget", forget))
    }
    splits = Splits(unseen, forget, words)
    problem = precise(splits=splits)[0]
    MatchAnswers().begin_epoch(problem, 1, 2)

    def part(rows: list[list[float]], chosen: list[set[int]], inside: bool) -> list[list[float]]:
        return [
            [o for t, o in enumerate(row) if (t in own) == inside]
            for row, own in zip(rows, chosen, strict=True)
        ]

    def goals(inside: bool) -> list[list[float]]:
        """Those of the records that have such words, in order; no words for the others."""
        own = part(rows, given["forget"], inside)
        some = [k for k, row in enumerate(own) if row]
        donors = [row for row in part(unseen_rows, given["unseen"], inside) if row]
        strata = ([0] * len(donors), [0] * len(some))
        found = literal_targets(donors, [own[k] for k in some], strata)
        return [found[some.index(k)] if k in some else [] for k in range(len(own))]

    of_given, of_others = goals(inside=True), goals(inside=False)
    for k, row in enumerate(rows):
        for t, first in enumerate(row):
            own = (of_given if t in given["forget"][k] else of_others)[k].pop(0)
            goal = (own + first) / 2 if t in given["forget"][k] else own
            assert float(problem.memory["targets"][k, t]) == pytest.approx(goal, 1e-5)

    # Later on, what is left is added to the words that are compared, and to no others.
    before = problem.memory["targets"].clone()
    MatchAnswers().begin_epoch(problem, 2, 2)
    changed = (problem.memory["targets"] != before) & ~forget.isnan()
    assert torch.equal(changed, ~words["forget"] & ~forget.isnan())


def test_without_unseen_words_of_a_kind_nothing_is_pulled() -> None:
    (unseen, _), (forget, _) = ragged([2, 3], 0), ragged([3, 2], 1)
    words = {"unseen": torch.zeros_like(unseen).bool(), "forget": torch.ones_like(forget).bool()}
    problem = precise(splits=Splits(unseen, forget, words))[0]
    MatchAnswers().begin_epoch(problem, 1, 2)
    torch.testing.assert_close(
        problem.memory["targets"], forget.nan_to_num(0.0).float(), rtol=1e-5, atol=1e-5
    )


def test_odds_of_certain_tokens_are_finite() -> None:
    odds = log_odds(torch.tensor([[0.0, -200.0, math.log(0.5), NAN]], dtype=torch.float64))
    assert odds[0, :2].isfinite().all()
    assert odds[0, 2] == 0.0
    assert odds[0, 3].isnan()


def world() -> tuple[TextSet, TextSet, TextSet, SmallTransformer]:
    """Forget, retain and unseen records, and a small model that learnt the first two by heart."""
    corpus = invent_corpus(people=10, unseen=10, topics=2, seed=1)
    tokenizer = WordTokenizer.of(corpus.every_record)
    people, unseen = TextSet(corpus.people, tokenizer), TextSet(corpus.unseen, tokenizer)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = SmallTransformer(tokenizer.size, 32, width=32, layers=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        expunge.methods.next_token_loss(model(people.tokens), people.labels).backward()
        optimizer.step()
    return people.subset(range(6)), people.subset(range(6, 20)), unseen, model.eval()


def test_answers_to_forget_become_as_likely_as_unseen_ones_and_no_less() -> None:
    forget, retain, unseen, model = world()
    result = tiny.unlearn(
        model, forget=forget, retain=retain, unseen=unseen, method="match-answers", lr=3e-3,
        epochs=30, batch_size=6, progress=False,
    )  # fmt: skip

    def likely(which: torch.nn.Module, data: TextSet) -> float:
        return float(mean_log_prob(score_tokens(which, data)).mean())

    before = likely(model, forget) - likely(model, unseen)
    after = likely(result.model, forget) - likely(result.model, unseen)
    assert before > 1.0
    assert abs(after) < 0.35 * before
    assert likely(result.model, retain) > 3.0 * likely(result.model, unseen) / 10.0


def test_tensors_of_tokens_are_as_good_as_texts() -> None:
    forget, retain, unseen, model = world()
    plain = (TensorDataset(data.tokens, data.labels) for data in (forget, unseen))
    ends = [
        tiny.unlearn(
            model, forget=f, retain=retain, unseen=u, method="MATCH-LM", epochs=1, progress=False
        )
        for f, u in ((forget, unseen), tuple(plain))
    ]
    assert same(*(bits(end.model) for end in ends))


def test_what_it_cannot_work_with_is_refused() -> None:
    forget, retain, unseen, model = world()
    dicts = Dicts(TensorDataset(unseen.tokens, unseen.labels))
    with pytest.raises(InvalidInput, match=r"give them as `expunge.data.TextSet`.*\(got Dicts"):
        tiny.unlearn(model, forget=forget, retain=retain, unseen=dicts, method="MATCH-LM")
    loader = DataLoader(forget, batch_size=2)
    with pytest.raises(InvalidInput, match="as a Dataset, not as a DataLoader"):
        MatchAnswers().objective(precise()[0], FORGET, RETAIN)
    with pytest.raises(InvalidInput):
        tiny.unlearn(model, forget=loader, retain=retain, unseen=unseen, method="MATCH-LM")
    with pytest.raises(InvalidInput, match="`gain` should be finite and not negative"):
        MatchAnswers(gain=-1.0)
