"""The metrics by name: formula, direction, unit, use, citation. Tables and documents read them.

In formulas, F is the forget set, R the retain set, M(x) the predicted class of a model, p its
probabilities, z its predictions of a regression; M*, p* and z* are those of the ideal model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from expunge._registry import Registry
from expunge.evaluation._metric import DIRECTIONS as DIRECTIONS
from expunge.evaluation._metric import Direction
from expunge.evaluation._metric import Metric as Metric
from expunge.evaluation.text._text_metrics import text_metrics

PAPER = (
    "Dine et al., *Improving Unlearning with Model Updates Probably Aligned with Gradients*, "
    "AISec 2025"
)
JIA = "Jia et al., *Model Sparsity Can Simplify Machine Unlearning*, NeurIPS 2023"
BADT = "Chundawat et al., *Can Bad Teaching Induce Forgetting?*, AAAI 2023"
CARLINI = "Carlini et al., *Membership Inference Attacks From First Principles*, IEEE S&P 2022"
CHANCE = "0 to 1, 0.5 is chance"
LABEL_UNITS = "units of the label"

ACCURACIES: tuple[tuple[str, str, Direction, str], ...] = (
    ("ua", "forget", "ideal", "to see whether the data are still known; alone it proves nothing"),
    ("ra", "retain", "ideal", "to see what forgetting broke in data that were to be kept"),
    ("ta", "test", "higher", "to see what forgetting cost on new data"),
    ("va", "validation", "higher", "to choose options or an epoch, so that test data stay unseen"),
)
"""Name, split, direction and use of every accuracy."""

FEATURES = {
    "correctness": ("whether the prediction is right", "1[M(x) = y]"),
    "confidence": ("the probability of the label", "p_y"),
    "logits": ("the logits", "the logits"),
    "entropy": ("the entropy of the prediction", "-Σᵢ pᵢ log pᵢ"),
    "modified_entropy": (
        "the modified entropy",
        "-(1-p_y) log p_y - Σ_{i≠y} pᵢ log(1-pᵢ)",
    ),
}
"""What the paper's attacks read, in words and as a formula."""

ERRORS: tuple[tuple[str, str, Direction], ...] = (
    ("forget", "the forget set", "ideal"),
    ("retain", "the retain set", "ideal"),
    ("test", "the test set", "lower"),
    ("val", "the validation set", "lower"),
)
"""Name, split and direction of the errors of a regression."""


def _basic() -> Iterator[tuple[str, Metric]]:
    """Accuracies, their distance from the ideal model's, and time."""
    for name, split, direction, use in ACCURACIES:
        formula = f"P[M(x) = y] over the {split} set, in %"
        words = f"accuracy on the {split} set"
        yield name, Metric(name.upper(), words, direction, formula=formula, citation=JIA, use=use)
    yield (
        "rua",
        Metric(
            "rUA",
            "UA minus the ideal model's UA",
            "zero",
            unit="points",
            formula="UA(M) - UA(M*)",
            citation=PAPER,
            use="first, wherever a retrained model can be had: above 0 the data are still known, "
            "below 0 more was forgotten than retraining would",
        ),
    )
    yield (
        "abs_rua",
        Metric(
            "|rUA|",
            "distance of rUA from zero",
            "lower",
            unit="points",
            formula="|UA(M) - UA(M*)|",
            citation=PAPER,
            use="to rank methods by rUA, whose mean over seeds may hide misses on both sides",
        ),
    )
    yield (
        "fid",
        Metric(
            "FID",
            "share of the forget set where model and ideal agree",
            "higher",
            formula="P[M(x) = M*(x)] over F, in %",
            citation=PAPER,
            use="beside rUA: two models of one accuracy may be wrong on different examples",
        ),
    )
    yield (
        "rte",
        Metric(
            "RTE",
            "time of the unlearning steps alone",
            "lower",
            unit="s",
            formula="Σ seconds of the steps, without evaluation and loading",
            citation=JIA,
            use="to compare methods on one machine, in one run",
        ),
    )


