"""The metrics of language models by name; ``_measures`` and ``_membership`` compute them.

A metric without a prefix is measured on the forgotten records. ``retain_``, ``general_`` and
``test_`` are the same on records that are retained, that belong to nobody, and that were never
seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from expunge.evaluation._metric import Direction, Metric

SHARE = "0 to 1"
RATIO = "R = mean_j P(ŷ_j)/P(ỹ), false ŷ_j, paraphrased ỹ, P = p(y|x)^(1/T)"
TOFU = "Maini et al., 2024"

ANSWERS = (
    (
        "exact_memorisation",
        "EM",
        "share of an answer's tokens that the model predicts",
        "mean_t 1[argmax p(·|x, y_<t) = y_t]",
        "Tirumala et al., 2022",
    ),
    (
        "extraction_strength",
        "ES",
        "share of an answer that comes out once the model has the rest",
        "1 - min{k: greedy decoding after y_≤k gives y_>k}/T",
        "Carlini et al., 2021",
    ),
    (
        "probability",
        "P",
        "probability of the answer, per token",
        "p(y|x)^(1/T)",
        TOFU,
    ),
    (
        "rouge_l",
        "ROUGE-L",
        "how much of the answer the model's own answer contains",
        "|LCS(generated, y)|/|y|, in words, stemmed",
        "Lin, 2004",
    ),
)
"""Name, label, definition, formula and citation of what is measured on several splits."""

SPLITS: tuple[tuple[str, str, Direction], ...] = (
    ("", "forgotten", "ideal"),
    ("retain_", "retained", "higher"),
    ("general_", "general", "higher"),
    ("test_", "unseen", "none"),
)

ATTACKS = (
    ("loss", "loss", "log p(y|x)/T", "Yeom et al., 2018"),
    ("zlib", "zlib", "log p(y|x)/T / bytes of zlib(y)", "Carlini et al., 2021"),
    ("min_k", "min-k", "mean of the 20 % smallest log p(y_t)", "Shi et al., 2024"),
    (
        "min_k_plus_plus",
        "min-k++",
        "mean of the 20 % smallest (log p(y_t) - μ_t)/σ_t",
        "Zhang et al., 2025",
    ),
    ("gradient_norm", "gradient norm", "-‖∇ log p(y|x)/T‖", "Wang et al., 2024"),
    ("reference", "reference", "log p(y|x)/T - log p_ref(y|x)/T", "Carlini et al., 2021"),
)
"""Name, label, score and citation of every membership attack."""


def text_definitions() -> dict[str, int]:
    """The version of every metric's definition, by name."""
    return {name: metric.version for name, metric in text_metrics()}


def text_metrics() -> Iterator[tuple[str, Metric]]:
    """Every metric with its name."""
    for name, label, definition, formula, source in ANSWERS:
        for prefix, where, direction in SPLITS:
            words = f"{definition}, mean over {where} records"
            yield (
                f"{prefix}{name}",
                Metric(f"{label} {where}", words, direction, SHARE, 3, formula, source),
            )
    yield from _truth_ratios()
    yield (
        "forget_quality",
        Metric(
            "FQ",
            "whether truth ratios on forgotten records are distributed as the ideal model's",
            "higher",
            SHARE,
            3,
            "p-value of the two-sample Kolmogorov-Smirnov test of R",
            TOFU,
        ),
    )
    yield (
        "model_utility",
        Metric(
            "MU",
            "what the model still knows of what it may keep",
            "higher",
            SHARE,
            3,
            "harmonic mean of P, ROUGE-L and TR on retained and, if given, on general records",
            TOFU,
        ),
    )
    yield from _attacks()


def _truth_ratios() -> Iterator[tuple[str, Metric]]:
    yield (
        "truth_ratio",
        Metric(
            "TR forgotten",
            "how alike true and false answers are to the model, mean over forgotten records",
            "ideal",
            SHARE,
            3,
            f"mean min(R, 1/R), {RATIO}",
            TOFU,
        ),
    )
    for prefix, where, direction in SPLITS[1:3]:
        yield (
            f"{prefix}truth_ratio",
            Metric(
                f"TR {where}",
                f"how much likelier the true answer is than false ones, mean over {where} records",
                direction,
                SHARE,
                3,
                f"mean max(0, 1 - R), {RATIO}",
                TOFU,
            ),
        )


def _attacks() -> Iterator[tuple[str, Metric]]:
    for name, label, formula, source in ATTACKS:
        yield (
            f"auc_{name}",
            Metric(
                f"AUC {label}",
                "chance that a forgotten record scores higher than an unseen one",
                "ideal",
                "0 to 1, 0.5 is chance",
                3,
                f"score = {formula}",
                source,
            ),
        )
    yield (
        "privacy_leakage",
        Metric(
            "PrivLeak",
            "how much better than the ideal model it hides membership; below 0 it remembers",
            "zero",
            "%, at least -100",
            1,
            "100 (A - A*)/A*, A = 1 - AUC of min-k with k = 40 %, A* the ideal model's",
            "Shi et al., 2025",
        ),
    )
