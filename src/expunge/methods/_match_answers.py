"""MATCH-LM: give answers to forget the token probabilities of answers that the model never saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from expunge._kinds import NotNegative
from expunge.methods._match_unseen import is_refresh
from expunge.methods._token_method import Batch, Problem, Term, TokenMethod
from expunge.methods._tokens import is_labelled, is_token_labels, labelled_rows

Pair = tuple[Tensor, Tensor]

SUREST = 1e-6
"""Probabilities are kept this far from 0 and 1."""


TENTHS, LARGEST = 10, 4.0
"""What is left is added up for each of these shares of the targets, up to this many log-odds."""
SURE = 3.0
"""Log-odds beyond which it makes no difference how sure a model is: a probability of 95 %."""


@dataclass(frozen=True)
class MatchAnswers(TokenMethod):
    """U = mean ρ(o - t) over the labelled forget tokens, t from unseen answers; C = NLL on retain.

    o = log(p/(1-p)) are the log-odds of a token, p = π(y_t | y_<t), and t those that it should
    have; ρ(d) is ½d² up to |d| = 1 and |d| - ½ beyond, so that it pulls from both sides, with the
    same force from afar, and not at all where the token is as likely as it should be. Where both
    are above 3, a probability of 95 %, nothing pulls. Methods that raise the loss on the answers to
    forget push, no matter where to, until somebody stops them; here there is a place to arrive.

    Before every epoch (every second one in the first half of a run; at most about 20 times) the
    current model is asked about all records to forget and all unseen ones. Within each stratum of
    length and rarity both are sorted by mean log p, and a record gets the sorted log-odds of the
    tokens of the unseen record at its own rank, in the order in which the model has its own tokens,
    some twice or not at all if lengths differ. So the whole distribution that an attack could read
    is matched, by the smallest moves that do it.

    Where records are compared without the words of their questions (requests do so if others about
    the same people are retained, and unseen ones are about strangers), unseen answers tell of the
    other words alone. These are matched among themselves. For words of the questions two bounds are
    known: a model that had not seen the record would repeat them better than a stranger's, and not
    as well as one that had. So they get the mean of the log-odds of both.

    A model follows its targets only so far. ``gain`` times what is left between target and actual
    log-odds is added to the target; and its mean over each tenth of the targets adds up over the
    run, up to 4.

    Texts are an :class:`expunge.data.TextSet`, since every token has a target; without strata, as
    those of requests have them, all records are one stratum. Examples with a class count as
    sequences of one token, their classes as strata. Not from the paper.

    Use it for deletion requests to language models, where forgotten records should be answered as
    those of strangers are; it is what `expunge forget` does by default.

    Reference: none; it is this package's own, described in docs/explanation/language-models.md.

    Args:
        gain: of the correction; 0 turns it off, and more costs more of what is retained.
    """

    gain: NotNegative = 0.5

    needs_unseen: ClassVar[bool] = True
    preferred: ClassVar[dict[str, Any]] = {
        "alpha": 0.2,
        "beta": 0.8,
        "lr": 1e-4,
        "epochs": 20,
        "batch_size": 32,
        "schedule": "linear",
    }

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        positions = forget.positions
        rows, tokens = labelled_rows(problem.logits(forget), forget.targets)
        wanted = problem.memory["targets"].to(rows)[positions]
        if is_token_labels(forget.targets):
            wanted = wanted[:, 1 : forget.targets.shape[1]]
        targets = wanted[is_labelled(forget.targets)]
        others = rows.scatter(1, tokens[:, None], -torch.inf).logsumexp(dim=1)
        odds = rows.gather(1, tokens[:, None])[:, 0] - others
        beyond = (targets >= SURE) & (odds >= SURE)
        loss = F.smooth_l1_loss(torch.where(beyond, targets, odds), targets)
        return Term(loss, saliency=F.cross_entropy(rows, tokens))

    def begin_epoch(self, problem: Problem, epoch: int, epochs: int) -> None:
        """Refresh the targets from the current model's probabilities on unseen answers."""
        if not is_refresh(epoch, epochs):
            return
        splits, model = problem.splits, problem.model
        unseen = log_odds(splits.token_log_probs(model, "unseen"))
        actual = log_odds(splits.token_log_probs(model, "forget"))
        strata = splits.strata("unseen"), splits.strata("forget")
        given = splits.given("unseen"), splits.given("forget")
        if given[0] is None or given[1] is None:
            targets = compared = matched_odds(unseen, actual, *strata)
        else:
            first = problem.memory.setdefault("first", actual)
            targets = matched_apart((unseen, actual), strata, (given[0], given[1]), first)
            compared = targets.masked_fill(given[1], torch.nan)
        if epoch > 1:  # before the first step, all that is left is still to be done
            left = compared - actual
            tenths = tenths_of(compared)
            lasting = problem.memory.get("lasting", torch.zeros(TENTHS, dtype=left.dtype))
            lasting = lasting + self.gain * means_by_group(left, tenths)
            problem.memory["lasting"] = lasting.clamp(-LARGEST, LARGEST)
            correction = self.gain * left + problem.memory["lasting"][tenths]
            targets = targets + correction.nan_to_num(0.0)
        problem.memory["targets"] = targets.nan_to_num(0.0).float()


