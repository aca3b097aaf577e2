#!/usr/bin/env bash
# A deletion request from the shell: a trained classifier of digits, three people who ask to be
# forgotten, and the evidence. About half a minute on one core.
set -euo pipefail
work="${1:-forget-digits}"
mkdir -p "$work"
cd "$work"
# Rounding depends on the number of threads, and the verdict on a small request on a record or two.
export OMP_NUM_THREADS=1

# The model in production. Yours is already there.
test -f model.safetensors || expunge train --data digits --limit 400 --width 0.5 --epochs 25 \
    --batch-size 32 --lr 0.05 --schedule one-cycle -o model.safetensors

# Which training record belongs to whom, and who asked to be forgotten.
python - <<'PYTHON'
import csv

with open("records.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["index", "person"])
    writer.writerows([index, f"person-{index % 40:02d}"] for index in range(400))
with open("request.csv", "w") as file:
    file.write("id\nperson-03\nperson-17\nperson-31\n")
PYTHON

request="--weights model.safetensors --records records.csv --id-column person --ids request.csv"

# Check first: does the model fit the data, are there duplicates, would retraining be cheaper?
expunge forget $request --out requests --dry-run

# Then carry it out. Exits with 1 if it was not achieved; the weights are then those from before.
# Exits with 3 if there are too few records to tell.
expunge forget $request --out requests || true

# Anyone who has the folder and the data can verify it.
expunge verify requests
expunge ledger requests
