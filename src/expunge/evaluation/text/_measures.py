"""What the token scores of a text set say of each record: memorisation, probability, truth ratio.

With y = (y_1, …, y_T) the tokens of an answer, its end included, x the prompt, and p the model:

===================== ========================================================================
exact memorisation    (1/T) Σ_t 1[argmax p(· | x, y_<t) = y_t] (Tirumala et al., 2022)
extraction strength   1 - k/T, k the fewest tokens of y after which greedy decoding gives the rest
                      (Carlini et al., 2021; Wang et al., 2025)
probability           p(y | x)^(1/T), the geometric mean over tokens (Maini et al., 2024)
truth ratio           R = mean_j P(ŷ_j) / P(ỹ), P the probability above, ŷ_j the false answers and
                      ỹ the paraphrased true one (Maini et al., 2024)
===================== ========================================================================

All are computed with the true answer as input ("teacher forcing"), in float64.

Deviation: open-unlearning leaves the last token of y, its end, out of the first two, and gives an
extraction strength of 1/T where not even the last token comes out; here that is 0. Its truth ratio
is one of geometric means over the false answers, that of the TOFU paper, and ours, one of
arithmetic means.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from expunge._arrays import Array
from expunge._errors import InvalidInput
from expunge.data.text import TextSet
from expunge.engine import TokenScores


def exact_memorisation(scores: TokenScores) -> Array:
    """The share of each answer's tokens that are the likeliest ones, in [0, 1], [N]."""
    return _array(scores.right.sum(dim=1).double() / scores.counts)


def extraction_strength(scores: TokenScores) -> Array:
    """The share of each answer that greedy decoding gives once it has the rest, in [0, 1], [N].

    Greedy decoding from a true prefix continues as the likeliest tokens after true prefixes do, as
    long as it is right: so the suffix that comes out is the one without a wrong token.
    """
    wrong = scores.answered & ~scores.right
    # Counted from the right: no wrong token at this position or later.
    wrong_from_here = wrong.flip(1).cumsum(dim=1).flip(1) > 0
    return _array((scores.answered & ~wrong_from_here).sum(dim=1).double() / scores.counts)


def mean_log_prob(scores: TokenScores) -> Array:
    """(1/T) log p(y | x) in nats, at most 0, [N]."""
    return _array(scores.log_probs.sum(dim=1) / scores.counts)


def probability(scores: TokenScores) -> Array:
    """p(y | x)^(1/T), in [0, 1], [N]."""
    return np.exp(mean_log_prob(scores))


def truth_ratio(data: TextSet, paraphrased: TokenScores, perturbed: TokenScores) -> Array:
    """How much likelier false answers are than the true one, at least 0, [N].

    ``perturbed`` has the false answers record by record, as ``data.perturbed`` does.
    """
    counts = [len(record.perturbed_answers) for record in data.records]
    false = probability(perturbed)
    if sum(counts) != len(false) or len(counts) != len(paraphrased.labels):
        raise InvalidInput(
            "The scores of paraphrased and perturbed answers should be of these records. "
            f"(got {len(paraphrased.labels)} and {len(false)} for {len(counts)})"
        )
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    means = np.add.reduceat(false, starts) / np.array(counts)
    # A true answer of probability 0 in float64 would divide by it.
    result: Array = means / np.maximum(probability(paraphrased), np.finfo(np.float64).tiny)
    return result


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


def harmonic_mean(values: list[float]) -> float:
    """n / Σ 1/v; 0 if any value is 0."""
    if min(values) <= 0.0:
        return 0.0
    return len(values) / sum(1.0 / value for value in values)


def _array(values: Tensor) -> Array:
    result: Array = values.numpy()
    return result
