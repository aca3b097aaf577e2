"""Names with options in one string."""

from __future__ import annotations

import pytest

from expunge._errors import InvalidInput
from expunge._specs import join_part, join_spec, plain_value, split_part, split_spec


@pytest.mark.parametrize(
    ("text", "base", "options"),
    [
        ("people.csv", "people.csv", {}),
        ("people.csv,label=income", "people.csv", {"label": "income"}),
        ("a,b.csv,id=p,label=x=y", "a,b.csv", {"id": "p", "label": "x=y"}),
        ("people.csv,label=a,b", "people.csv", {"label": "a,b"}),
    ],
)
def test_a_comma_belongs_to_the_path_unless_an_option_follows(text, base, options):
    assert split_spec(text) == (base, options)
    assert split_spec(join_spec(base, options)) == (base, options)


@pytest.mark.parametrize("text", ["photos(1)", "photos (1)/a,b", "scrub(released)", "f(x)(y)"])
def test_brackets_without_an_option_belong_to_the_name(text):
    assert split_spec(text) == (text, {})


def test_brackets_and_commas_mean_the_same():
    wanted = ("scrub", {"gamma": 2, "loss": "released", "strict": True})
    assert split_part("scrub,gamma=2,loss=released,strict=true") == wanted
    assert split_part("scrub(gamma=2, loss=released, strict=True)") == wanted
    assert split_part(join_part(*wanted)) == split_part(join_spec(*wanted)) == wanted


@pytest.mark.parametrize("text", ["a.csv,id=p,id=q", "scrub(gamma=1,gamma=2)"])
def test_an_option_is_given_once(text):
    with pytest.raises(InvalidInput, match="should be given once"):
        split_spec(text)


@pytest.mark.parametrize("text", ["a.csv,id=", "scrub(gamma=)", "scrub(gamma=,loss=kl)"])
def test_an_option_has_a_value(text):
    with pytest.raises(InvalidInput, match="should have a value"):
        split_spec(text)


def test_plain_values_keep_words_as_words():
    assert [plain_value(text) for text in ("0", "-2", "1e-3", "False", "x1")] == [
        *[0, -2, 1e-3, False, "x1"]
    ]
