"""Every metric of a language model, from one pass per split and variant."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from statistics import harmonic_mean
from typing import Any, Literal

import numpy as np
from torch import nn

from expunge._arrays import Array
from expunge._errors import InvalidInput
from expunge._kinds import check_arguments
from expunge.data.text import TextSet
from expunge.engine import PredictionCache, TokenScores, score_tokens
from expunge.evaluation._metric import NamedScores
from expunge.evaluation._statistics import auc_of
from expunge.evaluation.text import _measures as formulas
from expunge.evaluation.text._generation import continuations, rouge_l
from expunge.evaluation.text._text_metrics import TEXT_METRICS

Definitions = Literal["expunge", "open-unlearning"]
LEAKAGE = "leakage"
"""The measure by whose AUC privacy leaks; it has no mean."""
UTILITY = ("probability", "rouge_l", "truth_ratio")
"""What the model utility is a mean of, on every split that counts."""


@dataclass(frozen=True, repr=False)
class TextScores(NamedScores):
    """The metrics of :data:`~expunge.evaluation.METRICS` for texts; None: not computed.

    ``gaps`` holds, with an ideal model, each score minus the ideal model's, where the two should
    be alike. ``by_record`` has what they are computed from: split, then measure, then array [N].
    """

    metrics = TEXT_METRICS

    exact_memorisation: float
    extraction_strength: float
    probability: float
    rouge_l: float | None = None
    truth_ratio: float | None = None
    retain_exact_memorisation: float | None = None
    retain_extraction_strength: float | None = None
    retain_probability: float | None = None
    retain_rouge_l: float | None = None
    retain_truth_ratio: float | None = None
    general_exact_memorisation: float | None = None
    general_extraction_strength: float | None = None
    general_probability: float | None = None
    general_rouge_l: float | None = None
    general_truth_ratio: float | None = None
    test_exact_memorisation: float | None = None
    test_extraction_strength: float | None = None
    test_probability: float | None = None
    forget_quality: float | None = None
    model_utility: float | None = None
    auc_loss: float | None = None
    auc_zlib: float | None = None
    auc_min_k: float | None = None
    auc_min_k_plus_plus: float | None = None
    auc_gradient_norm: float | None = None
    auc_reference: float | None = None
    privacy_leakage: float | None = None
    gaps: Mapping[str, float] = field(default_factory=dict, hash=False, compare=False)
    by_record: Mapping[str, Mapping[str, Array]] = field(
        default_factory=dict, hash=False, compare=False
    )

    @property
    def definitions(self) -> dict[str, int]:
        """The version of the definition of each score that exists."""
        return {name: TEXT_METRICS[name].version for name in self.as_dict() if name in TEXT_METRICS}


@dataclass(frozen=True)
class TextIdeal:
    """What an ideal model says of the forget set: all that others are compared with.

    ``truth_ratios`` are R of every record, None where there are no false answers;
    ``leakage_auc`` is that of min-k with k = 0.4; ``scores`` are the ideal model's own.
    """

    truth_ratios: tuple[float, ...] | None
    leakage_auc: float
    scores: Mapping[str, float]

    @classmethod
    def of(cls, scores: TextScores) -> TextIdeal:
        """What is needed of a model, from its scores."""
        ratios = scores.by_record["forget"].get("truth_ratio")
        known = None if ratios is None else tuple(ratios.tolist())
        return cls(known, _leakage_auc(scores.by_record), scores.as_dict())


def evaluate_text(
    model: nn.Module,
    *,
    forget: TextSet,
    retain: TextSet,
    test: TextSet | None,
    general: TextSet | None = None,
    ideal: nn.Module | TextIdeal | None = None,
    reference: nn.Module | None = None,
    attacks: bool = False,
    generate: bool = True,
    definitions: Definitions = "expunge",
    cache: PredictionCache | None = None,
) -> TextScores:
    """Score a causal language model on text sets.

    A model is passed over each split once, and over its paraphrased and false answers once,
    however many metrics read that.

    Args:
        model: maps tokens [B, T] to logits [B, T, V], or to an object with ``logits``.
        forget, retain, test: ``test`` was never seen; attacks compare with it (None: no
            attacks).
        general: records that belong to nobody and count for the utility as retained ones do.
        ideal: a model trained without ``forget``, or what is needed of it: forget quality, privacy
            leakage, gaps.
        reference: a model that saw neither forget nor test, for the reference attack.
        attacks: also the gradient norm, a backward pass per record of forget and test; the other
            attacks cost next to nothing and are always there.
        generate: decode answers for ROUGE-L, which the model utility needs too.
        definitions: ``"open-unlearning"`` for numbers that stand beside those of its leaderboard;
            docs/reference/language-models.md lists what differs.
        cache: keeps the passes until the weights change; calls that share it ask an ideal model
            once for a whole table.
    """
    check_arguments(evaluate_text, locals())
    cache = cache or PredictionCache()
    splits = {"forget": forget, "retain": retain, "general": general, "test": test}
    published = definitions == "open-unlearning"

    def measure(model: nn.Module, names: Collection[str]) -> TextScores:
        """The scores of a model by itself, on these splits."""
        asked = _Asked(model, cache, published)
        given = {name: data for name in names if (data := splits[name]) is not None}
        by_record = {name: asked.measures(data, name, generate) for name, data in given.items()}
        values: dict[str, float | None] = {
            f"{'' if split == 'forget' else f'{split}_'}{measure}": _mean(split, measure, array)
            for split, measures in by_record.items()
            for measure, array in measures.items()
            if measure != LEAKAGE
        }
        values["model_utility"] = _utility(by_record, _utility_parts(given, published))
        if test is not None:  # membership: forgotten against unseen records
            pair = [asked.membership(data, reference, attacks) for data in (forget, test)]
            values |= {f"auc_{name}": auc_of(pair[0][name], pair[1][name]) for name in pair[0]}
        return TextScores(**values, by_record=by_record)  # type: ignore[arg-type]

    scores = measure(model, splits)
    if isinstance(ideal, nn.Module):
        ideal = TextIdeal.of(measure(ideal, ("forget", "retain", "test")))
    if ideal is None:
        return scores

    # Against the ideal model.
    more: dict[str, float] = {}
    ratios = scores.by_record["forget"].get("truth_ratio")
    if ratios is not None and ideal.truth_ratios is not None:
        if len(ratios) != len(ideal.truth_ratios):
            raise InvalidInput(
                "The ideal model should be asked about the same forgotten records. "
                f"(got {len(ratios)} and {len(ideal.truth_ratios)})"
            )
        more["forget_quality"] = formulas.forget_quality(ratios, np.array(ideal.truth_ratios))
    leakage = _leakage_auc(scores.by_record)
    more["privacy_leakage"] = formulas.privacy_leakage(leakage, ideal.leakage_auc)
    gaps = {
        name: value - ideal.scores[name]
        for name, value in scores.as_dict().items()
        if name in ideal.scores and TEXT_METRICS[name].direction == "ideal"
    }
    return replace(scores, **more, gaps=gaps)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Asked:
    """A model with what it says of texts, each asked for once, and the definitions in force."""

    model: nn.Module
    cache: PredictionCache
    published: bool

    def scores(self, data: TextSet) -> TokenScores:
        scores: TokenScores = self.cache(self.model, data, score_tokens)
        return scores

    def measures(self, data: TextSet, split: str, generate: bool) -> dict[str, Array]:
        """Every measure of the records of a split, by name, [N]."""
        scores, published = self.scores(data), self.published
        judged = formulas.without_end(scores) if published else scores  # of the tokens that count
        measures = {
            "exact_memorisation": formulas.exact_memorisation(judged),
            "extraction_strength": formulas.extraction_strength(judged, published=published),
            "probability": formulas.probability(scores),
            LEAKAGE: formulas.min_k(judged, formulas.LEAKAGE_LOWEST),
        }
        if split == "test":
            return measures
        if generate:
            answers = [record.answer for record in data.records]
            measures["rouge_l"] = rouge_l(continuations(self.model, data, scores), answers)
        if data.has_variants:
            paraphrased, perturbed = self.scores(data.paraphrased), self.scores(data.perturbed)
            measures["truth_ratio"] = formulas.truth_ratio(
                data, paraphrased, perturbed, published=published
            )
            if published and split == "general":
                among = formulas.probability_among_options(data, scores, perturbed)
                measures["probability"] = among
        return measures

    def membership(
        self, data: TextSet, reference: nn.Module | None, attacks: bool
    ) -> dict[str, Array]:
        """The membership scores of records by attack, [N]."""
        scores = formulas.membership_scores(data, self.scores(data), published=self.published)
        if attacks:
            norms = formulas.gradient_norms(self.model, data, published=self.published)
            scores["gradient_norm"] = norms
        if reference is not None:
            known = formulas.mean_log_prob(self.cache(reference, data, score_tokens))
            scores["reference"] = scores["loss"] - known
        return scores


def _leakage_auc(by_record: Mapping[str, Mapping[str, Array]]) -> float:
    """The AUC that the privacy leakage compares; NaN without records that were never seen."""
    pair = [by_record[split][LEAKAGE] for split in ("forget", "test") if split in by_record]
    return auc_of(*pair) if len(pair) == 2 else math.nan


def _mean(split: str, measure: str, values: Array) -> float:
    """The mean of a measure over records; truth ratios are bounded first."""
    if measure != "truth_ratio":
        return float(values.mean())
    bounded = formulas.truth_on_forget if split == "forget" else formulas.truth_on_retain
    return bounded(values)


def _utility_parts(given: Mapping[str, TextSet], published: bool) -> list[tuple[str, Any]]:
    """Splits with the records that count together; published, those of a file each."""
    parts: list[tuple[str, Any]] = [("retain", slice(None))]
    if "general" in given and published:  # the ids of TOFU's records begin with the name of a file
        files = [record.id.rpartition("-")[0] for record in given["general"].records]
        parts += [("general", np.array(files) == name) for name in dict.fromkeys(files)]
    elif "general" in given:
        parts.append(("general", slice(None)))
    return parts


def _utility(
    by_record: Mapping[str, Mapping[str, Array]], parts: list[tuple[str, Any]]
) -> float | None:
    """The harmonic mean over splits and measures; None where one of them is missing."""
    if any(name not in by_record[split] for split, _ in parts for name in UTILITY):
        return None
    means = [
        _mean(s, name, by_record[s][name][records]) for s, records in parts for name in UTILITY
    ]
    return float(harmonic_mean(means))  # it returns the integer 0 where one of them is 0
