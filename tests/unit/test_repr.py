"""What results show of themselves at a prompt and in a notebook."""

from __future__ import annotations

import base64
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from expunge import History, InvalidInput, Scores
from expunge._repr import ReprParts
from expunge.request import Outcome
from tests import tiny
from tests.tiny import Counting, points
from tests.unit.report import fake

ROWS = [
    {"epoch": k, "steps": 5, "seconds": 1.5 * k, "objective": 1.0 / k, "constraint": float("nan")}
    for k in (1, 2, 3)
]


def elements(html: str) -> ElementTree.Element:
    """The page as a tree: fails where a tag is not closed or a text not escaped."""
    return ElementTree.fromstring(f"<div>{html}</div>")


def cells(html: str) -> list[list[str]]:
    return [[cell.text or "" for cell in row] for row in elements(html).iter("tr")]


def test_a_history_says_how_long_it_took_and_where_the_losses_went() -> None:
    assert repr(History(ROWS)) == "History(3 epochs, 15 steps, 4.5 s; objective 1.000 → 0.333)"
    assert cells(History(ROWS)._repr_html_()) == [
        ["", "first epoch", "last epoch"],
        ["seconds", "1.5", "4.5"],
        ["objective", "1", "0.3333"],
    ]
    assert repr(History()) == "History(0 epochs, 0 steps, 0.0 s)"
    assert History()._repr_html_() == f"<p>{History()!r}</p>"


def test_a_notebook_shows_a_plot_where_there_is_a_course_and_fetches_nothing() -> None:
    (image,) = elements(History(ROWS)._repr_html_()).iter("img")
    assert image.get("alt") == "objective over epochs"
    kind, _, source = image.attrib["src"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert ElementTree.fromstring(base64.b64decode(source)).tag.endswith("svg")
    assert "<img" not in History(ROWS[:1])._repr_html_(), "one epoch is not a course"


def test_a_result_is_a_line_and_draws_its_history() -> None:
    result = tiny.unlearn(Counting(), forget=points(6), retain=points(8), epochs=2, batch_size=2)
    assert repr(result).startswith("Result(Counting of 15 parameters; History(2 epochs, 6 steps, ")
    assert "tensor" not in repr(result)
    ax = Figure().subplots()
    assert result.plot("feasible", ax=ax) is ax
    assert list(ax.lines[0].get_ydata()) == result.history.column("feasible")
    with pytest.raises(InvalidInput, match=r"one of seconds, .*feasible. \(got 'feasable'\)"):
        result.plot("feasable")


def test_scores_say_what_was_computed() -> None:
    scores = Scores(ua=60.0, ra=75.0, ta=12.5, rua=-1.25, gaps={"ta": 0.5})
    assert repr(scores) == "Scores(UA 60.00, RA 75.00, TA 12.50, rUA -1.25)"
    rows = cells(scores._repr_html_())
    assert rows[0] == ["UA", "60.00", "accuracy on the forget set (%)"]
    assert [row[1] for row in rows] == ["60.00", "75.00", "12.50", "-1.25", "0.50"]


def test_text_of_others_is_escaped() -> None:
    html = ReprParts("<script>", ("<b>",), [("a & b",)]).html()
    assert cells(html) == [["<b>"], ["a & b"]]
    assert "<script>" not in html


def test_an_outcome_is_its_verdict_its_accuracies_and_where_the_page_is() -> None:
    found = fake.evidence()
    outcome = Outcome(None, found, Path("requests/0001"))
    assert repr(outcome) == (
        f"Outcome(achieved: {found.verdict.headline} See requests/0001/report.html)"
    )
    heads, *rows = cells(outcome._repr_html_())
    assert heads[1:4] == ["before", "after", "after benign steps"]
    assert [row[1] for row in rows] == [f"{each.before.value:.1f}" for each in found.metrics]


def test_hostile_evidence_is_escaped() -> None:
    outcome = Outcome(None, fake.hostile(), Path("requests/0001"))
    assert "<script" not in outcome._repr_html_()
    elements(outcome._repr_html_())


def test_an_outcome_that_stopped_after_the_preflight_says_so() -> None:
    assert repr(Outcome(None)) == "Outcome(only checked: the model does not fit the data)"
