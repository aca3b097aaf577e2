"""Names with options in one string."""

from __future__ import annotations

import pytest

from expunge._errors import InvalidInput
from expunge._options import Option
from expunge._specs import join_spec, plain_value, read_option, split_spec, unknown_options_in

KNOWN = {"label", "id"}


@pytest.mark.parametrize(
    ("text", "base", "options"),
    [
        ("people.csv", "people.csv", {}),
        ("people.csv,label=income", "people.csv", {"label": "income"}),
        ("a,b.csv,id=p,label=x=y", "a,b.csv", {"id": "p", "label": "x=y"}),
        ("q,k=v.csv,id=p", "q,k=v.csv", {"id": "p"}),
        ("people.csv,label=a,b", "people.csv", {"label": "a,b"}),
    ],
)
def test_a_comma_belongs_to_the_path_unless_an_option_follows(text, base, options):
    assert split_spec(text, KNOWN) == (base, options)
    assert split_spec(join_spec(base, options), KNOWN) == (base, options)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a.csv,id=p,lable=x", "Unknown option 'lable'. Did you mean 'label'"),
        ("a.csv,id=p,zz=x", "Unknown option 'zz'. Known: id, label"),
        ("a.csv,id=p,id=q", "'id' should be given once"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(text, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        split_spec(text, KNOWN)


def test_an_option_that_was_taken_for_a_path_is_told_afterwards():
    assert "Did you mean 'label'" in unknown_options_in("a.csv,lable=x", KNOWN)
    assert unknown_options_in("a.csv", KNOWN) == ""


def test_values_are_checked_by_their_options():
    count = Option("length", int, 256, "Tokens.", at_least=1)
    assert read_option(count, "12") == 12
    for text in ("0", "-3", "many", "1.5"):
        with pytest.raises(InvalidInput, match="`length` should be a whole number, at least 1"):
            read_option(count, text)
    with pytest.raises(InvalidInput, match="`length` should have a value"):
        read_option(count, "")


def test_plain_values_keep_words_as_words():
    assert [plain_value(text) for text in ("0", "-2", "1e-3", "False", "x1")] == [
        *[0, -2, 1e-3, False, "x1"]
    ]
