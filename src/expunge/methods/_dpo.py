"""DPO: prefer another answer to the one to forget (Rafailov et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from expunge._errors import InvalidInput
from expunge._kinds import Positive
from expunge.methods._npo import preference_loss
from expunge.methods._token_method import Batch, Problem, Term, TokenMethod
from expunge.methods._tokens import count_of, sequence_log_likelihood


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
    every record; with a refusal such as "I don't know" for all of them, it is TOFU's IdkDPO.

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
            draws = problem.draw(logits.shape[-1] - 1, forget.targets, forget.share)
            other = (forget.targets + 1 + draws) % logits.shape[-1]
            before = sequence_log_likelihood(initial, other)
            gained = sequence_log_likelihood(logits, other) - before
        elif forget.preferred is not None:
            other = forget.preferred.targets
            gained = sequence_log_likelihood(problem.logits(forget.preferred), other)
            before = sequence_log_likelihood(problem.initial_logits(forget.preferred), other)
            gained = gained - before
        else:
            raise InvalidInput(
                "`dpo` needs an answer to prefer for every sequence to forget: each item should "
                "have `preferred_input_ids` and `preferred_labels`, as those of "
                "expunge.data.PreferredAnswers do. (got none) Without any answer, take NPO."
            )
        loss = preference_loss(gained - (now - then), self.beta)
        return Term(loss, saliency=-now.sum() / count_of(forget.targets))
