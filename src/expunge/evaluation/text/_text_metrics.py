"""The metrics of language models by name; ``_measures`` computes them.

A metric without a prefix is measured on the forgotten records. ``retain_``, ``general_`` and
``test_`` are the same on records that are retained, that belong to nobody, and that were never
seen.
"""

from __future__ import annotations

from expunge.evaluation._metric import CHANCE, SHARE, Direction, Metric

TOFU = "Maini et al., *TOFU: A Task of Fictitious Unlearning for LLMs*, COLM 2024"
EXTRACTION = (
    "Carlini et al., *Extracting Training Data from Large Language Models*, USENIX Security 2021"
)
TIRUMALA = (
    "Tirumala et al., *Memorization Without Overfitting: Analyzing the Training Dynamics of Large "
    "Language Models*, NeurIPS 2022"
)
ROUGE = "Lin, *ROUGE: A Package for Automatic Evaluation of Summaries*, 2004"
YEOM = (
    "Yeom et al., *Privacy Risk in Machine Learning: Analyzing the Connection to Overfitting*, "
    "CSF 2018"
)
MIN_K = "Shi et al., *Detecting Pretraining Data from Large Language Models*, ICLR 2024"
MIN_K_PLUS_PLUS = (
    "Zhang et al., *Min-K%++: Improved Baseline for Detecting Pre-Training Data from Large "
    "Language Models*, ICLR 2025"
)
PANDORA = (
    "Wang et al., *Pandora's White-Box: Precise Training Data Detection and Extraction in Large "
    "Language Models*, 2024"
)
MUSE = "Shi et al., *MUSE: Machine Unlearning Six-Way Evaluation for Language Models*, ICLR 2025"
RATIO = "R = mean_j P(ŷ_j)/P(ỹ), false ŷ_j, paraphrased ỹ, P = p(y|x)^(1/T)"

SPLITS: tuple[tuple[str, str, Direction], ...] = (
    ("", "forgotten", "ideal"),
    ("retain_", "retained", "higher"),
    ("general_", "general", "higher"),
    ("test_", "unseen", "none"),
)
"""Prefix, records and direction."""

ANSWERS = {
    "exact_memorisation": (
        "EM",
        "share of an answer's tokens that the model predicts",
        "mean_t 1[argmax p(·|x, y_<t) = y_t]",
        TIRUMALA,
        "for a first look; one wrong token hides the rest of an answer from it",
    ),
    "extraction_strength": (
        "ES",
        "share of an answer that comes out once the model has the rest",
        "1 - min{k: greedy decoding after y_≤k gives y_>k}/T",
        EXTRACTION,
        "to see how much of an answer somebody has to know to get the rest",
    ),
    "probability": (
        "P",
        "probability of the answer, per token",
        "p(y|x)^(1/T)",
        TOFU,
        "to see knowledge that greedy decoding does not show",
    ),
    "rouge_l": (
        "ROUGE-L",
        "how much of the answer the model's own answer contains",
        "|LCS(generated, y)|/|y|, in words, stemmed",
        ROUGE,
        "for the answers as somebody would read them",
    ),
}
"""Label, definition, formula, citation and use of what is measured on several splits."""

TEXT_ATTACK_TEXTS = {
    "loss": (
        "loss",
        "log p(y|x)/T",
        YEOM,
        "as the simplest attack, and the one that others have to beat",
    ),
    "zlib": (
        "zlib",
        "log p(y|x)/T / bytes of zlib(y)",
        EXTRACTION,
        "where answers differ in how predictable they are",
    ),
    "min_k": (
        "min-k",
        "mean of the 20 % smallest log p(y_t)",
        MIN_K,
        "for longer answers, of which a few tokens give membership away",
    ),
    "min_k_plus_plus": (
        "min-k++",
        "mean of the 20 % smallest (log p(y_t) - μ_t)/σ_t",
        MIN_K_PLUS_PLUS,
        "as min-k, where tokens differ in how predictable they are",
    ),
    "gradient_norm": (
        "gradient norm",
        "-‖∇ log p(y|x)/T‖",
        PANDORA,
        "against an attacker who has the weights",
    ),
    "reference": (
        "reference",
        "log p(y|x)/T - log p_ref(y|x)/T",
        EXTRACTION,
        "where a model that never saw the records can be had; the strongest of these",
    ),
}
"""Label, score, citation and use of every membership attack."""


TRUTH: dict[str, tuple[str, str]] = {
    "ideal": ("how alike true and false answers are to the model", "mean min(R, 1/R)"),
    "higher": ("how much likelier the true answer is than false ones", "mean max(0, 1 - R)"),
}
"""Definition and formula of the truth ratio, by direction."""

TEXT_METRICS: dict[str, Metric] = {
    **{
        f"{prefix}{name}": Metric(
            f"{label} {where}",
            f"{definition}, mean over {where} records",
            direction,
            SHARE,
            3,
            formula,
            citation,
            use=use,
        )
        for name, (label, definition, formula, citation, use) in ANSWERS.items()
        for prefix, where, direction in SPLITS
    },
    **{
        f"{prefix}truth_ratio": Metric(
            f"TR {where}",
            f"{TRUTH[direction][0]}, mean over {where} records",
            direction,
            SHARE,
            3,
            f"{TRUTH[direction][1]}, {RATIO}",
            TOFU,
            use="to see whether the model still prefers the truth, however it is worded",
        )
        for prefix, where, direction in SPLITS[:3]
    },
    "forget_quality": Metric(
        "FQ",
        "whether truth ratios on forgotten records are distributed as the ideal model's",
        "higher",
        SHARE,
        3,
        "p-value of the two-sample Kolmogorov-Smirnov test of R",
        TOFU,
        use="where there is a retrained model: above 0.05 the two look the same",
    ),
    "model_utility": Metric(
        "MU",
        "what the model still knows of what it may keep",
        "higher",
        SHARE,
        3,
        "harmonic mean of P, ROUGE-L and TR on retained and, if given, on general records",
        TOFU,
        use="as the one number of what forgetting cost",
    ),
    **{
        f"auc_{name}": Metric(
            f"AUC {label}",
            "chance that a forgotten record scores higher than an unseen one",
            "ideal",
            CHANCE,
            3,
            f"score = {formula}",
            citation,
            use=use,
        )
        for name, (label, formula, citation, use) in TEXT_ATTACK_TEXTS.items()
    },
    "privacy_leakage": Metric(
        "PrivLeak",
        "how much better than the ideal model it hides membership; below 0 it remembers",
        "zero",
        "%, at least -100",
        1,
        "100 (A - A*)/A*, A = 1 - AUC of min-k with k = 40 %, A* the ideal model's",
        MUSE,
        use="beside a retrained model: far above 0 the model hides the records too hard",
    ),
}


def text_definitions() -> dict[str, int]:
    """The version of every metric's definition, by name."""
    return {name: metric.version for name, metric in TEXT_METRICS.items()}
