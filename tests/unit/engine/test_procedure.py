"""The one declaration of what decides a run, and those who read it."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

import expunge
from expunge import InvalidInput
from expunge.engine import Procedure
from expunge.engine._procedure import PLAIN_OPTIONS
from expunge.methods import METHODS
from tests import tiny

PREFERABLE = {
    *("aggregate", "epochs", "batch_size", "lr", "schedule", "batchnorm", "augment_splits"),
}
"""Options that a method may prefer otherwise."""


def test_unlearn_has_a_short_signature_and_a_place_for_every_option() -> None:
    parameters = inspect.signature(expunge.unlearn).parameters
    assert len(parameters) <= 14
    for item in fields(Procedure):
        if item.name in parameters and item.name != "method":
            assert parameters[item.name].default is None, item.name
    assert Procedure.preferred() == Procedure()


def test_what_is_given_besides_a_procedure_replaces_its_value() -> None:
    seen = []

    class Note(expunge.Callback):
        def on_start(self, run: expunge.engine.Run) -> None:
            seen.append(run.procedure)

    procedure = Procedure("SCRUB", addon="AND", epochs=3, batch_size=4, strict=True)
    tiny.unlearn(
        tiny.Counting(),
        forget=tiny.points(8),
        retain=tiny.points(8, 1),
        method=procedure,
        epochs=1,
        callbacks=[Note()],
        progress=False,
    )
    assert seen == [replace(procedure, epochs=1)]


def test_a_run_too_short_to_forget_anything_says_so() -> None:
    data = {"forget": tiny.points(8), "retain": tiny.points(8, 1), "progress": False}
    with pytest.warns(UserWarning, match=r"moves a weight by 0.001 at most .*steps: 10"):
        tiny.unlearn(tiny.Counting(), **data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tiny.unlearn(tiny.Counting(), **data, batch_size=1)
        tiny.unlearn(tiny.Counting(), **data, method="fisher-noise")
        tiny.unlearn(tiny.Counting(), **data, optimizer=torch.optim.SGD)


def test_a_method_prefers_its_own_options_unless_others_are_chosen() -> None:
    preferred = Procedure.preferred(method="match-unseen")
    assert preferred.aggregate == expunge.WeightedSum(0.5, 0.5)
    assert (preferred.batchnorm, preferred.schedule) == ("frozen", "linear")
    assert preferred == Procedure.from_plain({"method": "match-unseen"})
    chosen = Procedure.from_plain({"method": "match-unseen", "lr": 0.1, "alpha": 0.2})
    assert chosen.lr == 0.1
    assert chosen.aggregate == expunge.WeightedSum(0.2, 0.5), "the other weight is the method's"
    assert chosen.schedule == "linear"


def test_a_method_without_a_constraint_has_no_use_for_an_addon_that_compares_gradients() -> None:
    assert Procedure.preferred(method="GA").label == "GA"
    assert Procedure.preferred(method="GA", addon="saliency").label == "GA-SalUn"
    with pytest.warns(UserWarning, match="GA has no constraint, so the add-on FOCUS changes noth"):
        assert Procedure.preferred(method="GA", addon="FOCUS").label == "GA"


@pytest.mark.parametrize("method", list(METHODS))
def test_what_a_method_prefers_are_options(method: str) -> None:
    known = PREFERABLE | {"alpha", "beta"}
    assert set(METHODS[method].preferred) <= known


def test_plain_values_name_parts_and_their_options() -> None:
    made = Procedure.from_plain(
        {"method": "SRL", "addon": "PROB", "moments": "published", "p": 0.4, "alpha": 0.2}
    )
    assert made.addon == expunge.Prob(moments="published", p=0.4)
    assert made.aggregate == expunge.WeightedSum(alpha=0.2)
    assert Procedure.from_plain({each.name: each.default for each in PLAIN_OPTIONS}) == Procedure()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"addon": "AND", "moments": "adam"}, "`moments` does not apply to the add-on AND"),
        ({"aggregate": "min-abs", "alpha": 0.1}, "apply to the aggregation linear"),
        ({"moments": "adan"}, "Unknown moments 'adan'"),
        ({"epochs": 0}, r"`epochs` should be a whole number, at least 1. \(got 0\)"),
        ({"lr": float("inf")}, r"`lr` should be positive and finite. \(got inf\)"),
        ({"batchnorm": "off"}, "`batchnorm` should be one of published, retain-only, frozen"),
    ],
)
def test_plain_values_that_cannot_be_used_are_refused(
    values: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Procedure.from_plain(values)


def test_a_checkpoint_is_bound_to_choices_and_not_to_how_long_or_where() -> None:
    choices = Procedure().checkpoint_bound_options()
    how_long = {"epochs", "batch_size", "lr"}
    assert set(choices) == {field.name for field in fields(Procedure)} - how_long
    assert Procedure(epochs=3).checkpoint_bound_options() == choices
    assert Procedure(augment_splits="none").checkpoint_bound_options() != choices
    execution = expunge.Execution(precision="bf16", device="cpu", progress=False)
    bound = {"precision": "torch.bfloat16", "micro_batches": 1}
    assert execution.checkpoint_bound_options() == bound
