#!/usr/bin/env bash
# A deletion request from the shell: a classifier that knows its training digits by heart, thirty
# people who ask to be forgotten, and the evidence. About half a minute on one core.
set -euo pipefail
work="${1:-forget-digits}"
mkdir -p "$work"
cd "$work"
# Rounding depends on the number of threads, and the verdict on a small request on a record or two.
export OMP_NUM_THREADS=1

# The data, which training record belongs to whom, and who asked to be forgotten. Noise on the images
# leaves the model something to memorise.
python - <<'PYTHON'
import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

if not Path("digits.npz").exists():
    digits, draw = load_digits(), np.random.default_rng(0)
    order = draw.permutation(len(digits.target))
    noisy = digits.images * 16 + draw.normal(0, 80, digits.images.shape)
    x, y = noisy.clip(0, 255).astype(np.uint8)[order], digits.target[order]
    splits = {"train": slice(1200), "val": slice(1200, 1350), "test": slice(1350, None)}
    arrays = {f"x_{name}": x[part] for name, part in splits.items()}
    np.savez("digits.npz", **arrays, **{f"y_{name}": y[part] for name, part in splits.items()})
records = len(np.load("digits.npz")["x_train"])
people = records // 10
with open("records.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["index", "person"])
    writer.writerows([index, f"person-{index % people:03d}"] for index in range(records))
with open("request.csv", "w") as file:
    file.write("id\n" + "".join(f"person-{number:03d}\n" for number in range(people // 4)))
PYTHON

# The model in production. Yours is already there.
test -f model.safetensors || expunge train --data npz:digits.npz --width 0.5 --epochs 25 \
    --batch-size 32 --lr 0.05 --schedule one-cycle -o model.safetensors

request="--weights model.safetensors --records records.csv --id-column person --ids request.csv"

# Check first: does the model fit the data, are there duplicates, would retraining be cheaper?
expunge forget $request --out requests --dry-run

# Then carry it out. Exits with 1 if it was not achieved; the weights are then those from before.
# Exits with 3 if there are too few records to tell.
expunge forget $request --out requests || true

# Anyone who has the folder and the data can verify it.
expunge verify requests
expunge ledger requests
