"""DPO and IdkDPO: prefer another answer to the one to forget (Rafailov et al., 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge._kinds import Positive
from expunge.data import Batch, pad_sequences
from expunge.methods._npo import preference_loss
from expunge.methods._problem import Problem
from expunge.methods._token_method import TokenMethod
from expunge.methods._tokens import IGNORED, count_of, sequence_log_likelihood
from expunge.update import Term


@dataclass(frozen=True)
class DPO(TokenMethod):
    """U = -(2/β) E log σ(β(log(π/π₀)(y') - log(π/π₀)(y))), y' preferred to y; C = NLL of retain.

    log(π/π₀) of an answer is a sum over its labelled tokens, π₀ the initial model, frozen in eval
    mode; E is the mean over sequences. Without y' it is NPO. U has a lower bound, 0.

    The preferred answers come with the data, as ``preferred_input_ids``, ``preferred_labels`` and
    what else the model takes, beside ``input_ids`` and ``labels`` of what is to be forgotten:
    :class:`expunge.data.PreferredAnswers` joins two datasets to one of this form. For class
    numbers y' is another class, drawn uniformly at every visit, as in ``random-label``.

    Use it where the model should say something definite instead, which you can write down for
    every record; IdkDPO where a refusal will do.

    Deviation: the factor 2/β is NPO's, for comparable gradients; Rafailov et al. have 1.

    Reference: R. Rafailov et al., *Direct Preference Optimization: Your Language Model is Secretly
    a Reward Model*, NeurIPS 2023 (arXiv 2305.18290), equation (7); for unlearning, P. Maini et al.,
    *TOFU: A Task of Fictitious Unlearning for LLMs*, COLM 2024 (arXiv 2401.06121).
    """

    beta: Positive = 0.1

    averages: ClassVar = "sequences"
    compares_with_initial: ClassVar = True
    needs_answers: ClassVar = True

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        logits, initial = problem.logits(forget), problem.initial_logits(forget)
        now = sequence_log_likelihood(logits, forget.targets)
        then = sequence_log_likelihood(initial, forget.targets)
        if forget.targets.dim() == 1:
            other = _other_classes(problem, forget, logits.shape[-1])
            before = sequence_log_likelihood(initial, other)
            gained = sequence_log_likelihood(logits, other) - before
        else:
            gained = _log_ratio(problem, self.preferred_answers(problem, forget))
        loss = preference_loss(gained - (now - then), self.beta)
        return Term(loss, saliency=-now.sum() / count_of(forget.targets))

    def preferred_answers(self, problem: Problem, forget: Batch) -> Batch:
        """The answers to prefer to those of a forget batch."""
        if forget.preferred is None:
            raise InvalidInput(
                "`dpo` needs an answer to prefer for every sequence to forget: each item should "
                "have `preferred_input_ids` and `preferred_labels`, as those of "
                "expunge.data.PreferredAnswers do. (got none) Where a refusal will do, take "
                "IdkDPO; without any answer, NPO."
            )
        return forget.preferred


@dataclass(frozen=True)
class IdkDPO(DPO):
    """U = DPO's, y' a refusal such as "I don't know" after the prompt of y; C = NLL of retain.

    ``refusals`` are token ids, an end of sequence included if the model should stop there:
    ``IdkDPO(refusals=[tokenizer("I don't know.").input_ids])``. One of them is drawn uniformly at
    every visit of a sequence, and put behind its prompt: all tokens before the first labelled one.
    For class numbers it is DPO.

    Use it where the model should decline to answer; what it says instead is the same for all.

    Reference: P. Maini et al., *TOFU: A Task of Fictitious Unlearning for LLMs*, COLM 2024 (arXiv
    2401.06121).
    """

    refusals: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        answers = tuple(tuple(int(token) for token in answer) for answer in self.refusals)
        if not all(answers):
            raise InvalidInput("A refusal should have at least one token. (got an empty one)")
        object.__setattr__(self, "refusals", answers)

    def preferred_answers(self, problem: Problem, forget: Batch) -> Batch:
        if not self.refusals:
            raise InvalidInput(
                "`idk-dpo` needs the tokens of one or more refusals, such as "
                'IdkDPO(refusals=[tokenizer("I don\'t know.").input_ids]). (got none)'
            )
        chosen = problem.draw(len(self.refusals), forget.targets[:, 0], forget.share)
        answers = [self.refusals[k] for k in chosen.tolist()]
        return answered(forget, answers)


def answered(forget: Batch, answers: list[tuple[int, ...]]) -> Batch:
    """The prompts of a batch, each with another answer, padded on the right."""
    known = ("input_ids", "attention_mask")
    inputs = forget.inputs if isinstance(forget.inputs, Mapping) else {"input_ids": forget.inputs}
    if "input_ids" not in inputs or not set(inputs) <= set(known):
        raise InvalidInput(
            "`idk-dpo` can put another answer behind `input_ids` with an `attention_mask`. "
            f"(got {', '.join(inputs)}) Give the answers with the data, and take DPO."
        )
    mask = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"]))
    rows = []
    for k, answer in enumerate(answers):
        new = torch.tensor(answer).to(forget.targets)
        start = _first_label(forget.targets[k])
        prompt = inputs["input_ids"][k, :start]
        rows.append(
            {
                "input_ids": torch.cat([prompt, new.to(prompt)]),
                "labels": torch.cat([torch.full_like(prompt, IGNORED), new]),
                "attention_mask": torch.cat([mask[k, :start], torch.ones_like(new).to(mask)]),
            }
        )
    padded = pad_sequences(rows)
    if not isinstance(forget.inputs, Mapping):
        return Batch(padded["input_ids"], padded["labels"], forget.split, forget.share)
    given = {name: padded[name] for name in inputs}
    return Batch(given, padded["labels"], forget.split, forget.share)


def _first_label(labels: Tensor) -> int:
    """The position of the first labelled token [T]; a sequence without any is all prompt."""
    positions = (labels != IGNORED).nonzero()
    return int(positions[0]) if len(positions) else len(labels)


def _log_ratio(problem: Problem, batch: Batch) -> Tensor:
    """log(π/π₀) of each sequence [B]."""
    now = sequence_log_likelihood(problem.logits(batch), batch.targets)
    return now - sequence_log_likelihood(problem.initial_logits(batch), batch.targets)


def _other_classes(problem: Problem, forget: Batch, classes: int) -> Tensor:
    draws = problem.draw(classes - 1, forget.targets, forget.share)
    return (forget.targets + 1 + draws) % classes
