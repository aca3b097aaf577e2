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
        *["none", "SalUn", "AND", "PROB", "BER", "FOCUS", "OPT"]
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
        match=r"Unknown method 'zzz'. Known: bad-teacher, ce-u, ",
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


def test_options_in_brackets_make_a_part() -> None:
    assert METHODS.resolve("SCRUB(gamma=2.5, loss=released)") == Scrub(gamma=2.5, loss="released")
    assert METHODS.name("SCRUB( loss = released )") == "scrub(loss=released)"
    assert METHODS.name("scrub(loss=released,gamma=2)") == "scrub(gamma=2,loss=released)"
    assert METHODS.label("scrub(loss=released)") == "SCRUB(loss=released)"
    assert METHODS.bare_name("SCRUB(loss=released)") == "scrub"
    assert METHODS["scrub(loss=released)"] is Scrub
    assert "SCRUB(loss=released)" in METHODS
    assert METHODS.resolve("Ideal(reset=false)").reset is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SCRUB(los=released)", "SCRUB has no option 'los'. (it has: gamma, loss)"),
        ("SCRUB(released)", "Unknown method 'SCRUB(released)'."),
        ("SCRUB(gamma=1,gamma=2)", "The option 'gamma' should be given once."),
        ("scrub,gamma=x", "`gamma` should be a number. (got 'x')"),
        ("SCRUBB(gamma=1)", "Did you mean 'scrub'?"),
        ("none(p=0.3)", "none has no option 'p'. (it has: none)"),
    ],
)
def test_wrong_options_are_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidInput) as error:
        (ADDONS if text.startswith("none") else METHODS).resolve(text)
    assert words in str(error.value)


def test_a_name_with_brackets_of_its_own_is_a_name() -> None:
    table: Registry[int] = Registry("class")
    table.add("crab (red)", 1)
    assert table["Crab (red)"] == 1
    assert table.name("crab (red)") == "crab (red)"