def _paper_attacks() -> Iterator[tuple[str, Metric]]:
    """The population attacks of the paper, for classes and for a regression."""
    song = "Song and Mittal, *Systematic Evaluation of Privacy Risks of Machine Learning Models*"
    for name, (words, formula) in FEATURES.items():
        yield (
            f"mia_{name}",
            Metric(
                f"MIA {name.replace('_', ' ')}",
                f"share of the forget set an SVC on {words} classifies as retained data",
                "ideal",
                unit="0 to 1",
                decimals=3,
                formula=f"E_F[b(x)], b an SVC on {formula}",
                citation=f"{JIA}; {song}, USENIX Security 2021" if "entropy" in name else JIA,
                use="to compare with published tables; it flatters the model, so believe `auc` or "
                "an audit with shadow models rather than a low value of it",
            ),
        )
    yield (
        "mia_error",
        Metric(
            "MIA error",
            "share of the forget set an SVC on the absolute error classifies as retained data",
            "ideal",
            unit="0 to 1",
            decimals=3,
            formula="E_F[b(x)], b an SVC on |z - y|",
            citation=f"{JIA}, with the feature that a regression has",
            use="for a regression, where attacks on classes have nothing to read",
        ),
    )


def _regression() -> Iterator[tuple[str, Metric]]:
    """Errors in units of the label."""
    for name, where, direction in ERRORS:
        yield (
            f"{name}_rmse",
            Metric(
                f"RMSE {name}",
                f"root mean squared error on {where} (regression)",
                direction,
                unit=LABEL_UNITS,
                decimals=4,
                formula="√E[(z - y)²]",
                citation="textbook",
                use="for a regression, in place of an accuracy",
            ),
        )
    yield (
        "test_r2",
        Metric(
            "R² test",
            "share of the variance on the test set that is explained (regression)",
            "higher",
            unit="at most 1",
            decimals=4,
            formula="1 - E[(z - y)²]/Var(y)",
            citation="textbook",
            use="for a regression, to see at a glance whether the model is still of any use",
        ),
    )
    yield (
        "fid_rmse",
        Metric(
            "FID RMS",
            "root mean squared difference from the ideal model's predictions on the forget set",
            "lower",
            unit=LABEL_UNITS,
            decimals=4,
            formula="√E_F[(z - z*)²]",
            citation=f"{PAPER}, FID for a regression",
            use="for a regression, in place of FID",
        ),
    )


def _gaps(metrics: Registry[Metric]) -> Iterator[tuple[str, Metric]]:
    """The differences from the ideal model of what is compared with it."""
    attacks = (f"mia_{name}" for name in FEATURES)
    errors = (f"{name}_rmse" for name, _, _ in ERRORS)
    for name in ("ra", "ta", "va", *attacks, *errors, "mia_error"):
        metric = metrics[name]
        yield (
            f"gap_{name}",
            Metric(
                f"{metric.label} gap",
                f"{metric.label} minus the ideal model's",
                "zero",
                unit="points" if metric.unit == "%" else metric.unit.replace("0", "-1"),
                decimals=metric.decimals,
                formula=f"{metric.label}(M) - {metric.label}(M*)",
                citation=metric.citation,
                use=f"as rUA, for {metric.label}: near 0 is what retraining would give",
            ),
        )


def _membership() -> Iterator[tuple[str, Metric]]:
    """What an attack on membership reports."""
    yield (
        "auc",
        Metric(
            "AUC",
            "chance that a forget example outscores an unseen one",
            "none",
            unit=CHANCE,
            decimals=3,
            formula="P[s(x) > s(x')] + ½ P[s(x) = s(x')], x in F, x' unseen",
            citation="textbook",
            use="as the one number of an attack: above ½ is memory, and below ½ shows, too",
        ),
    )
    yield (
        "balanced_accuracy",
        Metric(
            "balanced accuracy",
            "mean of the shares of forget and unseen examples that the attack places rightly",
            "none",
            unit=CHANCE,
            decimals=3,
            formula="½ (TPR + 1 - FPR) at the attack's own threshold",
            citation="textbook",
            use="to compare with publications that state an attack's accuracy",
        ),
    )
    for rate, words, percent in (
        ("0.01", "one unseen example in a hundred", "1 %"),
        ("0.001", "one unseen example in a thousand", "0.1 %"),
    ):
        yield (
            f"tpr_at_{rate}",
            Metric(
                f"TPR at {percent} FPR",
                f"share of the forget set found when {words} is accused",
                "lower",
                unit="0 to 1",
                decimals=4,
                formula=f"P_F[s(x) > t], t so that P[s(x') > t] = {rate} on unseen x'",
                citation=CARLINI,
                use="where a few exposed records are already too many; it needs at least "
                f"{round(1 / float(rate)):,} unseen examples",
            ),
        )
    yield (
        "rmia_auc",
        Metric(
            "RMIA AUC",
            "chance that RMIA, with the ideal model as reference, ranks a forget example above an "
            "unseen one",
            "ideal",
            unit=CHANCE,
            decimals=3,
            formula="AUC of s(x) = P_z[r(x)/r(z) ≥ γ], r = p_y/(what p*_y lets one expect)",
            citation="Zarifzadeh et al., *Low-Cost High-Power Membership Inference Attacks*, "
            "ICML 2024",
            use="for a stronger attack than the paper's at the cost of one retrained model",
        ),
    )