def log_odds(log_probs: Tensor) -> Tensor:
    """log p/(1-p) of tokens [N, T] from log p; NaN stays, where there is no token."""
    p = log_probs.exp().clamp(SUREST, 1.0 - SUREST)
    return torch.log(p) - torch.log1p(-p)


def matched_apart(odds: Pair, strata: Pair, given: Pair, first: Tensor) -> Tensor:
    """:func:`matched_odds` of given words and of others apart, the former half-way from ``first``.

    Pairs are of unseen records and of those to forget; ``first`` are the log-odds that the initial
    model has of the latter, [N, T].
    """
    unseen, forget = (
        (all_odds.masked_fill(~is_given, torch.nan), all_odds.masked_fill(is_given, torch.nan))
        for all_odds, is_given in zip(odds, given, strict=True)
    )
    of_given = matched_odds(unseen[0], forget[0], *strata)
    of_others = matched_odds(unseen[1], forget[1], *strata)
    return torch.where(given[1], (of_given + first) / 2, of_others)


def matched_odds(
    unseen: Tensor, forget: Tensor, unseen_strata: Tensor, forget_strata: Tensor
) -> Tensor:
    """The log-odds that each token of each record to forget should have [N, T].

    All are log-odds of tokens, NaN where there is none. In every stratum, the record to forget at
    rank k of n gets the tokens of the unseen record at the same share of its ranks, and of these
    its token at rank j of T gets the one at the same share of theirs. Nothing is averaged between
    two: most tokens of an answer are likely, and few are not. Records are ranked by mean log p.
    Records without any token take no part; without unseen ones, log-odds are as they should be.
    """
    targets = torch.full_like(forget, torch.nan)
    means = mean_log_p(unseen), mean_log_p(forget)
    known = ~means[0].isnan(), ~means[1].isnan()
    if not known[0].any():
        return forget.clone()
    for stratum in sorted(set(forget_strata[known[1]].tolist())):
        here = (known[1] & (forget_strata == stratum)).nonzero()[:, 0]
        pool = (known[0] & (unseen_strata == stratum)).nonzero()[:, 0]
        pool = pool if len(pool) else known[0].nonzero()[:, 0]
        donors = pool[means[0][pool].argsort(stable=True)]
        order = here[means[1][here].argsort(stable=True)]
        for rank, record in enumerate(order.tolist()):
            donor = donors[int((rank + 0.5) / len(order) * len(donors))]
            tokens = (~forget[record].isnan()).nonzero()[:, 0]
            rising = tokens[forget[record, tokens].argsort(stable=True)]
            values = unseen[donor][~unseen[donor].isnan()].sort().values
            places = (torch.arange(len(rising)) + 0.5) / len(rising) * len(values)
            targets[record, rising] = values[places.long()]
    return targets


def tenths_of(values: Tensor) -> Tensor:
    """Which tenth of all values each of them [N, T] belongs to; 0 where there is none."""
    known = ~values.isnan()
    tenths = torch.zeros(values.shape, dtype=torch.int64)
    order = values[known].argsort(stable=True).argsort(stable=True)
    tenths[known] = order * TENTHS // max(len(order), 1)
    return tenths


def means_by_group(values: Tensor, groups: Tensor) -> Tensor:
    """The mean of the values of each group; 0 for a group without any."""
    known = ~values.isnan()
    total = torch.bincount(groups[known], values[known], TENTHS)
    return total / torch.bincount(groups[known], minlength=TENTHS).clamp(min=1)


def mean_log_p(odds: Tensor) -> Tensor:
    """The mean log p of the tokens of each record [N], from their log-odds."""
    return F.logsigmoid(odds).nanmean(dim=1)
