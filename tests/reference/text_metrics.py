"""Literal, slow definitions of the metrics of language models, token by token.

``p`` maps a list of tokens to the distribution of the next one, a list of probabilities.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence

Model = Callable[[Sequence[int]], Sequence[float]]


def token_probabilities(p: Model, x: Sequence[int], y: Sequence[int]) -> list[float]:
    """p(y_t | x, y_<t) for t = 1, …, T."""
    return [p([*x, *y[:t]])[y[t]] for t in range(len(y))]


def argmax(values: Sequence[float]) -> int:
    return max(range(len(values)), key=lambda k: values[k])


def exact_memorisation(p: Model, x: Sequence[int], y: Sequence[int]) -> float:
    return sum(argmax(p([*x, *y[:t]])) == y[t] for t in range(len(y))) / len(y)


def greedy(p: Model, prefix: Sequence[int], count: int) -> list[int]:
    """``count`` tokens, each the likeliest after all before it."""
    row = list(prefix)
    for _ in range(count):
        row.append(argmax(p(row)))
    return row[len(prefix) :]


def extraction_strength(p: Model, x: Sequence[int], y: Sequence[int]) -> float:
    size = len(y)
    for k in range(size + 1):
        if greedy(p, [*x, *y[:k]], size - k) == list(y[k:]):
            return 1 - k / size
    raise AssertionError("after all tokens, the rest is empty and comes out")


def probability(p: Model, x: Sequence[int], y: Sequence[int]) -> float:
    return math.prod(token_probabilities(p, x, y)) ** (1 / len(y))


def truth_ratio(
    p: Model, x: Sequence[int], paraphrased: Sequence[int], false: Sequence[Sequence[int]]
) -> float:
    mean = sum(probability(p, x, y) for y in false) / len(false)
    return mean / probability(p, x, paraphrased)


def loss_score(p: Model, x: Sequence[int], y: Sequence[int]) -> float:
    return sum(math.log(q) for q in token_probabilities(p, x, y)) / len(y)


def zlib_score(p: Model, x: Sequence[int], y: Sequence[int], answer: str) -> float:
    return loss_score(p, x, y) / len(zlib.compress(answer.encode("utf-8")))


def min_k(p: Model, x: Sequence[int], y: Sequence[int], k: float) -> float:
    logs = sorted(math.log(q) for q in token_probabilities(p, x, y))
    lowest = logs[: max(1, int(k * len(logs)))]
    return sum(lowest) / len(lowest)


def min_k_plus_plus(p: Model, x: Sequence[int], y: Sequence[int], k: float) -> float:
    scores = []
    for t in range(len(y)):
        distribution = p([*x, *y[:t]])
        mu = sum(q * math.log(q) for q in distribution)
        variance = sum(q * (math.log(q) - mu) ** 2 for q in distribution)
        scores.append((math.log(distribution[y[t]]) - mu) / max(math.sqrt(variance), 1e-3))
    lowest = sorted(scores)[: max(1, int(k * len(scores)))]
    return sum(lowest) / len(lowest)


def auc(members: Sequence[float], others: Sequence[float]) -> float:
    wins = sum((m > o) + 0.5 * (m == o) for m in members for o in others)
    return wins / (len(members) * len(others))


def privacy_leakage(model: float, ideal: float) -> float:
    return 100 * ((1 - model) - (1 - ideal)) / (1 - ideal)


def ks_distance(a: Sequence[float], b: Sequence[float]) -> float:
    """The largest difference of the two empirical distribution functions."""

    def share(values: Sequence[float], at: float) -> float:
        return sum(value <= at for value in values) / len(values)

    return max(abs(share(a, at) - share(b, at)) for at in [*a, *b])


def harmonic_mean(values: Sequence[float]) -> float:
    return len(values) / sum(1 / value for value in values)


def longest_common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    if not a or not b:
        return 0
    if a[-1] == b[-1]:
        return longest_common_subsequence(a[:-1], b[:-1]) + 1
    return max(longest_common_subsequence(a[:-1], b), longest_common_subsequence(a, b[:-1]))


# As the code of open-unlearning has them: y without its end, unless it says otherwise.


def published_extraction_strength(p: Model, x: Sequence[int], y: Sequence[int]) -> float:
    labels = list(y[:-1])
    preds = [argmax(p([*x, *labels[:t]])) for t in range(len(labels))]
    for k in range(len(labels)):
        if preds[k:] == labels[k:]:
            break
    return 1 - k / len(labels)


def average_loss(p: Model, x: Sequence[int], y: Sequence[int]) -> float:
    return -sum(math.log(q) for q in token_probabilities(p, x, y)) / len(y)


def published_truth_ratio(
    p: Model, x: Sequence[int], paraphrased: Sequence[int], false: Sequence[Sequence[int]]
) -> float:
    wrong = math.exp(-sum(average_loss(p, x, y) for y in false) / len(false))
    return wrong / (math.exp(-average_loss(p, x, paraphrased)) + 1e-10)


def probability_among_options(
    p: Model, x: Sequence[int], y: Sequence[int], false: Sequence[Sequence[int]]
) -> float:
    correct = math.exp(-average_loss(p, x, y))
    return correct / (correct + sum(math.exp(-average_loss(p, x, z)) for z in false) + 1e-10)
