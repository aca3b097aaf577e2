"""Names for parts, in any case, with suggestions."""

from __future__ import annotations

import importlib

import pytest

from expunge._errors import InvalidInput
from expunge._registry import Registry
from expunge.methods import METHODS, Scrub
from expunge.update import ADDONS

PAPER = {
    "FT": "fine-tune",
    "GA": "gradient-ascent",
    "NGPlus": "neg-grad-plus",
    "SRL": "random-label",
    "SCRUB": "scrub",
    "MSG": "mask-small-gradients",
    "CT": "conv-transpose",
}


@pytest.mark.parametrize(("short", "name"), PAPER.items())
def test_the_papers_names_are_aliases_in_any_case(short: str, name: str) -> None:
    for spelling in (short, short.lower(), short.upper(), name, name.upper()):
        assert METHODS.name(spelling) == name
    assert METHODS.label(name) == short
    assert METHODS.label_of(METHODS[name]()) == short


def test_addons_are_labelled_as_in_the_paper() -> None:
    assert [ADDONS.label(name) for name in ADDONS] == [
        *["none", "SalUn", "AND", "PROB", "BER", "FOCUS"]
    ]


def test_a_part_resolves_to_itself_and_a_name_to_a_new_part() -> None:
    part = Scrub(gamma=2.0)
    assert METHODS.resolve(part) is part
    assert METHODS.resolve("SCRUB") == Scrub()


def test_taken_names_are_refused_and_removed_ones_are_free() -> None:
    table: Registry[int] = Registry("thing")
    table.add("one", 1, alias="I")
    for name, alias in (("ONE", None), ("i", None), ("two", "One")):
        with pytest.raises(InvalidInput, match="taken already"):
            table.add(name, 2, alias=alias)
    assert list(table) == ["one"]
    table.remove("one")
    assert "I" not in table
    table.add("I", 3)
    assert table["i"] == 3


def test_a_name_far_from_all_lists_them() -> None:
    with pytest.raises(
        InvalidInput,
        match=r"Unknown method 'zzz'. Known: adversarial-examples, conv-transpose, fine",
    ):
        METHODS["zzz"]


def test_an_unregistered_class_is_labelled_by_its_name() -> None:
    assert METHODS.label_of(int) == "int"


REGISTRIES = {
    f"{package}.{name}": getattr(importlib.import_module(package), name)
    for package, names in {
        "expunge.data": ("DATASETS", "SCENARIOS"),
        "expunge.evaluation": ("ATTACKS", "METRICS"),
        "expunge.methods": ("METHODS",),
        "expunge.models": ("MODELS",),
        "expunge.track": ("TRACKERS",),
        "expunge.update": ("ADDONS", "AGGREGATES", "MOMENTS"),
    }.items()
    for name in names
}


@pytest.mark.parametrize("which", REGISTRIES)
def test_every_entry_leads_to_a_part_that_says_what_it_is(which: str) -> None:
    registry = REGISTRIES[which]
    for name in registry:
        before = registry.summary(name)
        assert before
        assert registry[name] is not None
        assert registry.summary(name) == before


def test_a_declared_part_is_imported_on_first_use_and_once() -> None:
    table: Registry[type] = Registry("thing")
    table.declare("scrub", "expunge.methods._scrub:Scrub", alias="S")
    table.declare("gone", "expunge.methods._scrub:Gone")
    assert (table.name("s"), table.label("scrub"), "s" in table) == ("scrub", "S", True)
    assert table["S"] is table["scrub"] is Scrub
    with pytest.raises(AttributeError, match="Gone"):
        table["gone"]
