"""The page of a benchmark, as HTML and in a real browser."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.support.ui import Select

from expunge.bench._page import machines_of, render_page, rows_by
from tests.unit.bench import fake_results
from tests.unit.report.browser import Browser
from tests.unit.report.html import embedded


def test_rows_are_told_apart_by_no_more_settings_than_needed() -> None:
    runs = fake_results.results()
    assert rows_by(runs) == ["label", "lr"]
    assert rows_by([run for run in runs if run.lr != 3e-3]) == ["label"]


def test_the_bench_page_keeps_metrics_and_leaves_single_classes_out() -> None:
    data = embedded(render_page(fake_results.results(), "<b>Title</b>", fake_results.claims()))
    row = data["results"][-1]["epochs"][-1]
    assert {"ua", "rua", "abs_rua", "rte", "epoch", "scored"} <= set(row)
    assert "ua_class_0" not in row
    assert data["metrics"]["rua"]["label"] == "rUA"
    assert data["claims"] == fake_results.claims()


def test_the_title_names_data_architecture_and_machine() -> None:
    results = fake_results.results()
    assert machines_of(results) == "2 cores of A64, torch 2.13.0"
    page = render_page(results, "Results", [])
    assert (
        "<title>Results: digits, small-cnn, width 0.5 (2 cores of A64, torch 2.13.0)</title>"
        in page
    )
    assert {result.subject for result in fake_results.many_results()} == {
        "CIFAR-10, VGG16, width 0.25"
    }


def test_an_empty_bench_says_so() -> None:
    assert "There are no results yet." in render_page([], "Nothing", [])


@pytest.fixture
def page(browser: Browser, pages: Path) -> Browser:
    browser.open(pages / "bench.html")
    return browser


@pytest.fixture
def many(browser: Browser, pages: Path) -> Browser:
    browser.open(pages / "many.html")
    return browser


def test_the_first_view_is_forgetting_against_accuracy_with_its_zero_line(page: Browser) -> None:
    assert page.texts("nav a")[0] == "Overview"
    assert page.texts("main section h2")[0] == "Forgetting against accuracy"
    labels = page.texts("#overview-chart text")
    assert {"zero", "ideal", "SRL", "SRL-FOCUS"} <= set(labels)
    assert labels.count("SRL") == 1, "its run at another rate is part of a sweep"


def test_metrics_stand_side_by_side(page: Browser) -> None:
    def heads() -> list[str]:
        return [text.strip() for text in page.texts("#side-table thead th")]

    assert heads() == ["Method", "n", "UA", "TA", "rUA", "RTE"]
    means = {
        (row, metric): float(mean)
        for row, metric, mean in page.run("""
            return [...document.querySelectorAll("#side-table tbody tr")].flatMap((row) =>
              [...row.querySelectorAll(".value")].map((v) =>
                [row.querySelector("th").textContent, v.dataset.metric, v.dataset.mean]))""")
    }
    assert means["SRL", "ta"] == pytest.approx(statistics.mean(values("SRL", 1e-3, "ta", 5)))
    assert means["ideal", "rua"] == pytest.approx(statistics.mean(values("ideal", None, "rua", 0)))
    page.one("#side-metrics input[value=fid]").click()
    assert heads() == ["Method", "n", "UA", "TA", "rUA", "FID", "RTE"]
    Select(page.one("#overview-epoch")).select_by_value("2")
    first = page.run(
        "return document.querySelector('#side-table tbody tr:nth-child(2) .value').dataset.mean"
    )
    assert float(first) == pytest.approx(statistics.mean(values("SRL", 1e-3, "ua", 2)))


def test_held_stands_beside_the_numbers_that_it_is_about(page: Browser) -> None:
    cells = page.texts("#claim-table td:has(.chip.held)")
    assert cells == ["held27.3 points from the ideal model are left"]


def test_a_ruined_model_is_listed_and_does_not_press_the_others_together(many: Browser) -> None:
    note = many.one("#overview-note").text
    assert "lost more than 15 points of TA: SCRUB(gamma=1,loss=released)-ADDON-29 (TA 10.0" in note
    ticks = [float(text) for text in many.texts("#overview-chart text") if text.endswith(".0")]
    assert min(ticks) > 60


@pytest.mark.parametrize("width", [390, 1280])
def test_many_long_names_fit_and_keep_their_ends(many: Browser, width: int) -> None:
    many.width(width)
    try:
        many.open_again()
        spill = many.run("return document.documentElement.scrollWidth - innerWidth")
        assert spill <= 0
        for chart in ("overview-chart", "compare-chart"):
            names = [text for text in many.texts(f"#{chart} text") if "ADDO" in text or "…" in text]
            assert len(set(names)) == len(names) > (3 if chart == "overview-chart" else 35), chart
            assert all(re.search(r"ADDON-\d\d( · (random|class):[\d.:]+)?$", n) for n in names)
            inside = many.run(
                """const box = document.getElementById(arguments[0]).getBoundingClientRect();
                return [...document.querySelectorAll(`#${arguments[0]} text`)].every((t) => {
                  const r = t.getBoundingClientRect();
                  return r.left >= box.left - 1 && r.right <= box.right + 1; })""",
                chart,
            )
            assert inside, chart
        tasks = many.texts("#overview-task option")
        assert tasks == [
            "10 % random forgetting",
            "40 % of class 3",
        ]
        assert many.problems() == []
    finally:
        many.width(0)


def values(label: str, lr: float | None, metric: str, epoch: int) -> list[float]:
    return [
        row[metric]
        for result in fake_results.results()
        if result.label == label and result.lr == lr
        for row in result.epochs
        if row["epoch"] == epoch
    ]


def shown(page: Browser) -> list[tuple[str, float, float]]:
    script = """return [...document.querySelectorAll("#compare-table tbody tr")].map((row) => {
        const value = row.querySelector(".value");
        return [row.querySelector("th").textContent, Number(value.dataset.mean),
                Number(value.dataset.std)]; })"""
    return [(label, mean, std) for label, mean, std in page.run(script)]


def close(found: list[tuple[str, float, float]], wanted: list[tuple[str, list[float]]]) -> Any:
    means = [(label, statistics.mean(v), statistics.stdev(v)) for label, v in wanted]
    return [label for label, *_ in found] == [label for label, *_ in means] and all(
        a[1:] == pytest.approx(b[1:]) for a, b in zip(found, means, strict=True)
    )


def test_rows_hold_mean_and_deviation_over_seeds(page: Browser) -> None:
    wanted = [("ideal", None, 0), ("SRL", 1e-3, 5), ("SRL-FOCUS", 1e-3, 5), ("SRL", 3e-3, 5)]
    assert close(shown(page), [(label, values(label, lr, "rua", e)) for label, lr, e in wanted])


def test_metric_and_epoch_are_chosen(page: Browser) -> None:
    before = page.drawn("compare-chart"), page.drawn("curve-chart")
    Select(page.one("#metric")).select_by_value("ta")
    Select(page.one("#epoch")).select_by_value("2")
    found = [row for row in shown(page) if row[0] != "ideal"]
    wanted = [("SRL", 1e-3), ("SRL-FOCUS", 1e-3), ("SRL", 3e-3)]
    assert close(found, [(label, values(label, lr, "ta", 2)) for label, lr in wanted])
    assert page.drawn("compare-chart") != before[0]
    assert page.drawn("curve-chart") != before[1]


def test_rows_are_made_of_the_settings_asked_for(page: Browser) -> None:
    page.one("#fields input[value=lr]").click()
    assert [label for label, *_ in shown(page)] == ["ideal", "SRL", "SRL-FOCUS"]
    assert any("mixes lr" in text for text in page.texts("#compare-table td:last-child"))
    page.one("#row-search").send_keys("focus")
    assert [label for label, *_ in shown(page)] == ["SRL-FOCUS"]


def test_ticked_rows_are_drawn_over_the_epochs(page: Browser) -> None:
    assert len(page.texts("#curve-key span")) == 3
    page.one("#compare-table tbody tr:nth-child(2) input").click()
    assert len(page.texts("#curve-key span")) == 2


def test_claims_are_filtered_by_status_and_words(page: Browser) -> None:
    def names() -> list[str]:
        return page.texts("#claim-table .chip")

    assert names() == ["held", "not held", "inconclusive"]
    page.one("#claim-status input[value=held]").click()
    page.one("#claim-status input[value='no data']").click()
    assert names() == ["not held", "inconclusive", "no data"]
    page.one("#claim-search").send_keys("alert")
    assert names() == ["no data"]
    assert page.problems() == []
