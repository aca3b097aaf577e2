"""Does what a language model was made to forget come back?

    python benchmarks/text_returns.py [--seeds 0,1,2,3,4] [--out results/requests/texts.jsonl]
    python docs/_site/request_tables.py        # the rows, as the table of the documents

A world is an invented corpus. A transformer of 64 features and two layers learns 60 people, three
questions about each: its base checkpoint. Fine-tuned to 60 others by :data:`RECIPE`, it knows these
by heart. All 24 records of eight of them are to be forgotten. Every model is measured as delivered;
with matrices rounded to 4 bits; after 10 and 50 benign steps, as the verdict of a request takes
them; after 50 steps on retained records and a tenth of the forgotten ones, of which the other nine
tenths are measured; and by sampled answers:

- ``facts``: how many of the tokens that carry the facts are right, in percent; of ``unseen``
  records and of ``retain`` records as well. Of sampled answers, how many of these tokens are in at
  least one of 16, drawn at temperature 1;
- ``auc_facts``, ``auc_loss``: attacks that guess from the probability of these tokens, and of the
  whole answers.

UNDO is MATCH-LM, then a mixture of its model with fresh weights, as ``refresh`` makes it, then
distillation: it learns the outputs of MATCH-LM's model on retained records, not their labels (B. W.
Lee et al., *Distillation Robustifies Unlearning*, 2025).

``seconds`` is processor time. A row that the file has, with all of its moments, is not computed
again.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import expunge
from expunge.data import TextSet, WordTokenizer, invent_corpus
from expunge.data.text import IGNORED, TextExamples, stratify
from expunge.evaluation import after_benign_steps, benign_rate, predict_texts
from expunge.evaluation._statistics import auc_of
from expunge.evaluation.text._measures import fact_tokens
from expunge.methods import Refresh, Retrain, next_token_loss
from expunge.methods._scrub import kl_divergence
from expunge.methods._tokens import labelled
from expunge.models import SmallTransformer
from expunge.request._forgetting import forget_records
from expunge.request._job import make_job, text_defaults
from expunge.request.subject._texts import make_text_subject
from expunge.update import Term
from text_requests import PEOPLE, TOPICS, chosen

RECIPE = expunge.Recipe(
    epochs=30, batch_size=32, lr=3e-3, weight_decay=0.01, schedule="one-cycle", algorithm="adamw"
)
WHOLE: Any = {"budget": 1.0, "rate": 1.0}
"""Refresh and UNDO train by the whole recipe: facts that are retained have to be learnt again."""
QUIET = expunge.Execution(progress=False)
Model = nn.Module


@dataclass(frozen=True)
class Undo(Refresh):
    """Mix as refresh does; then U = KL(p₀ ‖ p) over the retained tokens, p₀ of the given model."""

    @property
    def needs_initial(self) -> bool:
        return True

    def objective(self, problem: Any, forget: Any, retain: Any) -> Term:
        pair = problem.initial_logits(retain), problem.logits(retain)
        return Term(kl_divergence(*(labelled(each, retain.targets) for each in pair)))


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
        """The records to forget, those retained, both together, and test."""
        train, _, test = stratify(*(self.sets[name] for name in ("train", "val", "test")))
        ids = self.ids
        rest = sorted(set(range(len(train))) - set(ids))
        parts = {"forget": train.subset(ids), "retain": train.subset(rest)}
        return parts | {"train": train, "test": test}

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

    def again(self, method: Any, model: Model | None = None, seed: int = 0) -> Model:
        """Training again on what is retained."""
        forget, retain = self.parts["forget"], self.parts["retain"]
        return expunge.unlearn(
            model or self.before,
            forget=forget,
            retain=retain,
            method=method,
            optimizer=RECIPE,
            loss=next_token_loss,
            execution=expunge.Execution(progress=False, seed=seed),
        ).model

    def undone(self, keep: float) -> tuple[Model, float]:
        """UNDO's model, from that of MATCH-LM, and the processor time of both."""
        model, first = self.matched
        distilled, own = timed(lambda: self.again(Undo(keep, **WHOLE), model))
        return distilled, first + own

    @property
    def candidates(self) -> dict[str, Callable[[], tuple[Model, float]]]:
        """What makes each model, with its processor time."""
        start = Retrain(reference=self.base)
        return {
            "full": lambda: (self.before, 0.0),
            "NPO-FOCUS": lambda: timed(lambda: self.request(method="NPO")),
            "MATCH-LM": lambda: self.matched,
            "refresh, 0.3 kept": lambda: timed(lambda: self.again(Refresh(0.3, **WHOLE))),
            "refresh, 0.1 kept": lambda: timed(lambda: self.again(Refresh(0.1, **WHOLE))),
            "MATCH-LM, then UNDO, 0.3 kept": lambda: self.undone(0.3),
            "MATCH-LM, then UNDO, 0.1 kept": lambda: self.undone(0.1),
            "exact": lambda: timed(lambda: self.again(start)),
            "retrained": lambda: timed(lambda: self.again(start, seed=1)),
        }

    def measured(self, model: Model) -> dict[str, dict[str, float]]:
        """The scores at every moment."""
        forget, retain = self.parts["forget"], self.parts["retain"]
        tenth = list(range(0, len(forget), 10))
        rest = [k for k in range(len(forget)) if k not in tenth]
        mixed = self.parts["train"].subset(
            [k for k in range(len(self.parts["train"])) if k not in {self.ids[j] for j in rest}]
        )
        steps = partial(after_benign_steps, model, lr=benign_rate(model))
        return {
            "delivered": self._scores(model, forget),
            "int4": self._scores(rounded(model), forget),
            "benign_10": self._scores(steps(retain, steps=10, seed=self.seed), forget),
            "benign_50": self._scores(steps(retain, seed=self.seed), forget),
            "relearned": self._scores(steps(mixed, seed=self.seed), forget.subset(rest)),
            "sampled": {"facts": round(100.0 * sampled_facts(model, forget.texts), 4)},
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


@torch.no_grad()
def rounded(model: Model, bits: int = 4) -> Model:
    """A copy whose matrices are rounded to whole multiples of a scale for each of their rows."""
    copied, most = copy.deepcopy(model), 2 ** (bits - 1) - 1
    for p in copied.parameters():
        if p.ndim > 1:
            scale = p.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / most
            p.copy_((p / scale).round().clamp(-most - 1, most) * scale)
    return copied


@torch.inference_mode()
def sampled_facts(model: Model, data: TextSet, samples: int = 16) -> float:
    """The mean share of a record's facts that at least one of its sampled answers has."""
    generator, facts, shares = torch.Generator().manual_seed(0), fact_tokens(data), []
    model.eval()
    for row, labels in enumerate(data.labels):
        answered = labels != IGNORED
        rows = data.tokens[row, : int(answered.long().argmax())].repeat(samples, 1)
        for _ in range(int(answered.sum())):
            p = model(rows)[:, -1].softmax(dim=-1)
            rows = torch.cat([rows, torch.multinomial(p, 1, generator=generator)], dim=1)
        said = rows[:, -int(answered.sum()) :]
        shares.append(float(torch.isin(labels[facts[row]], said).double().mean()))
    return sum(shares) / len(shares)


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
    parser.add_argument("--seeds", default="0,1,2,3,4")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = options.out.read_text(encoding="utf-8").splitlines() if options.out.is_file() else []
    done = {(row["name"], row["seed"]) for row in map(json.loads, lines) if "sampled" in row}
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
