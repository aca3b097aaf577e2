"""Does what a language model was made to forget come back?

    python benchmarks/text_returns.py [--kinds words,subwords,tofu-mini] [--seeds 0,1,2,3,4]
    python docs/_site/request_tables.py        # the rows, as the tables of the documents

A world is an invented corpus and a model that knows its people by heart; :data:`KINDS` has three
kinds. All records of some of the people are to be forgotten. Every model is measured as delivered,
after 10 and 50 benign steps, and under the attacks of a verdict: after relearning a tenth, of which
the other nine tenths are measured, with weights rounded to 4 bits, and by sampled answers:

- ``facts``: how many of the tokens that carry the facts are right, in percent; of ``unseen``
  records and of ``retain`` records as well. Of sampled answers, how many of these tokens are in at
  least one of 16, drawn at temperature 1;
- ``auc_facts``: the attack that guesses from the probability of these tokens.

UNDO is MATCH-LM, then a mixture of its model with fresh weights, as ``refresh`` makes it, then
distillation: it learns the outputs of MATCH-LM's model on retained records, not their labels (B. W.
Lee et al., *Distillation Robustifies Unlearning*, 2025).

``seconds`` is processor time. A row that the file ``--out`` has is not computed again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import expunge
from expunge.data import PretrainedTokenizer, TextSet, WordTokenizer, invent_corpus
from expunge.data.text import TextExamples, stratify
from expunge.evaluation import (
    FactMoment,
    FactScores,
    after_benign_steps,
    attack_facts,
    auc_of,
    benign_rate,
)
from expunge.evaluation.text._robustness import fact_scores
from expunge.methods import Refresh, Retrain, next_token_loss
from expunge.methods._scrub import kl_divergence
from expunge.methods._tokens import labelled
from expunge.models import SmallTransformer
from expunge.request._forgetting import forget_records
from expunge.request._job import make_job, text_defaults
from expunge.request.loading._texts import model_and_texts_of
from expunge.update import Term
from text_requests import PEOPLE

sys.path.append(str(Path(__file__).parents[1]))
from tests.unit.data.text.pretrained import subwords

NAMES: dict[FactMoment, str] = {
    "after relearning a tenth": "relearned",
    "with 4-bit weights": "int4",
    "in sampled answers": "sampled",
}
WHOLE: Any = {"budget": 1.0, "rate": 1.0}
"""Refresh and UNDO train by the whole recipe: facts that are retained have to be learnt again."""
FRONTIER = {
    "refresh, 0.3 kept": Refresh(0.3, **WHOLE),
    "refresh, 0.1 kept, a third of the epochs": Refresh(0.1, budget=1 / 3, rate=1.0),
    "refresh, 0.3 kept, a third of the epochs": Refresh(0.3, budget=1 / 3, rate=1.0),
}
"""What else was tried of it, in the worlds that cost least."""
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


@dataclass(frozen=True)
class Kind:
    """A kind of world: its corpus, its model and how that is trained.

    Where there is a ``base``, the model first learns as many other people, as its base checkpoint.
    """

    topics: int
    forgotten: int
    """People to forget, of 60."""
    recipe: expunge.Recipe
    make: Callable[[int, int], Model]
    """A fresh model, from the sizes of vocabulary and context."""
    base: bool = True
    subwords: int = 0
    """The size of a vocabulary of subwords; 0 is a token per word."""


def llama(vocabulary: int, context: int) -> Model:
    """A Llama of 0.2 million weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=context,
    )
    return LlamaForCausalLM(config)


RECIPE = expunge.Recipe(
    epochs=30, batch_size=32, lr=3e-3, weight_decay=0.01, schedule="one-cycle", algorithm="adamw"
)
KINDS = {
    "words": Kind(3, 8, RECIPE, partial(SmallTransformer, width=64, layers=2)),
    "subwords": Kind(3, 8, RECIPE, llama, subwords=600),
    "tofu-mini": Kind(
        6,
        6,
        replace(RECIPE, epochs=24, lr=2e-3),
        partial(SmallTransformer, width=168, layers=3, heads=4),
        base=False,
    ),
}
"""A token per word and 64 features; a Llama of subwords; model, recipe and people of ``bench run
tofu-mini``, trained from scratch."""


