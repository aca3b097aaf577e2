"""The one declaration of what decides a run, and those who read it."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

import expunge
from expunge import InvalidInput
from expunge.engine import Procedure
from expunge.engine._procedure import PLAIN_OPTIONS
from expunge.methods import METHODS

PREFERABLE = {"aggregate", "epochs", "batch_size", "lr", "schedule", "batchnorm", "augmented"}
"""Options that a method may prefer otherwise: None in the signature of ``unlearn``."""


def test_unlearn_takes_every_option_with_its_default() -> None:
    parameters = inspect.signature(expunge.unlearn).parameters
    for item in fields(Procedure):
        expected = None if item.name in PREFERABLE else item.default
        assert parameters[item.name].default == expected, item.name
    nothing = dict.fromkeys(item.name for item in fields(Procedure))
    assert Procedure.from_arguments(nothing) == Procedure()


def test_a_method_prefers_its_own_options_unless_others_are_chosen() -> None:
    nothing = dict.fromkeys(item.name for item in fields(Procedure))
    preferred = Procedure.from_arguments(nothing | {"method": "match-unseen"})
    assert preferred.aggregate == expunge.Linear(0.5, 0.5)
    assert (preferred.batchnorm, preferred.schedule) == ("frozen", "linear")
    assert preferred == Procedure.from_plain({"method": "match-unseen"})
    chosen = Procedure.from_plain({"method": "match-unseen", "lr": 0.1, "alpha": 0.2})
    assert chosen.lr == 0.1
    assert chosen.aggregate == expunge.Linear(alpha=0.2)
    assert chosen.schedule == "linear"


@pytest.mark.parametrize("method", list(METHODS))
def test_what_a_method_prefers_are_options(method: str) -> None:
    known = PREFERABLE | {"alpha", "beta"}
    assert set(METHODS[method].preferred) <= known


def test_a_procedure_goes_through_its_arguments_unchanged() -> None:
    procedure = Procedure(method="SCRUB", addon="PROB", epochs=3, micro_batches=2)
    assert Procedure(**procedure.arguments()) == procedure


def test_none_among_the_arguments_stands_for_the_default() -> None:
    arguments: dict[str, Any] = Procedure(epochs=3).arguments() | {"lr": None, "seed": 7}
    assert Procedure.from_arguments(arguments) == Procedure(epochs=3)


def test_plain_values_name_parts_and_their_options() -> None:
    made = Procedure.from_plain(
        {"method": "SRL", "addon": "PROB", "moments": "published", "p": 0.4, "alpha": 0.2}
    )
    assert made.addon == expunge.Prob(moments="published", p=0.4)
    assert made.aggregate == expunge.Linear(alpha=0.2)
    assert Procedure.from_plain({each.name: each.default for each in PLAIN_OPTIONS}) == Procedure()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"addon": "AND", "moments": "adam"}, "`moments` does not apply to the add-on AND"),
        ({"aggregate": "min-abs", "alpha": 0.1}, "apply to the aggregation linear"),
        ({"moments": "adan"}, "Unknown moments 'adan'"),
        ({"epochs": 0}, r"`epochs` should be a whole number, at least 1. \(got 0\)"),
        ({"lr": float("inf")}, r"`lr` should be finite. \(got inf\)"),
        ({"batchnorm": "off"}, "`batchnorm` should be one of published, retain-only, frozen"),
    ],
)
def test_plain_values_that_cannot_be_used_are_refused(
    values: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Procedure.from_plain(values)


def test_a_checkpoint_is_bound_to_choices_and_not_to_how_long_or_where() -> None:
    choices = Procedure().lasting_choices()
    assert set(choices) == {"method", "addon", "aggregate", "batchnorm", "strict"}
    later = Procedure(precision="bf16", offload=True, epochs=3).lasting_choices()
    assert set(later) - set(choices) == {"precision"}
