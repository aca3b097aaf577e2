"""DPO: prefer another answer to the one to forget (Rafailov et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from expunge._errors import InvalidInput
from expunge._kinds import Positive
from expunge.methods._npo import log_ratio, preference_loss
from expunge.methods._random_label import other_classes
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
        logits = problem.logits(forget)
        now = sequence_log_likelihood(logits, forget.targets)
        if forget.targets.dim() == 1:
            drawn = other_classes(problem, forget, logits.shape[-1])
            preferred, answered = forget._replace(targets=drawn), logits
        elif forget.preferred is not None:
            preferred, answered = forget.preferred, problem.logits(forget.preferred)
        else:
            raise InvalidInput(
                "`dpo` needs an answer to prefer for every sequence to forget: each item should "
                "have `preferred_input_ids` and `preferred_labels`, as those of "
                "expunge.data.PreferredAnswers do. (got none) Without any answer, take NPO."
            )
        likely = sequence_log_likelihood(answered, preferred.targets)
        gained = log_ratio(problem, preferred, likely) - log_ratio(problem, forget, now)
        loss = preference_loss(gained, self.beta)
        return Term(loss, saliency=-now.sum() / count_of(forget.targets))