@dataclass
class World:
    """A corpus and the models that were trained on it."""

    seed: int
    name: str = "words"

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]

    @cached_property
    def sets(self) -> dict[str, TextSet]:
        """Records of the base checkpoint, and train, val and test, in rows of one width."""
        topics = self.kind.topics
        corpus = invent_corpus(people=2 * PEOPLE, unseen=PEOPLE, topics=topics, seed=self.seed)
        half = PEOPLE * topics
        parts = {
            "base": corpus.people[:half],
            "train": corpus.people[half:],
            "val": corpus.unseen[::2],
            "test": corpus.unseen[1::2],
        }
        words: Any = WordTokenizer.of(corpus.every_record)
        if self.kind.subwords:
            texts = [f"{record.question} {record.answer}" for record in corpus.every_record]
            words = PretrainedTokenizer(subwords("llama-2", texts, size=self.kind.subwords), "q-a")
        sets = {name: TextSet(part, words) for name, part in parts.items()}
        width = max(part.tokens.shape[1] for part in sets.values())
        return {name: part.padded_to(width) for name, part in sets.items()}

    @cached_property
    def parts(self) -> dict[str, TextExamples]:
        """The records to forget, those retained, both together, and test."""
        train, _, test = stratify(*(self.sets[name] for name in ("train", "val", "test")))
        people = np.random.default_rng(self.seed).choice(PEOPLE, self.kind.forgotten, replace=False)
        topics = self.kind.topics
        ids = sorted(int(p) * topics + k for p in people for k in range(topics))
        rest = sorted(set(range(len(train))) - set(ids))
        parts = {"forget": train.subset(ids), "retain": train.subset(rest)}
        return parts | {"train": train, "test": test}

    @cached_property
    def base(self) -> Model:
        """The checkpoint that never saw any of the people of train: fresh, if there is none."""
        torch.manual_seed(self.seed)
        train = self.sets["train"]
        fresh = self.kind.make(train.tokenizer.size, train.tokens.shape[1])
        return self.trained(fresh, "base") if self.kind.base else fresh

    @cached_property
    def before(self) -> Model:
        """The base checkpoint, fine-tuned to all of train."""
        return self.trained(self.base, "train")

    def trained(self, model: Model, part: str) -> Model:
        """A copy of a model that learnt a part by the recipe."""
        return trained(model, self.sets[part], self.kind.recipe)

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
        loaded = model_and_texts_of(self.before, sets, job)
        forget, retain = self.parts["forget"], self.parts["retain"]
        return forget_records(job, loaded, forget, retain, progress=False).model

    def again(self, method: Any, model: Model | None = None, seed: int = 0) -> Model:
        """Training again on what is retained."""
        forget, retain = self.parts["forget"], self.parts["retain"]
        return expunge.unlearn(
            model or self.before,
            forget=forget,
            retain=retain,
            method=method,
            optimizer=self.kind.recipe,
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
        start = Retrain(reference=self.base) if self.kind.base else Retrain()
        frontier = FRONTIER if self.name == "words" else {}
        return {
            "full": lambda: (self.before, 0.0),
            "NPO-FOCUS": lambda: timed(lambda: self.request(method="NPO")),
            "MATCH-LM": lambda: self.matched,
            "refresh, 0.1 kept": lambda: timed(lambda: self.again(Refresh(0.1, **WHOLE))),
            **{name: partial(timed, partial(self.again, each)) for name, each in frontier.items()},
            "MATCH-LM, then UNDO, 0.1 kept": lambda: self.undone(0.1),
            "exact": lambda: timed(lambda: self.again(start)),
            "retrained": lambda: timed(lambda: self.again(start, seed=1)),
        }

    def measured(self, model: Model) -> dict[str, dict[str, float]]:
        """The scores at every moment."""
        forget, retain, test = (self.parts[name] for name in ("forget", "retain", "test"))
        steps = partial(after_benign_steps, model, retain, lr=benign_rate(model), seed=self.seed)
        scores: dict[str, FactScores] = {
            "delivered": fact_scores(model, forget, test),
            "benign_10": fact_scores(steps(steps=10), forget, test),
            "benign_50": fact_scores(steps(), forget, test),
        }
        attacked = attack_facts(model, forget, test, retain, seed=self.seed)
        scores |= {NAMES[moment]: each for moment, each in attacked.items()}
        rows = {}
        for name, each in scores.items():
            shares = zip(("facts", "unseen"), each["facts_right"], strict=True)
            rows[name] = {key: round(100.0 * float(share.mean()), 4) for key, share in shares}
            if "facts" in each:
                rows[name]["auc_facts"] = round(auc_of(*each["facts"]), 4)
        kept = fact_scores(model, retain, test)["facts_right"][0]
        rows["delivered"]["retain"] = round(100.0 * float(kept.mean()), 4)
        return rows


def trained(model: Model, data: TextSet, recipe: expunge.Recipe = RECIPE) -> Model:
    """A copy of a model, trained by a recipe."""
    return expunge.train(model, data, recipe=recipe, loss=next_token_loss, execution=QUIET).model


def timed(make: Callable[[], Model]) -> tuple[Model, float]:
    """A model and the processor time that it took."""
    began = time.process_time()
    return make(), time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/requests/texts.jsonl"))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seeds", default="0,1,2,3,4")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = options.out.read_text(encoding="utf-8").splitlines() if options.out.is_file() else []
    done = {(row["kind"], row["name"], row["seed"]) for row in map(json.loads, lines)}
    for seed, kind in itertools.product(options.seeds.split(","), options.kinds.split(",")):
        world = World(int(seed), kind)
        for name, make in world.candidates.items():
            if (kind, name, world.seed) in done:
                continue
            _ = world.before  # its training is not part of anybody's time
            model, seconds = make()
            row = {"kind": kind, "name": name, "seed": world.seed, "seconds": round(seconds, 2)}
            row |= world.measured(model)
            print(json.dumps(row), flush=True)
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
