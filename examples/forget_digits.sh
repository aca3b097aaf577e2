#!/usr/bin/env bash
# A deletion request from the shell: a trained classifier of digits, three people who want to be
# forgotten, and the evidence. About a minute on two cores.
set -euo pipefail
work="${1:-forget-digits}"
mkdir -p "$work"
cd "$work"
# Sums depend on the number of threads, and a small request can end either way by a record or two.
export OMP_NUM_THREADS=1

# The model somebody has in production. Yours is already there.
test -f model.safetensors || expunge train --data digits --limit 400 --width 0.5 --epochs 60 \
    --batch-size 32 --lr 0.05 --schedule one-cycle -o model.safetensors

# Which training record belongs to whom, and who asked.
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

# Look first: does the model fit the data, are there copies, would retraining be the better deal?
expunge forget $request --out requests --dry-run

# Then do it. Ends with 1 where it was not achieved; the weights are then those from before.
expunge forget $request --out requests --lr 1e-3 --batch-size 16 --floor 5 || true

# Anyone with the folder and the data can check it.
expunge verify requests
expunge ledger requests
