"""A method for language models is a forget loss with a retain loss."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from expunge import Batch, InvalidInput, Problem, Term
from expunge._serialisation import describe, rebuild
from expunge.methods import METHODS, NPO, GradientDifference, RetainNLL, SimNPO, TokenMethod
from expunge.methods._tokens import count_of
from tests.unit.methods.token_worlds import FORGET, RETAIN


@pytest.mark.parametrize("name", [n for n in METHODS if issubclass(METHODS[n], TokenMethod)])
def test_names_and_parts_say_the_same(name: str) -> None:
    method = METHODS[name](retain="kl")
    assert rebuild(describe(method)) == method
    assert METHODS[name](retain=method.retain) == method
    assert method.needs_initial
    assert hash(method) == hash(METHODS[name](retain="KL"))


def test_a_retain_loss_that_is_the_default_leaves_no_trace_in_keys() -> None:
    """Results of before there was a choice keep their keys."""
    assert describe(NPO())["fields"] == {"beta": 0.1}
    assert describe(GradientDifference(retain="nll"))["fields"] == {}


def test_means_over_sequences_and_over_tokens_count_differently() -> None:
    assert SimNPO().size("objective", FORGET) == len(FORGET.targets)
    assert SimNPO().size("saliency", FORGET) == count_of(FORGET.targets)
    assert GradientDifference().size("objective", FORGET) == count_of(FORGET.targets)
    assert NPO(retain="activations").size("constraint", RETAIN) == len(RETAIN.targets)


def test_what_is_no_retain_loss_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Unknown retain loss 'nil'"):
        NPO(retain="nil")
    with pytest.raises(InvalidInput, match=r"`retain` should be a name.*\(got 3\)"):
        NPO(retain=3)
    with pytest.raises(TypeError, match="has no constraint"):
        NPO(retain="none").constraint(None, FORGET, RETAIN)


@dataclass(frozen=True)
class Shrink(TokenMethod):
    """A forget loss of one's own."""

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        return Term(problem.logits(forget).square().mean())


def test_a_forget_loss_of_ones_own_needs_one_function() -> None:
    assert Shrink().retain == RetainNLL()
    assert Shrink().constrained
    with pytest.raises(TypeError, match="should define `forget_loss`"):
        TokenMethod().forget_loss(None, FORGET)
