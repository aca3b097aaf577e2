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
_LABEL_UNITS = "units of the label"
for _name, _where, _direction in (
    ("forget", "the forget set", "ideal"),
    ("retain", "the retain set", "ideal"),
    ("test", "the test set", "lower"),
    ("val", "the validation set", "lower"),
):
    METRICS.add(
        f"{_name}_rmse",
        Metric(
            f"RMSE {_name}",
            f"root mean squared error on {_where} (regression)",
            _direction,  # type: ignore[arg-type]
            unit=_LABEL_UNITS,
            decimals=4,
        ),
    )
METRICS.add(
    "test_r2",
    Metric(
        "R² test",
        "share of the variance on the test set that is explained (regression)",
        "higher",
        unit="at most 1",
        decimals=4,
    ),
)
METRICS.add(
    "fid_rmse",
    Metric(
        "FID RMS",
        "root mean squared difference from the ideal model's predictions on the forget set",
        "lower",
        unit=_LABEL_UNITS,
        decimals=4,
    ),
)
METRICS.add(
    "mia_error",
    Metric(
        "MIA error",
        "share of the forget set an SVC on the absolute error takes for retained data",
        "ideal",
        unit="0 to 1",
        decimals=3,
    ),
)
_ERRORS = ("forget_rmse", "retain_rmse", "test_rmse", "val_rmse", "mia_error")
for _name in ("ra", "ta", "va", *(f"mia_{name}" for name in _ATTACKS), *_ERRORS):
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
METRICS.add(
    "rmia_auc",
    Metric(
        "RMIA AUC",
        "chance that RMIA, with the ideal model as reference, ranks a forget example above an "
        "unseen one",
        "ideal",
        unit="0 to 1, 0.5 is chance",
        decimals=3,
    ),
)
METRICS.add(
    "jsd",
    Metric(
        "JSD",
        "Jensen-Shannon divergence of the outputs on the forget set from the ideal model's",
        "lower",
        unit="bits",
        decimals=4,
    ),
)
METRICS.add(
    "activation_distance",
    Metric(
        "activation distance",
        "Euclidean distance of the probabilities on the forget set from the ideal model's",
        "lower",
        unit="0 to 1.41",
        decimals=3,
    ),
)
METRICS.add(
    "zrf",
    Metric(
        "ZRF",
        "1 - JSD of the outputs on the forget set from those of an untrained model",
        "ideal",
        unit="0 to 1",
        decimals=3,
    ),
)
METRICS.add(
    "klom",
    Metric(
        "KLoM",
        "divergence of an example's margins over runs from those of retrained models",
        "lower",
        unit="nats",
        decimals=3,
    ),
)
for _name, _metric in text_metrics():
    METRICS.add(_name, _metric)
