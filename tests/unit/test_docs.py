"""The documents are true: blocks run, commands exist, and everything there is has an entry."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

import blocks
import check
import choosing
import execute
import expunge
import notebooks
import pages
import paper_mini
import paper_order
import reproduction
import request_tables
from expunge._plugins import GROUPS
from expunge.bench._results import BenchResult, load_results
from expunge.bench.paper.claims import CLAIMS
from expunge.cli._list import KINDS, describe_part
from expunge.cli._main import build_app

ROOT = Path(__file__).parents[2]
DOCS, SITE = ROOT / "docs", ROOT / "build" / "site"

if TYPE_CHECKING:
    from tests.unit.report.browser import Browser

PLUGINS = DOCS / "how-to" / "plugins.md"
PAGES = {pages.name_of(page): page for page in pages.pages()}
QUICK = "docs/explanation/update.md"
"""A page that is run here; ``make docs`` runs all of them."""
OF_NOBODY = {"none", "folder", "npz", "csv", "parquet", "hf"}
"""Parts without a reference: no add-on, and formats of files."""


# ---- every block of every page


@pytest.mark.parametrize("name", PAGES)
def test_every_block_and_command_is_right(name: str) -> None:
    page = PAGES[name]
    known = (*blocks.RUN, *blocks.SHOWN, *([""] if name in pages.CHECKED_ONLY else []))
    wrong = check.inline_problems(page.read_text())
    for block in blocks.read_blocks(page):
        if block.language not in known:
            wrong.append(f"{block.place}: mark the block as one of {', '.join(known)}")
        wrong += [f"{block.place}: {problem}" for problem in check.problems(block)]
    assert wrong == []


@pytest.mark.parametrize("name", PAGES)
def test_what_is_not_run_says_why(name: str) -> None:
    text = PAGES[name].read_text()
    reasons = [each.reason for each in blocks.read_blocks(PAGES[name]) if each.reason]
    assert len(reasons) == len(re.findall(r"<!--\s*not run:", text)), "a comment without a block"
    assert all(len(reason.split()) > 1 for reason in reasons)


def test_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(execute, "OUTPUTS", tmp_path / "outputs")
    execute.run_page(PAGES[QUICK])
    assert (execute.kept_output(PAGES[QUICK]) / "output.json").is_file()


@pytest.mark.parametrize("name", notebooks.TUTORIALS)
def test_notebooks_are_what_their_pages_say_and_hold_no_output(name: str) -> None:
    page = DOCS / "tutorials" / f"{name}.md"
    notebook = notebooks.notebook_of(page)
    assert notebook is not None
    assert notebook.read_text() == notebooks.write_notebook(page), "run docs/_site/notebooks.py"
    ran = execute.as_in_notebook(page, execute.runnable(page))
    shown = [(b.language, b.code.strip() if b.language == "python" else commands(b)) for b in ran]
    written = execute.runnable(page)
    assert shown == [
        (b.language, b.code.strip() if b.language == "python" else commands(b)) for b in written
    ]
    assert all(cell.get("outputs", []) == [] for cell in json.loads(notebook.read_text())["cells"])
    assert f"docs/tutorials/{notebook.name}" in (ROOT / "README.md").read_text()


def commands(block: blocks.Block) -> str:
    return "\n".join(blocks.commands(block.code))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```sh\nexpunge unlern x\n```", "has no"),
        ("```sh\nexpunge unlearn a.safetensors -f random:0.1 -o b --epoch 3\n```", "--epoch"),
        ("```sh\nexpunge bench run\n```", "protocol"),
        ("```sh\nmake everything\n```", "no target 'everything'"),
        ("```sh\npip install 'expunge[torchjd,jax]'\n```", "no extra 'jax'"),
        ("```sh\npython examples/gone.py\n```", "no file"),
        ("```sh\nrm -rf build\n```", "unknown program"),
        ("```sh\nmake test && expunge nothing\n```", "nothing"),
        ("```python\nexpunge.unlern(model)\n```", "no expunge.unlern"),
        ("```python\nfor x in\n```", "not Python"),
        ("```toml\nx = \n```", "Invalid"),
    ],
)
def test_mistakes_in_blocks_are_found(text: str, problem: str, tmp_path: Path) -> None:
    (block,) = blocks.read_blocks(tmp_path / "page.md", text)
    assert problem in " ".join(check.problems(block))


def test_mistakes_in_the_running_text_are_found() -> None:
    right = "`expunge list methods`, `expunge bench plan PROTOCOL --data DIR`, `expunge.unlearn`"
    assert check.inline_problems(right) == []
    assert len(check.inline_problems("`expunge liste`, `expunge list --methods`")) == 2


def test_setup_and_reasons_belong_to_the_next_block(tmp_path: Path) -> None:
    text = (
        "<!-- setup:\nx = 1\n-->\n```python\nx\n```\n\n<!-- not run: too long -->\n```sh\nls\n```"
    )
    first, second = blocks.read_blocks(tmp_path / "page.md", text)
    assert (first.setup, first.reason, first.line) == ("x = 1", "", 5)
    assert (second.setup, second.reason) == ("", "too long")


# ---- what has to be there


def test_the_readme_shows_a_figure_before_any_table() -> None:
    text = (ROOT / "README.md").read_text()
    assert "\n| " not in text or text.index("![") < text.index("\n| ")
    assert re.search(r"!\[[^]]*\]\(([^)]*)\)", text)[1] == "docs/images/forget.png"  # type: ignore[index]


def test_continuous_integration_runs_the_tests_and_builds_the_site() -> None:
    targets = re.findall(r"^make (\w+)$", (ROOT / ".ci" / "run").read_text(), re.M)
    assert targets == ["test", "docs", "thorough"]


def test_the_makefile_runs_files_that_are_there() -> None:
    files = re.findall(r"\b[\w/.]+\.(?:py|sh)\b", (ROOT / "Makefile").read_text())
    assert len(files) > 5
    assert [name for name in files if not (ROOT / name).is_file()] == []


def test_every_page_is_in_the_navigation() -> None:
    _, _, nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    listed = re.findall(r"(\S+\.md)$", nav, re.M)
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    generated = {"reference/commands.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    assert sorted(listed) == sorted(written | generated)


def test_every_extra_is_documented() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = re.findall(r"^\| `([\w-]+)` \|", (DOCS / "install.md").read_text(), flags=re.MULTILINE)
    assert set(listed) == set(project["optional-dependencies"])


def test_every_group_of_plugins_is_documented() -> None:
    listed = re.findall(r"^\| `(expunge\.\w+)` \|", PLUGINS.read_text(), re.M)
    assert listed == list(GROUPS)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_part_says_when_to_use_it_and_where_it_comes_from(kind: str) -> None:
    parts = [describe_part(KINDS[kind], name) for name in KINDS[kind]]
    assert [part["name"] for part in parts if not part["use"]] == []
    assert {part["name"] for part in parts if not part["reference"]} <= OF_NOBODY


def test_every_claim_is_listed() -> None:
    page = (DOCS / "how-to" / "benchmark.md").read_text()
    assert [name for name in CLAIMS if f"`{name}`" not in page] == []


def test_every_metric_has_a_formula() -> None:
    metrics = KINDS["metrics"]
    assert [name for name in metrics if not metrics[name].formula] == []


def test_choosing_reads_the_results() -> None:
    tables = choosing.choosing_tables()
    assert tables.count("### ") >= 2
    assert "| NGPlus\u2011FOCUS |" in tables
    digits = tables.partition("### digits")[2]
    (graded,) = [line for line in digits.splitlines() if line.startswith("| GA |")]
    assert "| \u201184." in graded.replace("\u00a0", " ")
    assert graded.endswith("| forgets too much; loses test accuracy |")


def test_the_page_of_results_says_what_the_records_say() -> None:
    """If not: ``python docs/_site/reproduction.py``."""
    text = reproduction.PAGE.read_text()
    assert text == reproduction.filled(text, load_results(reproduction.RESULTS))


def test_the_page_of_the_paper_in_miniature_says_what_the_records_say() -> None:
    """If not: ``python docs/_site/paper_mini.py``."""
    text = paper_mini.PAGE.read_text()
    assert text == paper_mini.filled(text, load_results(paper_mini.MINI))


def test_the_papers_tables_are_those_of_the_results() -> None:
    """If not: ``python docs/_site/paper_order.py``."""
    text = paper_order.PAGE.read_text()
    assert text == paper_order.filled(text, paper_order.load())


@given(st.lists(st.tuples(st.floats(-5, 20), st.floats(-20, 20)), min_size=1, max_size=12))
def test_no_admissible_epoch_loses_less_than_the_chosen_one(
    points: list[tuple[float, float]],
) -> None:
    result = BenchResult(key="", epochs=[])
    stops = [reproduction.Stop(result, epoch, *each) for epoch, each in enumerate(points, start=1)]
    chosen = reproduction.chosen_stop(stops)
    admissible = [stop for stop in stops if stop.gap <= reproduction.TOLERANCE]
    assert (chosen is None) == (not admissible)
    if chosen is not None:
        assert chosen.lost == min(stop.lost for stop in admissible)


def test_a_run_that_never_gets_there_has_no_stop_but_a_least_gap() -> None:
    start = {"epoch": 0, "ua": 99.0, "ta": 90.0}
    gaps = {5: 3.0, 10: 0.8}
    later = [
        {"epoch": epoch, "ua": 90.0, "ta": 88.0, "ua_class_1": 88.0 + gap, "ta_class_1": 88.0}
        for epoch, gap in gaps.items()
    ]
    results = [BenchResult(key=str(lr), lr=lr, epochs=[start, *later]) for lr in (1.0, 2.0)]
    row = reproduction.stops_row("SRL", {each.hyperparameters: {0: each} for each in results})
    assert (row.mean("seeds"), row.values["lost"]) == (0, ())
    assert row.values["least"] == pytest.approx((0.8,))


@pytest.mark.parametrize("page", request_tables.PAGES, ids=lambda page: page.name)
def test_tables_of_requests_say_what_the_rows_say(page: Path) -> None:
    """If not: ``python docs/_site/request_tables.py``."""
    text = page.read_text()
    assert request_tables.REGION.search(text)
    assert text == request_tables.filled(text)


def test_the_table_of_sizes_adds_what_judging_costs() -> None:
    seconds = {"total": 4.0, "steps": 1.0, "method": 1.0}
    row = {"kind": "mlp", "set": "random:0.1", "name": "refresh", "records": 300}
    row |= {"seconds": seconds, "retraining_seconds": 8.0, "cost": 0.5}
    row |= {"status": "achieved", "false": True}
    cheap = {"kind": "mlp", "seed": 0, "name": "SRL-FOCUS", "start": "initial", "cost": 0.1}
    methods = [request_tables.Methods([cheap], "mlp")]
    *_, line = request_tables.sizes_table(methods, [row]).splitlines()
    cells = [cell.strip() for cell in line.split("|")[2:-1]]
    assert cells == [
        *("3,000 × 25", "8 s", "about 1.25", "0.50", "0.35"),
        "1 achieved,\u00a0**1 false**",
    ]
    exact = row | {"name": "exact", "cost": 1.5}
    *_, line = request_tables.sizes_table(methods, [row, exact]).splitlines()
    assert "| 1.50 | 0.50 | 0.35 |" in line


def test_the_shadow_attack_of_the_tables_finds_what_is_there_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    records = 3 * rng.normal(size=2000)
    clean, others, remembered = (records + rng.normal(size=(6, 2000)) for _ in range(3))
    nothing, something = (
        request_tables.u_lira(group, others) for group in (clean, remembered + 1.0)
    )
    assert abs(nothing["u_lira"] - 0.5) < 0.02
    assert abs(nothing["u_lira_tpr"] - 1.0) < 0.5
    assert something["u_lira"] > 0.7


def test_intervals_that_are_quoted_are_in_the_tables() -> None:
    page = reproduction.PAGE.read_text().replace("\u2212", "-").replace("\u00a0", " ")
    tables = "".join(match[0] for match in reproduction.REGION.finditer(page))
    interval = re.compile(r"\[[-+]?[\d.]+, [-+]?[\d.]+\]")
    quoted = interval.findall(reproduction.REGION.sub("", page))
    assert quoted
    assert [each for each in quoted if each not in tables] == []


def test_the_readme_can_be_read_in_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 1200


# ---- the built site: `make docs`


@pytest.fixture(scope="session")
def built() -> Path:
    assert (SITE / "index.html").is_file(), "`make docs` builds the site first."
    return SITE


@pytest.mark.docs
def test_the_site_loads_nothing_from_elsewhere(built: Path) -> None:
    loads = re.compile(
        r'<(?:script|img|iframe|source)[^>]*\ssrc="(?:https?:)?//'
        r'|<link[^>]*(?:stylesheet|icon|preconnect)[^>]*href="(?:https?:)?//'
        r'|<link[^>]*href="(?:https?:)?//[^>]*(?:stylesheet|icon|preconnect)'
        r"|@import|url\([\"']?(?:https?:)?//"
    )
    for page in [*built.rglob("*.html"), *built.rglob("*.css")]:
        if "results" not in page.parts:
            assert loads.findall(page.read_text()) == [], page


@pytest.mark.docs
def test_every_public_name_has_an_entry(built: Path) -> None:
    text = "".join(page.read_text() for page in (built / "reference" / "python").glob("*.html"))
    assert re.findall(r":[a-z]+:<code>", text) == [], "a role that is not Markdown"
    anchors = set(re.findall(r'id="(expunge[\w.]+)"', text))
    for name in expunge.__all__:
        value = getattr(expunge, name)
        if type(value).__name__ == "module":
            wanted = {f"expunge.{name}.{each}" for each in value.__all__}
            assert wanted <= anchors, sorted(wanted - anchors)
        else:
            assert any(each.endswith(f".{name}") for each in anchors), name


@pytest.mark.docs
def test_every_part_and_every_option_has_an_entry(built: Path) -> None:
    for kind in KINDS:
        text = (built / "reference" / f"{kind}.html").read_text()
        assert [name for name in KINDS[kind] if f"<code>{name}</code>" not in text] == [], kind
    text = (built / "reference" / "commands.html").read_text()
    app = get_command(build_app(None))
    commands = {name: each for name, each in app.commands.items() if name != "bench"}
    commands |= {f"bench {name}": each for name, each in app.commands["bench"].commands.items()}
    for name, command in commands.items():
        _, _, section = text.partition(f'id="expunge-{name.replace(" ", "-")}"')
        section = section.partition("<h2")[0]
        options = [each for p in command.params for each in p.opts if each.startswith("--")]
        missing = [each for each in options if f"{each}" not in section]
        assert [each for each in missing if each != "--help"] == [], name


@pytest.mark.docs
def test_the_picture_moves_and_search_works_from_a_file(built: Path, tmp_path: Path) -> None:
    from tests.unit.report.browser import chromium, reason

    if why := reason():
        pytest.skip(why)
    with chromium(tmp_path / "profile") as browser:
        _figure_fits_a_phone(browser, built)
        _picture_moves(browser, built)
        _search_works(browser, built)


def _figure_fits_a_phone(browser: Browser, built: Path) -> None:
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.open(built / "index.html")
    read = "const b = document.querySelector('article img').getBoundingClientRect(); return %s"
    assert browser.driver.execute_script(read % "b.right") <= size["width"]
    assert browser.driver.execute_script(read % "b.height > b.width"), "one panel below the other"
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def _picture_moves(browser: Browser, built: Path) -> None:
    page = browser.driver
    page.get((built / "explanation" / "idea.html").as_uri())
    read = "return document.querySelector('#focus-picture [data-value=f]').textContent"
    before = page.execute_script(read)
    page.execute_script(
        "const s = document.querySelector('#focus-picture input');"
        "s.value = 3; s.dispatchEvent(new Event('input'));"
    )
    assert 0.5 < float(page.execute_script(read)) < float(before)


def _search_works(browser: Browser, built: Path) -> None:
    """Search as a reader does, by mouse and keyboard.

    A script's ``focus()`` reaches the page only if its window has the focus, which a browser that
    has just started may give to its address bar.
    """
    browser.open(built / "index.html")
    box = browser.one("input[name=query]")
    box.click()
    box.send_keys("focus vector")
    browser.until_some(".md-search-result__item")
    assert any("focus" in text.lower() for text in browser.texts(".md-search-result__item h1"))
    elsewhere = [url for url in browser.requests() if url.startswith("http")]
    assert elsewhere == []
    browser.one(".md-search-result__item a").click()
    browser.until_some("mark[data-md-highlight]")
