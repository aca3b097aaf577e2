"""What token scores say of each record: memorisation, probability, truth ratio, membership.

y = (y_1, …, y_T) are the tokens of an answer, its end included, x is the prompt, p the model, and
ℓ_t = log p(y_t | x, y_<t). All are computed with the true answer as input ("teacher forcing"), in
float64. ``_text_metrics`` names the publications.

Deviation: the code of open-unlearning, whose leaderboard others compare with, has other definitions
of some of them; functions that take ``published`` have both. It leaves the last token of y, its
end, out of exact memorisation, extraction strength, min-k, min-k++ and gradient norm; gives a
strength of 1/T where not even the last token comes out; takes the geometric mean over the false
answers in the truth ratio; takes the mean over tensors of each tensor's gradient norm; and divides
the probability of an answer to general questions by that of all its options.
"""

from __future__ import annotations

import zlib
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from expunge._arrays import Array
from expunge._errors import InvalidInput
from expunge.data.text import IGNORED, TextSet, question_tokens
from expunge.engine import TokenScores
from expunge.methods import apply, eval_mode, next_token_loss

LOWEST = 0.2
"""The share of tokens that min-k and min-k++ look at."""
LEAKAGE_LOWEST = 0.4
"""That of the privacy leakage, as in MUSE."""
LEAST_DEVIATION = 1e-3
SMALL = 1e-10
"""What open-unlearning adds to denominators."""
_KNOWN_FACTS: WeakKeyDictionary[TextSet, Tensor] = WeakKeyDictionary()
"""The facts of sets that are in use: finding them encodes every answer again."""


def exact_memorisation(scores: TokenScores) -> Array:
    """The share of each answer's tokens that are the likeliest ones, in [0, 1], [N]."""
    return (scores.right.sum(dim=1).double() / scores.counts).numpy()


def without_end(scores: TokenScores) -> TokenScores:
    """The same without the last token of each answer, unless it is the only one."""
    later = scores.answered.flip(1).cumsum(dim=1).flip(1)
    return scores.without((later == 1) & scores.answered & (scores.counts > 1)[:, None])


def extraction_strength(scores: TokenScores, *, published: bool = False) -> Array:
    """The share of each answer that greedy decoding gives once it has the rest, in [0, 1], [N].

    Greedy decoding from a true prefix continues as the likeliest tokens after true prefixes do, as
    long as it is right: so the suffix that comes out is the one without a wrong token.
    """
    wrong = scores.answered & ~scores.right
    # Counted from the right: no wrong token at this position or later.
    wrong_from_here = wrong.flip(1).cumsum(dim=1).flip(1) > 0
    coming_out = (scores.answered & ~wrong_from_here).sum(dim=1)
    coming_out = coming_out.clamp_min(1) if published else coming_out
    return (coming_out.double() / scores.counts).numpy()


def mean_log_prob(scores: TokenScores) -> Array:
    """(1/T) log p(y | x) in nats, at most 0, [N]."""
    return (scores.log_probs.sum(dim=1) / scores.counts).numpy()


def probability(scores: TokenScores) -> Array:
    """p(y | x)^(1/T), in [0, 1], [N]."""
    return np.exp(mean_log_prob(scores))


def truth_ratio(
    data: TextSet, paraphrased: TokenScores, perturbed: TokenScores, *, published: bool = False
) -> Array:
    """R = mean_j P(ŷ_j) / P(ỹ), false ŷ_j and paraphrased true ỹ, P the probability, [N].

    ``perturbed`` has the false answers record by record, as ``data.perturbed`` does.
    """
    if published:
        geometric = np.exp(_means_of_false(data, mean_log_prob(perturbed), paraphrased))
        return geometric / (probability(paraphrased) + SMALL)
    means = _means_of_false(data, probability(perturbed), paraphrased)
    # A true answer of probability 0 in float64 would divide by it.
    return means / np.maximum(probability(paraphrased), np.finfo(np.float64).tiny)


def probability_among_options(data: TextSet, true: TokenScores, perturbed: TokenScores) -> Array:
    """P(y) / (P(y) + Σ_j P(ŷ_j)), false ŷ_j, in [0, 1], [N]; as open-unlearning has it."""
    counts = np.array([len(record.perturbed_answers) for record in data.records])
    false = counts * _means_of_false(data, probability(perturbed), true)
    return probability(true) / (probability(true) + false + SMALL)


def _means_of_false(data: TextSet, false: Array, true: TokenScores) -> Array:
    """The means of numbers of the false answers, record by record [N]."""
    counts = [len(record.perturbed_answers) for record in data.records]
    if sum(counts) != len(false) or len(counts) != len(true.labels):
        raise InvalidInput(
            "The scores of paraphrased and perturbed answers should be of these records. "
            f"(got {len(true.labels)} and {len(false)} for {len(counts)})"
        )
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.asarray(np.add.reduceat(false, starts) / np.array(counts))


