"""The metrics by name: formula, direction, unit, use, citation. Tables and documents read them.

In formulas, F is the forget set, R the retain set, M(x) the predicted class of a model, p its
probabilities, z its predictions of a regression; M*, p* and z* are those of the ideal model.
"""

from __future__ import annotations

from expunge._registry import Registry
from expunge.evaluation._metric import CHANCE, SHARE, Direction, Metric
from expunge.evaluation.text._text_metrics import TEXT_METRICS

PAPER = (
    "Dine et al., *Improving Unlearning with Model Updates Probably Aligned with Gradients*, "
    "AISec 2025"
)
JIA = "Jia et al., *Model Sparsity Can Simplify Machine Unlearning*, NeurIPS 2023"
SONG = (
    "Song and Mittal, *Systematic Evaluation of Privacy Risks of Machine Learning Models*, "
    "USENIX Security 2021"
)
BADT = "Chundawat et al., *Can Bad Teaching Induce Forgetting?*, AAAI 2023"
CARLINI = "Carlini et al., *Membership Inference Attacks From First Principles*, IEEE S&P 2022"
ZARIFZADEH = "Zarifzadeh et al., *Low-Cost High-Power Membership Inference Attacks*, ICML 2024"
LABEL_UNITS = "units of the label"

ACCURACIES: tuple[tuple[str, str, Direction, str], ...] = (
    ("ua", "forget", "ideal", "to see whether the data are still known; alone it proves nothing"),
    ("ra", "retain", "ideal", "to see what forgetting broke in data that were to be kept"),
    ("ta", "test", "higher", "to see what forgetting cost on new data"),
    ("va", "validation", "higher", "to choose options or an epoch, so that test data stay unseen"),
)
"""Name, split, direction and use of every accuracy."""

