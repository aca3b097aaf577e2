"""Does what a language model was made to forget come back?

    python benchmarks/text_returns.py [--seeds 0,1,2] [--out results/requests/texts.jsonl]
    python docs/_site/request_tables.py        # the rows, as the table of the documents

A world is an invented corpus. A transformer of 64 features and two layers learns 60 people, three
questions about each: its base checkpoint. Fine-tuned to 60 others by :data:`RECIPE`, it knows these
by heart. All 24 records of eight of them are to be forgotten. Every model is measured as delivered,
after 50 benign steps, as the verdict of a request takes them, and after ten steps on a tenth of the
records, of which the other nine tenths are measured:

- ``facts``: how many of the tokens that carry the facts are right, in percent; of ``unseen``
  records and of ``retain`` records as well;
- ``auc_facts``, ``auc_loss``: attacks that guess from the probability of these tokens, and of the
  whole answers.

``seconds`` is processor time. A row that the file has is not computed again.

UNDO here is MATCH-LM, then a mixture of ``keep`` of its weights with fresh ones (scaled to the norm
of each matrix) or with those of the base checkpoint, then distillation: the mean KL divergence
from the outputs of MATCH-LM's model over all tokens of the retained records, by the recipe in one
cycle (B. W. Lee et al., *Distillation Robustifies Unlearning*, 2025).
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import expunge
from expunge.data import TextSet, WordTokenizer, invent_corpus
from expunge.data.text import TextExamples, stratify
from expunge.evaluation import after_benign_steps, benign_rate, predict_texts
from expunge.evaluation._statistics import auc_of
from expunge.methods import Retrain, next_token_loss
from expunge.methods._retrain import draw_again
from expunge.models import SmallTransformer
from expunge.request._forgetting import forget_records
from expunge.request._job import make_job, text_defaults
from expunge.request.subject._texts import make_text_subject
from text_requests import PEOPLE, TOPICS, chosen

RECIPE = expunge.Recipe(
    epochs=30, batch_size=32, lr=3e-3, weight_decay=0.01, schedule="one-cycle", algorithm="adamw"
)
QUIET = expunge.Execution(progress=False)
Model = nn.Module


@dataclass
class World:
    """A corpus and the models that were trained on it."""

    seed: int

    @cached_property
    def sets(self) -> dict[str, TextSet]:
        """Records of the base checkpoint, and train, val and test, in rows of one width."""
        corpus = invent_corpus(people=2 * PEOPLE, unseen=PEOPLE, topics=TOPICS, seed=self.seed)
        words, half = WordTokenizer.of(corpus.every_record), PEOPLE * TOPICS
        parts = {
            "base": corpus.people[:half],
            "train": corpus.people[half:],
            "val": corpus.unseen[::2],
            "test": corpus.unseen[1::2],
        }
        sets = {name: TextSet(part, words) for name, part in parts.items()}
        width = max(part.tokens.shape[1] for part in sets.values())
        return {name: part.padded_to(width) for name, part in sets.items()}

    @cached_property
    def parts(self) -> dict[str, TextExamples]:
        """The records to forget, those retained, and test."""
        train, _, test = stratify(*(self.sets[name] for name in ("train", "val", "test")))
        ids = self.ids
        rest = sorted(set(range(len(train))) - set(ids))
        return {"forget": train.subset(ids), "retain": train.subset(rest), "test": test}

    @property
    def ids(self) -> list[int]:
        """All records of eight people."""
        return chosen("people:8", self.seed)

    @cached_property
    def base(self) -> Model:
        """The checkpoint that never saw any of the people of train."""
        torch.manual_seed(self.seed)
        tokens = self.sets["train"].tokens
        fresh = SmallTransformer(self.sets["train"].tokenizer.size, tokens.shape[1], 64, layers=2)
        return trained(fresh, self.sets["base"])

    @cached_property
    def before(self) -> Model:
        """The base checkpoint, fine-tuned to all of train."""
        return trained(self.base, self.sets["train"])

    @cached_property
    def matched(self) -> tuple[Model, float]:
        """MATCH-LM's model, and its processor time."""
        return timed(lambda: self.request(method="match-answers"))

    def request(self, **settings: Any) -> Model:
        """The model of a request with its defaults, at a rate for this width; never undone."""
        settings = {"lr": 1e-3} | settings
        job = make_job(
            weights=Path("memory"), out=Path("memory"), **(text_defaults(settings) | settings)
        )
        sets = tuple(self.sets[name] for name in ("train", "val", "test"))
        subject = make_text_subject(self.before, sets, job)
        forget, retain = self.parts["forget"], self.parts["retain"]
        return forget_records(job, subject, forget, retain, progress=False).model

    def again(self, method: Any) -> Model:
        """Training again on what is retained."""
        forget, retain = self.parts["forget"], self.parts["retain"]
        return expunge.unlearn(
            self.before,
            forget=forget,
            retain=retain,
            method=method,
            optimizer=RECIPE,
            loss=next_token_loss,
            execution=QUIET,
        ).model

    def undone(self, keep: float, epochs: int, partner: str) -> tuple[Model, float]:
        """UNDO's model, and its processor time with that of MATCH-LM."""
        first = self.matched[1]
        model, own = timed(lambda: self.distilled(keep, epochs, partner))
        return model, first + own

    def distilled(self, keep: float, epochs: int, partner: str) -> Model:
        """UNDO: the outputs of MATCH-LM's model, in a mixture of its weights with others."""
        teacher = self.matched[0].eval()
        student = copy.deepcopy(teacher)
        other = copy.deepcopy(self.base)
        if partner == "fresh":
            torch.manual_seed(self.seed)
            draw_again(other)
        with torch.no_grad():
            for p, q in zip(student.parameters(), other.parameters(), strict=True):
                if partner == "base":
                    p.lerp_(q, 1.0 - keep)
                elif p.ndim > 1:
                    p.lerp_(q * (p.norm() / q.norm()), 1.0 - keep)
        texts = self.parts["retain"].texts
        with torch.no_grad():
            wanted = teacher(texts.tokens).log_softmax(dim=-1)
        rows = torch.arange(len(texts))
        inside = torch.arange(texts.tokens.shape[1]) < texts.lengths[:, None] - 1

        def divergence(logits: Tensor, targets: Tensor) -> Tensor:
            kept = inside[targets]
            return (
                F.kl_div(
                    logits.log_softmax(dim=-1)[kept],
                    wanted[targets][kept],
                    log_target=True,
                    reduction="none",
                )
                .sum(dim=-1)
                .mean()
            )

        data = torch.utils.data.TensorDataset(texts.tokens, rows)
        recipe = replace(RECIPE, epochs=epochs)
        return expunge.train(student, data, recipe=recipe, loss=divergence, execution=QUIET).model

    @property
    def candidates(self) -> dict[str, Callable[[], tuple[Model, float]]]:
        """What makes each model, with its processor time."""
        undo = (("base", 0.2, 10), ("base", 0.5, 10), ("fresh", 0.4, 20), ("fresh", 0.7, 10))
        return {
            "before": lambda: (self.before, 0.0),
            "exact, base": lambda: timed(lambda: self.again(Retrain(reference=self.base))),
            "exact, fresh": lambda: timed(lambda: self.again(Retrain())),
            "MATCH-LM": lambda: self.matched,
            "NPO-FOCUS": lambda: timed(lambda: self.request(method="NPO")),
        } | {
            f"UNDO, {partner}, {keep} kept": partial(self.undone, keep, epochs, partner)
            for partner, keep, epochs in undo
        }

    def measured(self, model: Model) -> dict[str, dict[str, float]]:
        """As delivered, after benign steps, and after relearning a tenth."""
        forget, retain = self.parts["forget"], self.parts["retain"]
        tenth = list(range(0, len(forget), 10))
        rest = [k for k in range(len(forget)) if k not in tenth]
        rate = benign_rate(model)
        benign = after_benign_steps(model, retain, lr=rate, seed=self.seed)
        relearned = after_benign_steps(model, forget.subset(tenth), lr=rate, steps=10)
        return {
            "delivered": self._scores(model, forget),
            "benign": self._scores(benign, forget),
            "relearned": self._scores(relearned, forget.subset(rest)),
        }

    def _scores(self, model: Model, forget: TextExamples) -> dict[str, float]:
        own, test, retain = (
            predict_texts(model, part)
            for part in (forget, self.parts["test"], self.parts["retain"])
        )
        shares = {"facts": own, "unseen": test, "retain": retain}
        values = {k: 100.0 * float(p.scores["facts_right"].mean()) for k, p in shares.items()}
        values |= {f"auc_{k}": auc_of(own.scores[k], test.scores[k]) for k in ("facts", "loss")}
        return {name: round(value, 4) for name, value in values.items()}


def trained(model: Model, data: TextSet) -> Model:
    """A copy of a model, trained by the recipe."""
    return expunge.train(model, data, recipe=RECIPE, loss=next_token_loss, execution=QUIET).model


def timed(make: Callable[[], Model]) -> tuple[Model, float]:
    """A model and the processor time that it took."""
    began = time.process_time()
    return make(), time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/requests/texts.jsonl"))
    parser.add_argument("--seeds", default="0,1,2")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = options.out.read_text(encoding="utf-8").splitlines() if options.out.is_file() else []
    done = {(row["name"], row["seed"]) for row in map(json.loads, lines)}
    for seed in map(int, options.seeds.split(",")):
        world = World(seed)
        for name, make in world.candidates.items():
            if (name, seed) in done:
                continue
            _ = world.before  # its training is not part of anybody's time
            model, seconds = make()
            row = {"name": name, "seed": seed, "seconds": round(seconds, 2)}
            row |= world.measured(model)
            print(json.dumps(row), flush=True)
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
