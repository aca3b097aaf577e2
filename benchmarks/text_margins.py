"""How often does a model that never saw the records meet the margins of a text request?

    python benchmarks/text_margins.py [--records 24,240] [--models 10] [--draws 6] [--out FILE]

A model learns 60 invented people, three questions about each. Records of other people are drawn
as those of a request, and others as unseen ones: the model saw neither, as a retrained one would
not. It is then judged as the model of a request is, by all of its checks. A row says how many
checks of each moment were inside, open and outside, the largest distance from the margin on either
side in units of the margin (``reach``), and the verdict without and with the moments of
:data:`LATER`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from expunge.data import TextSet, WordTokenizer, invent_corpus
from expunge.data.text import stratify
from expunge.evaluation import (
    after_benign_steps,
    attack_facts,
    benign_rate,
    match_class_mix,
    predict_texts,
)
from expunge.models import SmallTransformer
from expunge.request._job import make_job
from expunge.request.verdict._build import margins_of
from expunge.request.verdict._checks import check_facts, make_checks
from expunge.request.verdict._measurements import UNSEEN_PER_RECORD, RequestPredictions
from expunge.request.verdict._sentences import decide
from text_requests import PEOPLE, TOPICS
from text_returns import trained

LATER = ("after relearning a tenth", "with 4-bit weights", "in sampled answers")
POOL = 420
"""People that no model saw."""


def judged(model: torch.nn.Module, sets: dict[str, TextSet], records: int, seed: int) -> Any:
    """The row of one draw."""
    draw = np.random.default_rng(seed).permutation(POOL)
    of = [int(p) * TOPICS + k for p in draw for k in range(TOPICS)]
    parts = of[:records], of[records : records + 120], of[records + 120 : 4 * records + 480]
    retained = len(sets["train"])
    forget, val, test = (sets["unseen"].subset(sorted(part)) for part in parts)
    asked = TextSet([*sets["train"].records, *forget.records], forget.tokenizer, width=forget.width)
    train, val, test = stratify(asked, val, test)
    retain = train.subset(range(retained))
    forget = train.subset(range(retained, len(train)))
    alike = test.subset(match_class_mix(test.labels, forget.labels, seed, most=UNSEEN_PER_RECORD))
    again = after_benign_steps(model, retain, lr=benign_rate(model), seed=seed)
    now, later = (
        RequestPredictions(*(predict_texts(m, part) for part in (forget, val, retain, unseen)))
        for m, unseen in ((model, test), (again, alike))
    )
    margins = margins_of(make_job(weights=Path("-"), out=Path("-")), now, retain.labels)
    checks = make_checks(now, now, later, train.classes, margins, seed, retain.labels)
    checks = [check for check in checks if not check.name.startswith("lost")]
    attacked = [
        check
        for moment, scores in attack_facts(model, forget, alike, retain, seed=seed).items()
        for check in check_facts(scores, margins, moment)
    ]
    row: dict[str, Any] = {"records": len(forget), "unseen": len(test), "seed": seed}
    row |= {"auc": margins.auc, "points": margins.records}
    row |= {"before": decide(checks), "verdict": decide([*checks, *attacked])}
    for check in (*checks, *attacked):
        centre = 0.5 if check.is_attack else 0.0
        reach = max(check.high - centre, centre - check.low) / (check.margin - centre)
        row.setdefault(check.moment, []).append((check.name, check.result, round(reach, 3)))
    return row


def world(seed: int) -> tuple[torch.nn.Module, dict[str, TextSet]]:
    """A model, what it learnt, and what it never saw."""
    corpus = invent_corpus(people=PEOPLE, unseen=POOL, topics=TOPICS, seed=1000 + seed)
    words = WordTokenizer.of(corpus.every_record)
    sets = {"train": TextSet(corpus.people, words), "unseen": TextSet(corpus.unseen, words)}
    width = max(part.tokens.shape[1] for part in sets.values())
    sets = {name: part.padded_to(width) for name, part in sets.items()}
    torch.manual_seed(seed)
    fresh = SmallTransformer(words.size, width, 64, layers=2)
    return trained(fresh, sets["train"]), sets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/requests/text_margins.jsonl"))
    parser.add_argument("--records", default="24,240")
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--draws", type=int, default=6)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = options.out.read_text(encoding="utf-8").splitlines() if options.out.is_file() else []
    rows = [json.loads(line) for line in lines]
    done = {(row["records"], row["seed"]) for row in rows}
    for number in range(options.models):
        model, sets = world(number)
        for records in map(int, options.records.split(",")):
            for draw in range(options.draws):
                seed = 100 * number + draw
                if (records, seed) in done:
                    continue
                rows.append(judged(model, sets, records, seed))
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    for records in sorted({row["records"] for row in rows}):
        own = [row for row in rows if row["records"] == records]
        for key in ("before", "verdict"):
            print(records, key, dict(Counter(row[key] for row in own)))
        for moment in ("as delivered", "after benign steps", *LATER):
            results = Counter(check[1] for row in own for check in row[moment])
            print(records, moment, dict(results))


if __name__ == "__main__":
    main()
