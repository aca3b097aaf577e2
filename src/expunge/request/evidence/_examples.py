"""The forgotten records one by one, the most exposed first, with pictures of the worst."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from expunge.evaluation import Predictions
from expunge.evaluation._exposure import exposure_of
from expunge.evaluation.attacks._lira import scaled_confidence
from expunge.evaluation.svm._landmarks import Array
from expunge.request.evidence._rows import Seen

MOST_IMAGES = 24
EXPOSED, AVOIDED = 0.99, 0.01
"""An example stands out when so large a share of unseen data scores lower, or higher."""


def example_rows(
    indices: Sequence[int],
    ids: Sequence[str],
    classes: Sequence[str],
    before: Seen,
    after: Seen,
    images: Tensor | None,
) -> list[dict[str, Any]]:
    """Every forgotten record, the most exposed first, with pictures of the worst."""
    exposure = [_exposure(seen) for seen in (before, after)]
    order = np.argsort(-np.abs(exposure[1] - 0.5), kind="stable").tolist()
    rows = []
    for rank, k in enumerate(order):
        sides = [
            _side(seen.forget, k, classes, float(share[k]))
            for seen, share in zip((before, after), exposure, strict=True)
        ]
        share = float(exposure[1][k])
        flag = "still exposed" if share > EXPOSED else "over-forgotten" if share < AVOIDED else ""
        picture = None
        if images is not None and rank < MOST_IMAGES:
            picture = as_picture(images[k])
        rows.append(
            {
                "index": int(indices[k]),
                "id": str(ids[k]),
                "label": classes[int(after.forget.labels[k])],
                "before": sides[0],
                "after": sides[1],
                "flag": flag,
                "image": picture,
            }
        )
    return rows


def _side(p: Predictions, k: int, classes: Sequence[str], exposure: float) -> dict[str, Any]:
    probabilities = torch.softmax(p.logits[k].double(), dim=0)
    return {
        "prediction": classes[int(p.logits[k].argmax())],
        "confidence": round(float(probabilities[int(p.labels[k])]), 4),
        "exposure": round(exposure, 4),
    }


def _exposure(seen: Seen) -> Array:
    """The share of test data less confident in their label than each forgotten record."""
    forget, test = (scaled_confidence(p.logits, p.labels) for p in (seen.forget, seen.test))
    return exposure_of(forget, test)


def as_picture(image: Tensor) -> str | None:
    """A uint8 image [C, H, W] as a PNG data URI, enlarged so that small ones can be seen."""
    from PIL import Image

    if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3):
        return None
    array = image.permute(1, 2, 0).cpu().numpy()
    picture = Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
    scale = max(1, 64 // max(picture.size))
    picture = picture.resize(
        (picture.width * scale, picture.height * scale), Image.Resampling.NEAREST
    )
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