def _relearned() -> Iterator[tuple[str, Metric]]:
    """What the loss gives away, and what comes back after benign steps."""
    yield (
        "loss_auc",
        Metric(
            "loss AUC",
            "chance that a forget example has a smaller loss than an unseen one of its classes",
            "ideal",
            unit=CHANCE,
            decimals=3,
            formula="P[L(x) < L(x')] + ½ P[L(x) = L(x')], x in F, x' unseen",
            citation="Yeom et al., *Privacy Risk in Machine Learning*, CSF 2018",
            use="as the simplest attack, which needs no other model",
        ),
    )
    steps = "after 50 steps of Adam on retained data"
    use = "to tell forgetting from hiding: what ordinary training brings back was never gone"
    for name, label, words, direction, unit in (
        ("ua", "UA", "accuracy on the forget set", "ideal", "%"),
        ("ta", "TA", "accuracy on the test set", "higher", "%"),
        ("rua", "rUA", "UA minus that of the ideal model, both", "zero", "points"),
        ("auc", "loss AUC", "AUC of the loss attack", "ideal", CHANCE),
    ):
        yield (
            f"relearned_{name}",
            Metric(
                f"{label} relearned",
                f"{words} {steps}",
                cast(Direction, direction),
                unit=unit,
                decimals=3 if name == "auc" else 2,
                formula=f"{label} of the model {steps}",
                citation="ours",
                use=use,
            ),
        )


def _distances() -> Iterator[tuple[str, Metric]]:
    """How far outputs are from those of models without the data."""
    yield (
        "kl",
        Metric(
            "KL",
            "Kullback-Leibler divergence of the outputs on the forget set from the ideal model's",
            "lower",
            unit="nats",
            decimals=4,
            formula="E_F[KL(p*‖p)]",
            citation="textbook",
            use="beside FID; compare it with the divergence between two retrained models",
        ),
    )
    yield (
        "jsd",
        Metric(
            "JSD",
            "Jensen-Shannon divergence of the outputs on the forget set from the ideal model's",
            "lower",
            unit="bits",
            decimals=4,
            formula="E_F[½ KL(p‖m) + ½ KL(p*‖m)], m = (p + p*)/2",
            citation=BADT,
            use="beside FID: it sees differences in confidence, which leave the class alone",
        ),
    )
    yield (
        "activation_distance",
        Metric(
            "activation distance",
            "Euclidean distance of the probabilities on the forget set from the ideal model's",
            "lower",
            unit="0 to 1.41",
            decimals=3,
            formula="E_F[‖p - p*‖₂]",
            citation=f"Golatkar et al., *Forgetting Outside the Box*, ECCV 2020; {BADT}",
            use="to compare with publications that state it; JSD says much the same",
        ),
    )
    yield (
        "zrf",
        Metric(
            "ZRF",
            "1 - JSD of the outputs on the forget set from those of an untrained model",
            "ideal",
            unit="0 to 1",
            decimals=3,
            formula="1 - E_F[JSD(p, p⁰)], p⁰ of a model with random weights",
            citation=BADT,
            use="where there is no retrained model, and with care: a retrained model still knows "
            "something about the data, so the largest value is not the best",
        ),
    )
    yield (
        "klom",
        Metric(
            "KLoM",
            "divergence of an example's margins over runs from those of retrained models",
            "lower",
            unit="nats",
            decimals=3,
            formula="KL(R‖U), R and U the laws of log p_y - log(1-p_y) over seeds",
            citation="Georgiev et al., *Attribute-to-Delete: Machine Unlearning via Datamodel "
            "Matching*, ICLR 2025",
            use="if several retrained models can be afforded: it judges each example by itself",
        ),
    )


METRICS: Registry[Metric] = Registry("metric")
for _group in (_basic(), _paper_attacks(), _regression(), _gaps(METRICS), _membership()):
    for _name, _metric in _group:
        METRICS.add(_name, _metric)
for _group in (_relearned(), _distances(), text_metrics()):
    for _name, _metric in _group:
        METRICS.add(_name, _metric)
