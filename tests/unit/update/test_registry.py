"""Add-ons, aggregations and moments as configuration: frozen, hashable, named, checked."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from expunge._errors import InvalidInput
from expunge.update import (
    ADDONS,
    AGGREGATES,
    MOMENTS,
    AdamMoments,
    Addon,
    And,
    Bernoulli,
    Focus,
    MinAbs,
    NoAddon,
    Optimal,
    PrimalDual,
    Prob,
    PublishedMoments,
    Rectified,
    Saliency,
    SampleMoments,
    SignGated,
    Update,
    WeightedSum,
)

PARTS = [
    NoAddon(),
    Saliency(),
    And(),
    Prob(p=0.4),
    Bernoulli(eps=1e-6),
    Focus(eps="relative"),
    Focus(moments=PublishedMoments(rho=0.8)),
    Saliency(quantile=0.9),
    Optimal(ratio=0.1),
    WeightedSum(0.1, 0.9),
    MinAbs(),
    SignGated(0.1, 0.9),
    Rectified(),
    PrimalDual(slack=0.1),
    AdamMoments(decay=0.9),
    PublishedMoments(),
    SampleMoments(parts=8),
]
EVERY = pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)


@EVERY
def test_repr_is_the_configuration(part):
    names = {type(p).__name__: type(p) for p in PARTS}
    assert eval(repr(part), names) == part


@EVERY
def test_equal_parts_hash_alike(part):
    twin = dataclasses.replace(part)
    assert twin is not part
    assert {part: "found"}[twin] == "found"


@EVERY
def test_parts_are_frozen(part):
    with pytest.raises(dataclasses.FrozenInstanceError):
        part.anything = 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Prob(p=1.2), r"`p` should be in \(0, 1\). \(got 1.2\)"),
        (lambda: Prob(p=0.0), r"`p` should be in \(0, 1\). \(got 0.0\)"),
        (lambda: Prob(p=float("nan")), r"`p` should be in \(0, 1\). \(got nan\)"),
        (lambda: Prob(0.4), r"`moments` should be a name or moments. \(got 0.4\)"),
        (lambda: Focus(moments=AdamMoments), "`moments` should be a name or moments"),
        (lambda: Focus(eps=0.0), r"`eps` should be positive and finite or .relative.. \(got 0.0\)"),
        (lambda: Focus(eps=float("inf")), "`eps` should be positive and finite"),
        (lambda: Focus(eps="small"), '`eps` should be positive and finite or "relative"'),
        (lambda: WeightedSum(-1, 1), r"`alpha` should be finite and not negative. \(got -1\)"),
        (lambda: WeightedSum(1, float("inf")), "`beta` should be finite and not negative"),
        (lambda: WeightedSum(0, 0), "should not both be 0"),
        (lambda: Saliency(quantile=1.0), r"`quantile` should be in \[0, 1\). \(got 1.0\)"),
        (
            lambda: Optimal(ratio=0.0),
            r"`ratio` should be positive and finite, or None. \(got 0.0\)",
        ),
        (lambda: SignGated(0.0, 1.0), r"`alpha` should be positive and finite. \(got 0.0\)"),
        (lambda: AdamMoments(decay=1.0), r"`decay` should be in \(0, 1\). \(got 1.0\)"),
        (lambda: PublishedMoments(rho=0), r"`rho` should be in \(0, 1\). \(got 0\)"),
        (
            lambda: SampleMoments(parts=1),
            r"`parts` should be a whole number, at least 2. \(got 1\)",
        ),
        (lambda: Update(addon=Focus), "`addon` should be a name or an add-on"),
        (lambda: Update(aggregate=WeightedSum), "`aggregate` should be a name or an aggregation"),
        (lambda: Update(aggregate=3), "`aggregate` should be a name or an aggregation"),
        (lambda: Update(compile="yes"), '`compile` should be True or False or "auto"'),
    ],
)
def test_bad_values_name_the_rule_and_the_value(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("none", NoAddon),
        ("SalUn", Saliency),
        ("SALIENCY", Saliency),
        ("And", And),
        ("PROB", Prob),
        ("ber", Bernoulli),
        ("Bernoulli", Bernoulli),
        ("FOCUS", Focus),
    ],
)
def test_names_and_aliases_work_in_any_case(name, kind):
    assert type(Update(name).addon) is kind


def test_registries_hold_the_documented_names():
    papers = ["none", "saliency", "and", "prob", "bernoulli", "focus"]
    assert list(ADDONS) == [*papers, "optimal"]
    assert list(AGGREGATES) == ["linear", "min-abs", "sign-gated", "rectified", "primal-dual"]
    assert list(MOMENTS) == ["adam", "published", "sample"]
    assert [ADDONS.label(name) for name in ADDONS] == [
        "none",
        "SalUn",
        "AND",
        "PROB",
        "BER",
        "FOCUS",
        "OPT",
    ]
    labels = ["linear", "min-abs", "SAGO", "GRU", "PDU"]
    assert [AGGREGATES.label(name) for name in AGGREGATES] == labels


@pytest.mark.parametrize(
    ("make", "suggestion"),
    [
        (lambda: Update("focsu"), "Unknown add-on 'focsu'. Did you mean 'focus'"),
        (lambda: Update(aggregate="min-asb"), "Did you mean 'min-abs'"),
        (lambda: Focus(moments="adma"), "Did you mean 'adam'"),
    ],
)
def test_a_misspelt_name_brings_a_suggestion(make, suggestion):
    with pytest.raises(InvalidInput, match=suggestion):
        make()


def test_an_update_shows_its_configuration():
    assert repr(Update("and", "min-abs", strict=True)) == (
        "Update(addon=And(ties='masked'), aggregate=MinAbs(), strict=True)"
    )


def test_an_addon_without_a_weight_says_what_is_missing():
    class Empty(Addon):
        pass

    with pytest.raises(TypeError, match="Empty should define `weight`"):
        Update(Empty()).combine([torch.ones(1)], [torch.ones(1)])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_published_moments_bound_the_agreement(sign):
    """v ≥ ρĝ² from the second step on, so f ∈ [0.249, 0.751] however large the gradients."""
    update = Update(Focus(moments="published", eps=1e-30), WeightedSum(1.0, 0.0))
    for size in (1.0, 1e6):
        g = torch.tensor([size])
        [step] = update.combine([g], [sign * g])
    assert float(step) / 1e6 == pytest.approx(0.751 if sign > 0 else 0.249, abs=5e-4)
