"""Evidence as a request might leave it, made up; and the same with hostile names in it."""

from __future__ import annotations

import base64
import io
import random
from typing import Any

from PIL import Image

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror="document.title=1">',
    "</script><script>alert(2)</script>",
    "a\u2028b\u2029c & {{ 7 * 7 }} {b} 'q'",
    "n" * 300,
    "{red|rich}<b>bold</b>",
    "<!--<script>",
)


def evidence(records: int = 42, seed: int = 0, *, achieved: bool = True) -> dict[str, Any]:
    """A request that went well, or one that did not."""
    dice = random.Random(seed)
    scores = {side: _scores(dice, records, side) for side in ("before", "after")}
    target = estimate(87.1, 4.2)
    return {
        "format": 1,
        "kind": "request",
        "verdict": _verdict(records, achieved),
        "request": {
            "number": 3,
            "ids": max(1, records // 14),
            "records": records,
            "copies": [[1007, "exact", 1000, 1.0], [1014, "near", 1000, 0.9991]],
            "share": 0.035,
            "source": "request.csv",
            "when": "2026-03-14T09:26:53+00:00",
            "previous": "ab" * 32,
        },
        "hashes": {
            name: f"{k:02x}" * 32
            for k, name in enumerate(("weights_before", "weights_after", "data", "ids", "config"))
        },
        "config": {
            "model": "resnet18",
            "model_options": {"width": 0.25},
            "data": "cifar10:data",
            "method": "SRL",
            "addon": "FOCUS",
            "alpha": 0.05,
            "lr": 1e-4,
            "batch_size": 32,
            "max_epochs": 30,
            "floor": 2.0,
            "level": 0.95,
            "seed": 0,
        },
        "environment": {
            "versions": {"expunge": "0.1.0", "torch": "2.13.0", "python": "3.11.9"},
            "hardware": {"processor": "AMD EPYC", "cores": 2, "gpus": []},
        },
        "seeds": {"run": 0, "bootstrap": 1},
        "seconds": {"preflight": 1.24, "unlearning": 8.13, "audit": 3.02, "total": 14.21},
        "preflight": _preflight(records),
        "target": {
            **target,
            "n_val": 180,
            "n_forget": records,
            "notes": ["Class frog has only 6 held-out records.", "No correction for less data."],
        },
        "metrics": _metrics(target, achieved),
        "epochs": _epochs(dice, target),
        "stopped": {
            "epoch": 7,
            "reason": "accuracy on the forgotten data is inside the target's interval and no "
            "attack tells it from unseen data.",
            "status": "achieved" if achieved else "not achieved",
        },
        "steps": _steps(dice, 7, 12),
        "attacks": _attacks(dice),
        "scores": {"name": "confidence in the true label", **scores},
        "classes": [
            {
                "name": name,
                "forgotten": dice.randrange(9),
                "val": dice.randrange(9, 60),
                "before": (before := round(dice.uniform(84, 97), 2)),
                "after": round(before - dice.uniform(-1.5, 4), 2),
            }
            for name in CLASSES
        ],
        "examples": _examples(dice, records),
        "cost": {
            "unlearning_seconds": 8.13,
            "retraining_seconds": 61.04,
            "ratio": 7.508,
            "note": "Retraining was not run: 100 epochs at the measured speed are assumed.",
        },
        "earlier": [
            {
                "number": 1,
                "records": 20,
                "ua": estimate(85.0, 9.5),
                "target": estimate(86.2, 6.1),
                "status": "still forgotten",
            },
            {
                "number": 2,
                "records": 31,
                "ua": estimate(96.8, 3.1),
                "target": estimate(86.9, 5.5),
                "status": "exposed again",
            },
        ],
        "limits": [
            "Nothing here proves that no trace is left: what is judged is what can be measured.",
            "Copies of the records elsewhere (backups, other models, logs) are not touched.",
        ],
        "commands": [
            "expunge forget --model resnet18 --weights initial.safetensors --data cifar10:data "
            "--ids request.csv --out bundle",
            "expunge verify bundle",
        ],
    }


def hostile() -> dict[str, Any]:
    """The same with names that a browser might take for code, wherever a user chooses them."""
    found = evidence(60)
    for k, row in enumerate(found["examples"]):
        row["id"] = HOSTILE[k % len(HOSTILE)] + str(k)
        row["label"] = HOSTILE[(k + 1) % len(HOSTILE)]
        row["after"]["prediction"] = HOSTILE[(k + 2) % len(HOSTILE)]
    for k, row in enumerate(found["classes"]):
        row["name"] = HOSTILE[k % len(HOSTILE)]
    for k, row in enumerate(found["attacks"]):
        row["name"] = row["label"] = HOSTILE[k % len(HOSTILE)]
    found["metrics"][0]["label"] = HOSTILE[0]
    found["metrics"][1]["explain"] = HOSTILE[1]
    found["request"]["source"] = HOSTILE[1]
    found["verdict"]["headline"] = HOSTILE[2]
    found["verdict"]["reasons"] = list(HOSTILE)
    found["preflight"]["warnings"] = list(HOSTILE)
    found["preflight"][HOSTILE[0]] = {HOSTILE[1]: HOSTILE[2]}
    found["scores"]["name"] = HOSTILE[0]
    found["epochs"][0][HOSTILE[1]] = 1.0
    found["examples"][1]["image"] = "javascript:alert(3)"
    found["examples"][2]["image"] = "https://example.org/x.png"
    found["commands"] = [HOSTILE[2], "expunge verify bundle"]
    found["hashes"][HOSTILE[0]] = HOSTILE[2]
    return found


def bare() -> dict[str, Any]:
    """The least that a request which failed at once might leave."""
    whole = evidence(1, achieved=False)
    kept = ("format", "kind", "verdict", "request", "hashes", "config")
    return {name: whole[name] for name in kept} | {
        "metrics": [
            {
                "name": "ta",
                "label": "Accuracy on test data",
                "unit": "%",
                "direction": "higher",
                "before": {"value": 91.0, "low": None, "high": None},
                "after": None,
                "target": None,
            }
        ],
        "stopped": {"epoch": 0, "reason": "The model diverged at once.", "status": "not achieved"},
        "epochs": [],
        "attacks": [],
        "examples": [],
        "scores": {"name": "confidence", "before": {}, "after": {}},
        "steps": {},
        "target": None,
        "preflight": {},
        "earlier": [],
    }


def estimate(value: float, half: float) -> dict[str, float]:
    return {"value": value, "low": round(value - half, 4), "high": round(value + half, 4)}


def _verdict(records: int, achieved: bool) -> dict[str, Any]:
    if not achieved:
        return {
            "status": "not achieved",
            "headline": f"The {records} records were not forgotten to the standard asked for; the "
            "bundle holds the model as it was before the request.",
            "reasons": ["Held-out accuracy fell through the floor at every learning rate tried."],
            "shown": [],
            "not_shown": ["That the records can be forgotten with these settings."],
        }
    return {
        "status": "achieved",
        "headline": f"The model treats the {records} records like data it never saw: it is right "
        "on 88.1 % of them, 87.1 % would be expected; none of the attacks tells them from unseen "
        "data.",
        "reasons": ["Indistinguishable from held-out data at epoch 7, test accuracy 0.6 lower."],
        "shown": [
            "Accuracy on the forgotten records went from 100.0 % to 88.1 %, inside the interval "
            "expected of a model that never saw them (82.9 to 91.3 %).",
            "Of 6 membership attacks: 5 not detected, 1 inconclusive.",
        ],
        "not_shown": [
            "That no trace is left: approximate unlearning is judged by what can be measured.",
            "What an attacker with models trained for the purpose could find.",
        ],
    }


def _metrics(target: dict[str, float], achieved: bool) -> list[dict[str, Any]]:
    def row(name: str, label: str, sides: Any, aim: Any, explain: str, unit: str = "%") -> Any:
        before, after = sides
        direction = "target" if aim else "higher"
        plain = {"name": name, "label": label, "unit": unit, "direction": direction}
        after = after if achieved else before
        return plain | {"before": before, "after": after, "target": aim, "explain": explain}

    return [
        row(
            "ua",
            "Accuracy on the forgotten data",
            ({"value": 100.0, "low": 91.6, "high": 100.0}, estimate(88.0952, 7.7)),
            target,
            "Higher than the target means it still remembers, lower that it avoids them.",
        ),
        row(
            "ta",
            "Accuracy on test data",
            (estimate(91.43, 0.61), estimate(90.85, 0.63)),
            None,
            "What the model is worth on data nobody used for any decision here.",
        ),
        row(
            "va",
            "Accuracy on held-out data",
            (estimate(91.1, 1.9), estimate(90.6, 2.0)),
            None,
            "What the run watched, so that the model stays useful.",
        ),
        row(
            "confidence",
            "Mean confidence in the label",
            (estimate(0.9921, 0.006), estimate(0.8412, 0.041)),
            estimate(0.8466, 0.022),
            "",
            unit="",
        ),
    ]


def _epochs(dice: random.Random, target: dict[str, float]) -> list[dict[str, Any]]:
    actions = ["go on", "go on", "faster", "rolled back", "mend", "go on", "stop"]
    ua = [100.0, 97.6, 95.2, 71.4, 92.9, 90.5, 88.0952]
    va = [91.1, 91.0, 90.8, 84.3, 90.7, 90.7, 90.6]
    rows = []
    for k, action in enumerate(actions):
        rows.append(
            {
                "epoch": k + 1,
                "ua": ua[k],
                "va": va[k],
                "gap": round(ua[k] - target["value"], 4),
                "target_low": target["low"],
                "target_high": target["high"],
                "confidence_ks": round(0.4 - 0.04 * k, 3),
                "entropy_ks": round(0.38 - 0.03 * k, 3),
                "auc_entropy": round(0.81 - 0.045 * k, 3),
                "auc_loss": round(0.84 - 0.048 * k, 3),
                "lr": 1e-4 if k != 4 else 5e-5,
                "alpha": 0.05,
                "action": action,
                "seconds": round(1.16 * (k + 1), 3),
                "cosine": round(dice.gauss(0, 0.02), 4),
                "feasible": 0.9,
            }
        )
    return rows


def _steps(dice: random.Random, epochs: int, each: int) -> dict[str, list[float | None]]:
    total = epochs * each
    return {
        "epoch": [float(1 + k // each) for k in range(total)],
        "feasible": [float(dice.random() < 0.88) for _ in range(total)],
        "cosine": [round(dice.gauss(-0.03, 0.08), 4) for _ in range(total)],
        "agreement": [round(0.5 + dice.uniform(0, 0.04), 4) for _ in range(total)],
        "moved": [None, *(round(dice.uniform(0.93, 0.99), 4) for _ in range(total - 1))],
        "objective_alignment": [round(-0.004 * dice.random(), 6) for _ in range(total)],
        "constraint_alignment": [round(-0.001 + 0.002 * dice.random(), 6) for _ in range(total)],
    }


def _attacks(dice: random.Random) -> list[dict[str, Any]]:
    rows = []
    for name in ("correctness", "confidence", "logits", "entropy", "modified-entropy", "loss"):
        auc = dice.uniform(0.49, 0.56)
        rows.append(
            {
                "name": f"svc-{name}",
                "label": f"guesses from the {name} of the prediction",
                "before": {
                    "auc": estimate(round(dice.uniform(0.7, 0.9), 4), 0.05),
                    "verdict": "detected",
                    "reason": "The interval of the AUC lies above 0.5.",
                },
                "after": {
                    "auc": estimate(round(auc, 4), 0.06),
                    "verdict": "not detected" if auc < 0.55 else "inconclusive",
                    "reason": "The interval of the AUC holds 0.5.",
                },
                "budget": "population attack: no other model needed",
            }
        )
    return rows


def _scores(dice: random.Random, records: int, side: str) -> dict[str, list[float]]:
    def draw(count: int, a: float, b: float) -> list[float]:
        return [round(dice.betavariate(a, b), 4) for _ in range(count)]

    forget = draw(records, 40, 1) if side == "before" else draw(records, 4, 0.8)
    return {"forget": forget, "val": draw(180, 4, 0.75), "retain": draw(1200, 30, 1)}


def _examples(dice: random.Random, records: int) -> list[dict[str, Any]]:
    rows = []
    for k in range(records):
        label = CLASSES[k % 10]
        exposure = round(dice.random(), 4)
        flag = "still exposed" if exposure > 0.99 else "over-forgotten" if exposure < 0.01 else ""
        rows.append(
            {
                "index": 1000 + 7 * k,
                "id": f"img_{k:05d}.png",
                "label": label,
                "before": {
                    "prediction": label,
                    "confidence": round(dice.betavariate(40, 1), 4),
                    "exposure": round(dice.uniform(0.9, 1.0), 4),
                },
                "after": {
                    "prediction": label if dice.random() < 0.88 else dice.choice(CLASSES),
                    "confidence": round(dice.betavariate(4, 0.8), 4),
                    "exposure": exposure,
                },
                "flag": flag,
                "image": None,
            }
        )
    rows.sort(key=lambda row: -abs(row["after"]["exposure"] - 0.5))
    for k, row in enumerate(rows[:24]):
        row["image"] = picture(k)
    return rows


def picture(seed: int) -> str:
    """A small picture of coloured squares."""
    dice = random.Random(seed)
    image = Image.new("RGB", (8, 8))
    image.putdata([tuple(dice.randrange(256) for _ in range(3)) for _ in range(64)])
    buffer = io.BytesIO()
    image.resize((64, 64), Image.Resampling.NEAREST).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _preflight(records: int) -> dict[str, Any]:
    return {
        "fit": {
            "train": estimate(99.6, 0.4),
            "val": estimate(91.1, 1.9),
            "test": estimate(91.43, 0.61),
            "fits": True,
            "reasons": [],
        },
        "ids": {
            "asked": 3,
            "records": records,
            "repeated": ["person-17"],
            "share": 0.035,
            "classes": dict.fromkeys(CLASSES[:6], 4),
        },
        "duplicates": {
            "threshold": 0.994,
            "exact": [[1007, "retain", 33, 1.0]],
            "near": [],
        },
        "hardness": {
            "confidence": {"forget": 0.992, "val": 0.871},
            "entropy": {"forget": 0.021, "val": 0.342},
        },
        "cost": {
            "step_seconds": 0.0113,
            "epoch_seconds": 1.16,
            "unlearning_seconds": 34.8,
            "retraining_seconds": 61.04,
            "advice": "unlearn",
            "words": "Unlearning takes about a seventh of the time of retraining.",
        },
        "warnings": ["One exact copy of a forgotten record stays in the retained data."],
    }