FEATURE_TEXTS = {
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

ERRORS: dict[str, Direction] = {
    "forget": "ideal",
    "retain": "ideal",
    "test": "lower",
    "val": "lower",
}
"""Split and direction of the errors of a regression."""

RELEARNED: tuple[tuple[str, str, str, Direction, str, int], ...] = (
    ("ua", "UA", "accuracy on the forget set", "ideal", "%", 2),
    ("ta", "TA", "accuracy on the test set", "higher", "%", 2),
    ("rua", "rUA", "UA minus that of the ideal model, both", "zero", "points", 2),
    ("auc", "loss AUC", "AUC of the loss attack", "ideal", CHANCE, 3),
)
"""Name, label, definition, direction, unit and decimals of what is measured after benign steps."""
BENIGN = "after benign steps (usually 50) of Adam on retained data"

_accuracies = {
    name: Metric(
        name.upper(),
        f"accuracy on the {split} set",
        direction,
        formula=f"P[M(x) = y] over the {split} set, in %",
        citation=JIA,
        use=use,
    )
    for name, split, direction, use in ACCURACIES
} | {
    "rua": Metric(
        "rUA",
        "UA minus the ideal model's UA",
        "zero",
        unit="points",
        formula="UA(M) - UA(M*)",
        citation=PAPER,
        use="first, wherever a retrained model can be had: above 0 the data are still known, "
        "below 0 more was forgotten than retraining would",
    ),
    "abs_rua": Metric(
        "|rUA|",
        "distance of rUA from zero",
        "lower",
        unit="points",
        formula="|UA(M) - UA(M*)|",
        citation=PAPER,
        use="to rank methods by rUA, whose mean over seeds may hide misses on both sides",
    ),
    "fid": Metric(
        "FID",
        "share of the forget set where model and ideal agree",
        "higher",
        formula="P[M(x) = M*(x)] over F, in %",
        citation=PAPER,
        use="beside rUA: two models of one accuracy may be wrong on different examples",
    ),
    "rte": Metric(
        "RTE",
        "time of the unlearning steps alone",
        "lower",
        unit="s",
        formula="Σ seconds of the steps, without evaluation and loading; in benchmarks on a CPU, "
        "processor time",
        citation=JIA,
        use="to compare methods on one machine, in one run",
    ),
}

_paper_attacks = {
    f"mia_{name}": Metric(
        f"MIA {name.replace('_', ' ')}",
        f"share of the forget set an SVC on {words} classifies as retained data",
        "ideal",
        SHARE,
        3,
        formula=f"E_F[b(x)], b an SVC on {formula}",
        citation=f"{JIA}; {SONG}" if "entropy" in name else JIA,
        use="to compare with published tables; it flatters the model, so believe `auc` or "
        "an audit with shadow models rather than a low value of it",
    )
    for name, (words, formula) in FEATURE_TEXTS.items()
}

_regression = {
    "mia_error": Metric(
        "MIA error",
        "share of the forget set an SVC on the absolute error classifies as retained data",
        "ideal",
        SHARE,
        3,
        formula="E_F[b(x)], b an SVC on |z - y|",
        citation=f"{JIA}, with the feature that a regression has",
        use="for a regression, where attacks on classes have nothing to read",
    ),
    **{
        f"{name}_rmse": Metric(
            f"RMSE {name}",
            f"root mean squared error on the {name.replace('val', 'validation')} set (regression)",
            direction,
            LABEL_UNITS,
            4,
            formula="√E[(z - y)²]",
            citation="textbook",
            use="for a regression, in place of an accuracy",
        )
        for name, direction in ERRORS.items()
    },
    "test_r2": Metric(
        "R² test",
        "share of the variance on the test set that is explained (regression)",
        "higher",
        "at most 1",
        4,
        formula="1 - E[(z - y)²]/Var(y)",
        citation="textbook",
        use="for a regression, to see at a glance whether the model is still of any use",
    ),
    "fid_rmse": Metric(
        "FID RMS",
        "root mean squared difference from the ideal model's predictions on the forget set",
        "lower",
        LABEL_UNITS,
        4,
        formula="√E_F[(z - z*)²]",
        citation=f"{PAPER}, FID for a regression",
        use="for a regression, in place of FID",
    ),
}

_membership = {
    "auc": Metric(
        "AUC",
        "chance that a forget example outscores an unseen one",
        "none",
        CHANCE,
        3,
        formula="P[s(x) > s(x')] + ½ P[s(x) = s(x')], x in F, x' unseen",
        citation="textbook",
        use="as the one number of an attack: above ½ is memory, and below ½ shows, too",
    ),
    "balanced_accuracy": Metric(
        "balanced accuracy",
        "mean of the shares of forget and unseen examples that the attack places rightly",
        "none",
        CHANCE,
        3,
        formula="½ (TPR + 1 - FPR) at the attack's own threshold",
        citation="textbook",
        use="to compare with publications that state an attack's accuracy",
    ),
    **{
        f"tpr_at_{rate}": Metric(
            f"TPR at {percent} FPR",
            f"share of the forget set found when one unseen example in a {count} is accused",
            "lower",
            SHARE,
            4,
            formula=f"P_F[s(x) > t], t so that P[s(x') > t] = {rate} on unseen x'",
            citation=CARLINI,
            use="where a few exposed records are already too many; it needs at least "
            f"{round(1 / float(rate)):,} unseen examples",
        )
        for rate, count, percent in (("0.01", "hundred", "1 %"), ("0.001", "thousand", "0.1 %"))
    },
    "rmia_auc": Metric(
        "RMIA AUC",
        "chance that RMIA, with the ideal model as reference, ranks a forget example above an "
        "unseen one",
        "ideal",
        CHANCE,
        3,
        formula="AUC of s(x) = P_z[r(x)/r(z) ≥ γ], r = p_y/(what p*_y lets one expect)",
        citation=ZARIFZADEH,
        use="for a stronger attack than the paper's at the cost of one retrained model",
    ),
    "loss_auc": Metric(
        "loss AUC",
        "chance that a forget example has a smaller loss than an unseen one of its classes",
        "ideal",
        CHANCE,
        3,
        formula="P[L(x) < L(x')] + ½ P[L(x) = L(x')], x in F, x' unseen",
        citation="Yeom et al., *Privacy Risk in Machine Learning*, CSF 2018",
        use="as the simplest attack, which needs no other model",
    ),
}

_relearned = {
    f"relearned_{name}": Metric(
        f"{label} relearned",
        f"{words} {BENIGN}",
        direction,
        unit,
        decimals,
        formula=f"{label} of the model {BENIGN}, at a rate of 1e-3 in benchmarks, and at less for "
        "wide layers in `evaluate`",
        citation="ours",
        use="to tell forgetting from hiding: what ordinary training brings back was never gone",
    )
    for name, label, words, direction, unit, decimals in RELEARNED
}

_distances = {
    "kl": Metric(
        "KL",
        "Kullback-Leibler divergence of the outputs on the forget set from the ideal model's",
        "lower",
        "nats",
        4,
        formula="E_F[KL(p*‖p)]",
        citation="textbook",
        use="beside FID; compare it with the divergence between two retrained models",
    ),
    "jsd": Metric(
        "JSD",
        "Jensen-Shannon divergence of the outputs on the forget set from the ideal model's",
        "lower",
        "bits",
        4,
        formula="E_F[½ KL(p‖m) + ½ KL(p*‖m)], m = (p + p*)/2",
        citation=BADT,
        use="beside FID: it sees differences in confidence, which leave the class alone",
    ),
    "activation_distance": Metric(
        "activation distance",
        "Euclidean distance of the probabilities on the forget set from the ideal model's",
        "lower",
        "0 to 1.41",
        3,
        formula="E_F[‖p - p*‖₂]",
        citation=f"Golatkar et al., *Forgetting Outside the Box*, ECCV 2020; {BADT}",
        use="to compare with publications that state it; JSD says much the same",
    ),
    "zrf": Metric(
        "ZRF",
        "1 - JSD of the outputs on the forget set from those of an untrained model",
        "ideal",
        SHARE,
        3,
        formula="1 - E_F[JSD(p, p⁰)], p⁰ of a model with random weights",
        citation=BADT,
        use="where there is no retrained model, and with care: a retrained model still knows "
        "something about the data, so the largest value is not the best",
    ),
    "klom": Metric(
        "KLoM",
        "divergence of an example's margins over runs from those of retrained models",
        "lower",
        "nats",
        3,
        formula="KL(R‖U), R and U the laws of log p_y - log(1-p_y) over seeds",
        citation="Georgiev et al., *Attribute-to-Delete: Machine Unlearning via Datamodel "
        "Matching*, ICLR 2025",
        use="if several retrained models can be afforded: it judges each example by itself",
    ),
}


_compared = _accuracies | _paper_attacks | _regression
_with_gap = ["ra", "ta", "va", *_paper_attacks, *(f"{name}_rmse" for name in ERRORS), "mia_error"]
_gaps = {
    f"gap_{name}": Metric(
        f"{metric.label} gap",
        f"{metric.label} minus the ideal model's",
        "zero",
        "points" if metric.unit == "%" else metric.unit.replace("0", "-1"),
        metric.decimals,
        formula=f"{metric.label}(M) - {metric.label}(M*)",
        citation=metric.citation,
        use=f"as rUA, for {metric.label}: near 0 is what retraining would give",
    )
    for name, metric in ((name, _compared[name]) for name in _with_gap)
}

METRICS: Registry[Metric] = Registry("metric")
for _group in (_compared, _gaps, _membership, _relearned, _distances, TEXT_METRICS):
    for _name, _metric in _group.items():
        METRICS.add(_name, _metric)
