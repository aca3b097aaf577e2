"""The page of a request in a real browser: what it shows, and that every control works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from expunge._files import write_text
from expunge.evidence._sections import EpochRow, Status
from expunge.report import render_request
from tests.unit.report import fake
from tests.unit.report.browser import PATIENCE, Browser

EVIDENCE = fake.evidence(120)


@pytest.fixture
def page(browser: Browser, pages: Path) -> Browser:
    browser.open(pages / "request.html")
    return browser


@pytest.mark.parametrize("name", ["request", "hostile", "bare", "bench"])
def test_a_page_opens_without_a_complaint_or_a_request(
    browser: Browser, pages: Path, name: str
) -> None:
    path = pages / f"{name}.html"
    browser.open(path)
    assert browser.problems() == []
    assert browser.requests() == [path.as_uri()]
    assert all(
        browser.run(
            "return [...document.querySelectorAll('.chart')].map((c) => !!c.querySelector('svg'))"
        )
    )


def test_no_chart_reaches_beyond_its_box(page: Browser) -> None:
    script = """
    return [...document.querySelectorAll(".chart")].map((box) => [
      box.id, box.querySelector("svg").getBoundingClientRect().height, box.clientHeight,
    ]).filter(([, drawn, there]) => there && drawn > there + 1)"""
    assert page.run(script) == []


def test_the_numbers_are_those_of_the_evidence(page: Browser) -> None:
    for metric in EVIDENCE.metrics:
        row = f"tr[data-metric={metric.name}] td:nth-of-type"
        sides = (metric.before, metric.after, metric.after_benign_steps, metric.target)
        for k, side in enumerate(sides, start=1):
            shown = page.run(
                "return document.querySelector(arguments[0])?.dataset.value", f"{row}({k}) .value"
            )
            assert (shown and float(shown)) == (side and side.value)
    text = page.one("main").text
    assert "Forgetting achieved" in text
    for words in (*EVIDENCE.limits, *EVIDENCE.commands, EVIDENCE.stopped.reason):
        assert words in text
    shown = page.texts("#checks tbody tr")
    listed = [check for check in EVIDENCE.checks if not check.name.startswith("lost_")]
    assert len(shown) == len(listed)
    for row, check in zip(shown, listed, strict=True):
        digits = 2 if check.is_attack else 1
        low, high = (f"{bound:.{digits}f}".replace("-", "−") for bound in (check.low, check.high))
        assert f"{low} to {high}" in row
        assert check.moment in row
        assert check.result in row
    assert "≤ 54 %" in page.texts(".tiles > div")[3]
    hashes = page.texts("#record .hashes code")
    assert hashes[:5] == list(EVIDENCE.hashes.model_dump(exclude_unset=True).values())


@pytest.mark.parametrize(
    ("status", "style", "title"),
    [
        ("achieved", "good", "Forgetting achieved"),
        ("not achieved", "bad", "Forgetting not achieved"),
        ("inconclusive", "open", "Inconclusive"),
    ],
)
def test_every_verdict_has_its_title_and_colour(
    browser: Browser, tmp_path: Path, status: Status, style: str, title: str
) -> None:
    evidence = fake.evidence(42, status=status)
    write_text(tmp_path / "page.html", render_request(evidence))
    browser.open(tmp_path / "page.html")
    assert title in browser.one("#verdict h1").text
    assert f"verdict {style}" in browser.run("return document.getElementById('verdict').className")
    colours = browser.run(
        """const of = (name) => getComputedStyle(document.querySelector(name));
        return [of("#verdict").borderLeftColor, of("#verdict .mark").backgroundColor]"""
    )
    assert colours[0] == colours[1]
    assert "attempt 2" in browser.one("#verdict").text
    steps = [step.replace("`", "") for step in evidence.verdict.next_steps]
    assert browser.texts("#verdict .next-steps li") == steps, "commands are marked, not quoted"
    assert browser.problems() == []


def test_the_cost_is_that_of_the_whole_request(page: Browser) -> None:
    tile = page.texts(".tiles > div")[-1]
    assert "14 s" in tile
    assert "13 s of processor time; retraining: about 61 s for 40 epochs" in tile
    text = page.one("#cost").text
    assert "The whole request took 14 s, 13 s of processor time" in text
    assert "4.3 times as long" in text
    assert "Gradient steps 7.8 s" in text


@pytest.mark.parametrize(
    ("retraining", "words"),
    [
        (0.7, "would take about 0.7 s, which the request exceeds by a factor of 20.3."),
        (28.6, "would take about 29 s, 2.0 times as long."),
    ],
)
def test_a_request_that_takes_longer_than_retraining_says_by_how_much(
    retraining: float, words: str
) -> None:
    seconds = {"retraining_seconds": retraining, "retraining_processor_seconds": None}
    cost = EVIDENCE.preflight.cost.model_copy(update=seconds)
    preflight = EVIDENCE.preflight.model_copy(update={"cost": cost})
    page = render_request(EVIDENCE.model_copy(update={"preflight": preflight}))
    assert words in page
    exact = EVIDENCE.model_copy(update={"config": {**EVIDENCE.config, "exact": True}})
    assert "retraining without the records would take" not in render_request(exact)


def test_an_unknown_cost_of_retraining_is_unknown(browser: Browser, tmp_path: Path) -> None:
    unknown = {"retraining_seconds": None, "retraining_epochs": None}
    cost = EVIDENCE.preflight.cost.model_copy(update=unknown)
    preflight = EVIDENCE.preflight.model_copy(update={"cost": cost})
    evidence = EVIDENCE.model_copy(update={"preflight": preflight})
    write_text(tmp_path / "page.html", render_request(evidence))
    browser.open(tmp_path / "page.html")
    assert browser.problems() == []
    assert "retraining: unknown, --training-epochs tells" in browser.texts(".tiles > div")[-1]
    assert "times as long" not in browser.one("#cost").text


def opened(browser: Browser, folder: Path, status: Status) -> str:
    """The text of the page of a request that ended so."""
    write_text(folder / "page.html", render_request(fake.evidence(42, status=status)))
    browser.open(folder / "page.html")
    assert browser.problems() == []
    return browser.one("main").text


def test_open_checks_say_what_would_decide(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, "inconclusive")
    rows = browser.texts("#checks tbody tr")
    assert sum("open" in row and "463 records would decide" in row for row in rows) == 2
    assert not any("outside" in row for row in rows)


def test_classes_that_lost_too_much_are_named(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, "not achieved")
    rows = browser.texts("#class-table tbody tr")
    assert sum("outside" in row for row in rows) == 1
    assert sum("inside" in row for row in rows) == 9
    (row,) = (row for row in browser.texts("#checks tbody tr") if "lost in airplane" in row)
    assert "at most 5.0" in row


def test_a_discarded_model_is_never_shown_as_the_delivered_one(
    browser: Browser, tmp_path: Path
) -> None:
    text = opened(browser, tmp_path, "not achieved")
    assert "The bundle holds the model as it was before the request." in text
    assert "discarded.safetensors" in text
    tiles = browser.texts(".tiles > div")
    assert "100.0 %of the discarded model: 88.1 %" in tiles[1]
    assert not any("Attacks are right" in tile for tile in tiles)
    heads = browser.texts("#metrics thead th")
    assert heads[1:5] == ["Before", "Discarded", "After benign steps", "Unseen data alike"]
    moments = browser.texts("#checks tbody td[data-name=When]")
    assert set(moments) == {"discarded", "after benign steps"}
    assert "delivered" not in text
    names = browser.texts("#class-table thead th")
    assert "Discarded, %" in names
    assert "After, %" not in names


def test_another_measure_draws_another_curve(page: Browser) -> None:
    before = page.drawn("epoch-chart")
    assert "chosen" in before
    Select(page.one("#epoch-metric")).select_by_value("auc")
    after = page.drawn("epoch-chart")
    assert after != before
    assert "guessing" in after
    page.one("#epochs .data summary").click()
    shown = [row.auc for row in EVIDENCE.epochs]
    page.until("#epoch-chart-table tbody tr", len(shown))
    rows = page.texts("#epoch-chart-table tbody tr")
    assert all(f"{value:.3f}" in row for value, row in zip(shown, rows, strict=True))


def test_a_run_that_was_not_watched_shows_what_it_recorded(
    browser: Browser, tmp_path: Path
) -> None:
    epochs = [EpochRow(epoch=k, seconds=1.5 * k, objective=1.0 / k) for k in (1, 2, 3)]
    evidence = EVIDENCE.model_copy(update={"epochs": epochs})
    write_text(tmp_path / "page.html", render_request(evidence))
    browser.open(tmp_path / "page.html")
    measures = browser.texts("#epoch-metric option")
    assert measures == ["Loss that the method minimises", "Seconds so far"]
    assert browser.problems() == []


def paper(page: Browser) -> Any:
    return page.run("return getComputedStyle(document.body).backgroundColor")


def test_the_theme_follows_the_system_and_the_button(page: Browser) -> None:
    light, chart = paper(page), page.drawn("epoch-chart")
    page.one("#theme").click()
    dark = paper(page)
    assert dark != light
    assert page.drawn("epoch-chart") != chart
    page.one("#theme").click()
    assert paper(page) == light
    page.run("localStorage.clear(); delete document.documentElement.dataset.theme")
    page.media(scheme="dark")
    assert paper(page) == dark


def test_the_page_works_with_the_keyboard_alone(page: Browser) -> None:
    def tab_to(id: str) -> None:
        for _ in range(80):
            ActionChains(page.driver).send_keys(Keys.TAB).perform()
            if page.run("return document.activeElement.id") == id:
                return
        raise AssertionError(f"{id} is not reached with Tab")

    tab_to("theme")
    light = paper(page)
    ActionChains(page.driver).send_keys(Keys.ENTER).perform()
    assert paper(page) != light
    tab_to("epoch-metric")
    assert page.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    ActionChains(page.driver).send_keys("AUC").perform()
    assert page.run("return document.activeElement.value") == "auc"
    tab_to("epoch-chart")
    ActionChains(page.driver).send_keys(Keys.ARROW_RIGHT * 2).perform()
    second = EVIDENCE.epochs[1]
    assert page.texts("#announcement") == [
        f"Epoch 2, AUC of the attack by the loss, against validation data {second.auc:.3f}"
    ]
    whole = page.drawn("epoch-chart")
    ActionChains(page.driver).send_keys("+").perform()
    assert page.drawn("epoch-chart") != whole
    page.run("localStorage.clear()")


def test_a_command_is_copied(page: Browser) -> None:
    button = page.one("button.copy")
    button.click()
    WebDriverWait(page.driver, PATIENCE).until(lambda _: page.texts("#announcement") == ["Copied"])
    page.run(
        "document.body.prepend(Object.assign(document.createElement('input'), {id: 'pasted'}))"
    )
    pasted = page.one("#pasted")
    pasted.send_keys(Keys.CONTROL, "v")
    assert pasted.get_attribute("value") == EVIDENCE.commands[0]


def test_hostile_names_are_shown_and_not_run(browser: Browser, pages: Path) -> None:
    browser.open(pages / "hostile.html")
    Select(browser.one("#epoch-metric")).select_by_index(5)
    assert any("<script>alert(1)</script>" in text for text in browser.texts("#checks tbody tr"))
    browser.run(
        """echarts.getInstanceByDom(document.getElementById("class-chart"))
        .dispatchAction({type: "showTip", seriesIndex: 1, dataIndex: 0})"""
    )
    assert fake.HOSTILE[0] in browser.texts(".tip b")
    assert browser.texts("#command-1") == [fake.HOSTILE[2]]
    assert browser.run("return document.querySelectorAll('script').length") == 3
    assert (
        browser.run("return document.querySelectorAll('[onerror], b > b, .tip script').length") == 0
    )
    assert browser.run("return document.images.length") == 0
    assert browser.run("return document.title").startswith("Deletion request")
    assert browser.problems() == []
    assert browser.requests() == [(pages / "hostile.html").as_uri()]


@pytest.mark.parametrize("name", ["request", "hostile", "bench"])
def test_a_phone_shows_all_without_scrolling_sideways(
    browser: Browser, pages: Path, name: str
) -> None:
    browser.width(390)
    browser.open(pages / f"{name}.html")
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    browser.width(0)


def test_paper_has_all_sections_open_and_light(page: Browser) -> None:
    page.one("#theme").click()
    page.media("print")
    assert paper(page) == "rgb(255, 255, 255)"
    for section in page.all("main section"):
        assert section.size["height"] > 20
    assert all(code.is_displayed() for code in page.all("#record code"))
    assert not page.one("nav").is_displayed()
    widths = page.run(
        "return [...document.querySelectorAll('.chart svg')].map((s) => s.clientWidth)"
    )
    assert max(widths) <= 680
    page.media()
    assert not page.one("#record code").is_displayed()
    page.run("localStorage.clear()")


def test_the_page_says_whether_it_is_signed() -> None:
    unsigned = "Unsigned: whoever can write here can rewrite it."
    assert unsigned in render_request(EVIDENCE)
    signed = render_request(EVIDENCE.model_copy(update={"signed_by": "5ea1" * 16}))
    assert unsigned not in signed
    assert "Signed by the key with the fingerprint" in signed
    assert f'{"5ea1" * 3}<span class="rest">{"5ea1" * 13}</span>' in signed


def test_duplicates_are_counted(page: Browser) -> None:
    text = page.one("main").text
    assert "Of these, 2 are duplicates of requested records that were found" in text
