"""Deletion requests to small language models, judged by retrained ones that they never see.

    python benchmarks/text_requests.py --out DIR [--seeds 0,1,2] [--sets people:8,random:24]
    python benchmarks/text_requests.py --out DIR --set method=NPO --set lr=1e-3 --label npo
    python benchmarks/text_requests.py --out DIR --show

A world is an invented corpus of 60 people to learn and 60 never seen, three questions about each,
and a transformer of 64 features and two layers that learnt the former by heart. ``people:8`` asks
for all records of eight people, ``random:24`` for 24 records of anybody. Every request is what
``expunge forget`` does, with all defaults unless options of a job are given. What is done is kept.

Beside the verdict stands a model retrained without the records: how far the share of right tokens
on the records is from its (``gap``), whether their probabilities are distributed alike (``ks``, the
p-value of a Kolmogorov-Smirnov test), and how many points of right tokens were lost on retained
(``lost``) and on unseen records (``lost_unseen``).
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import ks_2samp

import expunge
from expunge.data import TextSet, WordTokenizer, invent_corpus
from expunge.engine._token_scores import score_tokens
from expunge.evaluation.text._measures import exact_memorisation, mean_log_prob
from expunge.models import SmallTransformer

PEOPLE, TOPICS, EPOCHS = 60, 3, 40
SETS = ("people:8", "random:24", "people:2")


@functools.cache
def texts(seed: int) -> tuple[TextSet, TextSet, TextSet]:
    """Train, val and test of a seed."""
    corpus = invent_corpus(people=PEOPLE, unseen=PEOPLE, topics=TOPICS, seed=seed)
    tokenizer = WordTokenizer.of(corpus.every_record)
    unseen = corpus.unseen
    train, val, test = (
        TextSet(part, tokenizer) for part in (corpus.people, unseen[::2], unseen[1::2])
    )
    return train, val, test


def trained(seed: int, without: list[int], file: Path) -> SmallTransformer:
    """A model that learnt all records but some, from the file if it is there."""
    train, val, test = texts(seed)
    context = max(part.tokens.shape[1] for part in (train, val, test))
    torch.manual_seed(seed)
    model = SmallTransformer(train.tokenizer.size, context, width=64, layers=2)
    if file.is_file():
        model.load_state_dict(torch.load(file, weights_only=True))
        return model.eval()
    kept = torch.tensor(sorted(set(range(len(train))) - set(without)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    shuffle = torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        for rows in kept[torch.randperm(len(kept), generator=shuffle)].split(32):
            optimizer.zero_grad()
            loss = expunge.methods.next_token_loss(model(train.tokens[rows]), train.labels[rows])
            loss.backward()
            optimizer.step()
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), file)
    return model.eval()


def chosen(scenario: str, seed: int) -> list[int]:
    """The positions of the records that a request asks for."""
    kind, _, count = scenario.partition(":")
    draw = np.random.default_rng(seed)
    if kind == "people":
        people = draw.choice(PEOPLE, int(count), replace=False)
        return sorted(int(p) * TOPICS + k for p in people for k in range(TOPICS))
    return sorted(int(k) for k in draw.choice(PEOPLE * TOPICS, int(count), replace=False))


def run_request(options: argparse.Namespace, scenario: str, seed: int) -> dict[str, Any]:
    """One request, judged; read from the folder if it is there."""
    label = f"{options.label}-{scenario.replace(':', '_')}-{seed}"
    kept = options.out / "rows" / f"{label}.json"
    if kept.is_file():
        row: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return row
    os.environ["EXPUNGE_CACHE"] = str(options.out / "cache" / label)  # not the user's attempts
    train, val, test = texts(seed)
    forget = chosen(scenario, seed)
    models = options.out / "models"
    model = trained(seed, [], models / f"{seed}.pt")
    ideal = trained(seed, forget, models / f"{seed}-{scenario.replace(':', '_')}.pt")
    shutil.rmtree(options.out / "requests" / label, ignore_errors=True)
    began = time.process_time()
    outcome = expunge.forget(
        model=model,
        data=(train, val, test),
        ids=[train.names[k] for k in forget],
        out=options.out / "requests" / label,
        progress=False,
        id_key=options.out / "id.key",
        **dict(options.set),
    )
    seconds = time.process_time() - began
    assert outcome.model is not None
    row = {"label": options.label, "scenario": scenario, "seed": seed, "verdict": outcome.status}
    row |= {
        "seconds": seconds,
        "stopped": outcome.evidence.stopped.reason if outcome.evidence else "",
    }
    row |= judged(model, ideal, outcome.model, seed, forget)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    return row


def judged(
    model: torch.nn.Module, ideal: torch.nn.Module, now: torch.nn.Module, seed: int, ids: list[int]
) -> dict[str, float]:
    """The model of a request beside the retrained one."""
    train, _, test = texts(seed)
    forget = train.subset(ids)
    retain = train.subset(sorted(set(range(len(train))) - set(ids)))
    at = {
        (name, split): score_tokens(each, data)
        for name, each in (("before", model), ("ideal", ideal), ("after", now))
        for split, data in (("forget", forget), ("retain", retain), ("test", test))
    }
    em = {key: 100.0 * float(exact_memorisation(scores).mean()) for key, scores in at.items()}
    likely = [mean_log_prob(at[name, "forget"]) for name in ("after", "ideal")]
    return {
        "before": em["before", "forget"],
        "ideal": em["ideal", "forget"],
        "gap": em["after", "forget"] - em["ideal", "forget"],
        "ks": float(ks_2samp(*likely).pvalue),
        "lost": em["before", "retain"] - em["after", "retain"],
        "lost_unseen": em["before", "test"] - em["after", "test"],
    }


def show(rows: list[dict[str, Any]]) -> None:
    """A line per label and set of records: verdicts, and mean ± std over seeds.

    Requests that were not achieved left the model as it was, and count in the verdicts alone.
    """
    for label, scenario in dict.fromkeys((r["label"], r["scenario"]) for r in rows):
        own = [r for r in rows if (r["label"], r["scenario"]) == (label, scenario)]
        verdicts = ", ".join(f"{n} {v}" for v, n in Counter(r["verdict"] for r in own).items())
        done = [r for r in own if r["verdict"] != "not achieved"]
        numbers = "  ".join(
            f"{name} {np.mean([r[name] for r in rows_of]):.2f} ± "
            f"{np.std([r[name] for r in rows_of]):.2f}"
            for name, rows_of in [
                *((name, done) for name in ("gap", "ks", "lost", "lost_unseen") if done),
                ("seconds", own),
            ]
        )
        print(f"{label:12} {scenario:10} n={len(own)}  {verdicts}\n    {numbers}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--label", default="default")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.set = [_option(text) for text in options.set]
    if options.show:
        files = sorted((options.out / "rows").glob("*.json"))
        show([json.loads(file.read_text(encoding="utf-8")) for file in files])
        return
    scenarios = options.sets.split(",")
    seeds = [int(seed) for seed in options.seeds.split(",")]
    show([run_request(options, scenario, seed) for scenario in scenarios for seed in seeds])


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


if __name__ == "__main__":
    main()
