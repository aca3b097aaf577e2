"""The metrics by name: definition, direction and unit. Tables and documents read them."""

from __future__ import annotations

from expunge._registry import Registry
from expunge.evaluation._metric import DIRECTIONS as DIRECTIONS
from expunge.evaluation._metric import Metric as Metric
from expunge.evaluation.text._text_metrics import text_metrics

METRICS: Registry[Metric] = Registry("metric")
METRICS.add("ua", Metric("UA", "accuracy on the forget set", "ideal"))
METRICS.add("ra", Metric("RA", "accuracy on the retain set", "ideal"))
METRICS.add("ta", Metric("TA", "accuracy on the test set", "higher"))
METRICS.add("va", Metric("VA", "accuracy on the validation set", "higher"))
METRICS.add("rua", Metric("rUA", "UA minus the ideal model's UA", "zero", unit="points"))
METRICS.add("abs_rua", Metric("|rUA|", "distance of rUA from zero", "lower", unit="points"))
METRICS.add("fid", Metric("FID", "share of the forget set where model and ideal agree", "higher"))
METRICS.add("rte", Metric("RTE", "time of the unlearning steps alone", "lower", unit="s"))

_ATTACKS = {
    "correctness": "whether the prediction is right",
    "confidence": "the probability of the label",
    "logits": "the logits",
    "entropy": "the entropy of the prediction",
    "modified_entropy": "the modified entropy",
}
for _name, _what in _ATTACKS.items():
    METRICS.add(
        f"mia_{_name}",
        Metric(
            f"MIA {_name.replace('_', ' ')}",
            f"share of the forget set an SVC on {_what} takes for retained data",
            "ideal",
            unit="0 to 1",
            decimals=3,
        ),
    )
for _name in ("ra", "ta", "va", *(f"mia_{name}" for name in _ATTACKS)):
    _metric = METRICS[_name]
    METRICS.add(
        f"gap_{_name}",
        Metric(
            f"{_metric.label} gap",
            f"{_metric.label} minus the ideal model's",
            "zero",
            unit="points" if _metric.unit == "%" else _metric.unit.replace("0", "-1"),
            decimals=_metric.decimals,
        ),
    )
METRICS.add(
    "auc",
    Metric(
        "AUC",
        "chance that a forget example outscores an unseen one",
        "none",
        unit="0 to 1, 0.5 is chance",
        decimals=3,
    ),
)
METRICS.add(
    "balanced_accuracy",
    Metric(
        "balanced accuracy",
        "mean of the shares of forget and unseen examples that the attack places rightly",
        "none",
        unit="0 to 1, 0.5 is chance",
        decimals=3,
    ),
)
METRICS.add(
    "tpr_at_0.01",
    Metric(
        "TPR at 1 % FPR",
        "share of the forget set found when one unseen example in a hundred is accused",
        "lower",
        unit="0 to 1",
        decimals=4,
    ),
)
METRICS.add(
    "tpr_at_0.001",
    Metric(
        "TPR at 0.1 % FPR",
        "share of the forget set found when one unseen example in a thousand is accused",
        "lower",
        unit="0 to 1",
        decimals=4,
    ),
)
for _name, _metric in text_metrics():
    METRICS.add(_name, _metric)
