from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from expunge._errors import InvalidInput
from expunge.engine import Recipe
from expunge.methods import Retrain
from expunge.request._job import make_job
from expunge.update import AdamMoments, PublishedMoments


def test_bad_values_in_python_are_named():
    with pytest.raises(InvalidInput, match=r"batch_size: .*\(got 0\)"):
        make_job(weights="w", out="o", batch_size=0)


def test_a_suggestion_ends_as_a_question():
    with pytest.raises(InvalidInput, match=r"Did you mean 'refresh'\? \(got 'refrsh'\)"):
        make_job(weights=Path("a"), out=Path("o"), method="refrsh")


def test_the_addon_gets_its_moments():
    job = make_job(weights="w", out="o", addon="FOCUS", method="SRL")
    assert isinstance(job.procedure.addon.moment_estimator, AdamMoments)
    other = make_job(weights="w", out="o", addon="FOCUS", method="SRL", moments="published")
    assert isinstance(other.procedure.addon.moment_estimator, PublishedMoments)
    assert make_job(weights="w", out="o", addon="none").procedure.addon.moment_estimator is None


def test_a_method_that_trains_again_takes_no_addon():
    with pytest.raises(InvalidInput, match="such as SRL"):
        make_job(weights="w", out="o", addon="FOCUS")


def test_the_recipe_decides_what_the_job_does_not_say():
    recipe = Recipe(epochs=30, batch_size=32, lr=0.05)
    plain = make_job(weights="w", out="o").procedure_by(recipe)
    assert (plain.epochs, plain.batch_size, plain.lr) == (6, 32, 0.05)
    chosen = make_job(weights="w", out="o", lr=0.1, budget=0.5, max_epochs=9).procedure_by(recipe)
    assert (chosen.epochs, chosen.batch_size, chosen.lr) == (9, 32, 0.1)
    exact = make_job(weights="w", out="o", exact=True).procedure_by(recipe)
    assert exact.epochs == 30


def test_a_job_that_was_written_takes_the_same_recipe():
    recipe = Recipe(epochs=30, batch_size=32, lr=0.05)
    job = make_job(weights="w", out="o")
    again = make_job(**job.model_dump(exclude_none=True))
    assert again.procedure_by(recipe) == job.procedure_by(recipe)


def test_a_budget_is_that_of_refresh():
    with pytest.raises(InvalidInput, match="`budget` is that of the method refresh"):
        make_job(weights="w", out="o", method="SRL", budget=0.3)


def test_what_makes_no_recipe_is_refused():
    with pytest.raises(InvalidInput, match=r"recipe.*epochs"):
        make_job(weights="w", out="o", recipe={"epochs": 0})
    with pytest.raises(InvalidInput, match="recipe"):
        make_job(weights="w", out="o", recipe={"rounds": 3})


def test_a_checkpoint_to_start_from_goes_with_training_again():
    with pytest.raises(InvalidInput, match="`base` is where training again starts"):
        make_job(weights="w", out="o", base="base.safetensors")
    job = make_job(weights="w", out="o", data="qa:texts", exact=True, base="base.safetensors")
    recipe = Recipe(epochs=3, batch_size=8, lr=0.01)
    procedure = job.procedure_by(recipe)
    assert procedure.method == Retrain(reference="base.safetensors")
    assert (procedure.epochs, procedure.batch_size, procedure.lr) == (3, 8, 0.01)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"received": "18.11.2026"}, "received: should be a day, such as 2025-11-18"),
        ({"received": "2999-01-01"}, "should not be in the future"),
        ({"derived": [{"name": "bot", "kind": "copied"}]}, "derived.0.kind"),
        ({"derived": [{"kind": "deployed"}]}, "`derived.0.name` should be given"),
    ],
)
def test_what_the_record_states_is_checked(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)):
        make_job(weights=Path("w.safetensors"), out=Path("out"), **values)