def truth_on_forget(ratios: Array) -> float:
    """mean min(R, 1/R), in [0, 1]: 1 where true and false are equally likely."""
    bounded = np.clip(ratios, np.finfo(np.float64).tiny, None)
    return float(np.minimum(bounded, 1.0 / bounded).mean())


def truth_on_retain(ratios: Array) -> float:
    """mean max(0, 1 - R), in [0, 1]: 1 where false answers have no probability."""
    return float(np.maximum(0.0, 1.0 - ratios).mean())


def forget_quality(ratios: Array, ideal: Array) -> float:
    """The p-value of the two-sample Kolmogorov-Smirnov test of truth ratios, in [0, 1].

    ``ideal`` are those of a model retrained without the records. A small value says that the two
    models differ; a large one only that these records do not show a difference.
    """
    from scipy.stats import ks_2samp

    return float(ks_2samp(ratios, ideal).pvalue)


def fact_tokens(data: TextSet) -> Tensor:
    """Where the tokens of the answers are that carry what is to be known, [N, T].

    They are the tokens of the answer that its question does not have. Of a record with false
    answers, they are those of them that the paraphrased answer has and no false answer: neither
    names nor phrases, which a model knows from other records. Every answer has one at least.
    """
    if data not in _KNOWN_FACTS:
        _KNOWN_FACTS[data] = _find_facts(data)
    return _KNOWN_FACTS[data]


def _find_facts(data: TextSet) -> Tensor:
    facts = (data.labels != IGNORED) & ~question_tokens(data)
    for row, record in enumerate(data.records):
        if record.perturbed_answers:
            answers = (record.paraphrased_answer, *record.perturbed_answers)
            true, *false = (data.tokenizer.encode(record.question, each)[1] for each in answers)
            telling = torch.tensor(sorted(set(true).difference(*false)), dtype=torch.int64)
            kept = facts[row] & torch.isin(data.labels[row], telling)
            facts[row] = kept if kept.any() else facts[row]
    return facts


def membership_scores(
    data: TextSet, scores: TokenScores, *, published: bool = False
) -> dict[str, Array]:
    """The scores that token scores suffice for, by name, [N]."""
    told = without_end(scores) if published else scores
    sizes = np.array([len(zlib.compress(record.answer.encode())) for record in data.records])
    return {
        "loss": mean_log_prob(scores),
        "zlib": mean_log_prob(scores) / sizes,
        "min_k": min_k(told),
        "min_k_plus_plus": min_k_plus_plus(told),
    }


def min_k(scores: TokenScores, share: float = LOWEST) -> Array:
    """The mean of the ``share`` T smallest ℓ_t, one token at least, [N]."""
    return _mean_of_lowest(scores.log_probs, scores, share)


def min_k_plus_plus(scores: TokenScores, share: float = LOWEST) -> Array:
    """The same of (ℓ_t - μ_t)/σ_t, mean and deviation of log p(z | x, y_<t) over z ~ p, [N]."""
    deviations = scores.deviations.clamp_min(LEAST_DEVIATION)
    return _mean_of_lowest((scores.log_probs - scores.means) / deviations, scores, share)


def _mean_of_lowest(values: Tensor, scores: TokenScores, share: float) -> Array:
    rising = torch.where(scores.answered, values, torch.inf).sort(dim=1).values
    sizes = (share * scores.counts).long().clamp_min(1)
    kept = torch.arange(values.shape[1]) < sizes[:, None]
    return (torch.where(kept, rising, 0.0).sum(dim=1) / sizes).numpy()


def gradient_norms(model: nn.Module, data: TextSet, *, published: bool = False) -> Array:
    """-‖∇_θ loss‖₂ of each record in eval mode, [N]: a backward pass per record."""
    params = [p for p in model.parameters() if p.requires_grad]
    if not params:
        raise InvalidInput("The gradient norm needs a model with parameters that take gradients.")
    device = params[0].device
    norms = []
    with eval_mode(model), torch.enable_grad():
        for tokens, labels, length in zip(data.tokens, data.labels, data.lengths, strict=True):
            cut = int(length) - (published and int((labels != IGNORED).sum()) > 1)
            row, wanted = (part[None, :cut].to(device) for part in (tokens, labels))
            loss = next_token_loss(apply(model, row), wanted)
            gradients = torch.autograd.grad(loss, params, allow_unused=True)
            squares = [g.double().square().sum() for g in gradients if g is not None]
            each = torch.stack(squares)
            norms.append(-float(each.sqrt().mean() if published else each.sum().sqrt()))
    return np.array(norms)


def privacy_leakage(value: float, ideal: float) -> float:
    """PrivLeak of MUSE in percent: 100 (A - A*)/A*, A = 1 - AUC of min-k (k = 0.4), A* the ideal's.

    Below 0: the records are still remembered. Above 0: they stand out as avoided. -100 is an AUC
    of 1. Without any unseen record that the ideal model takes for less of a member (A* = 0) it is
    not defined, and NaN (Shi et al., 2025).
    """
    return 100.0 * (ideal - value) / (1.0 - ideal) if ideal < 1.0 else float("nan")
