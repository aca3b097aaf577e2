from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from expunge.bench._results import load_results
from expunge.cli import main
from expunge.dispatch import InlineEngine
from tests.stand_ins import compute_in_this_process, leave_out_figures
from tests.unit.bench.tiny_protocol import write_tiny
from tests.unit.cli.conftest import Expunge


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("protocol"))


@pytest.fixture(scope="module")
def store(tiny: Path) -> Path:
    """The store of a finished run, whose results are beside it, with two of the figures."""
    root = tiny.parent / "store"
    arguments = ["run", str(tiny), "-s", str(root), "-o", str(tiny.parent / "results")]
    with pytest.MonkeyPatch.context() as patch:
        compute_in_this_process(patch)
        leave_out_figures(
            patch, "expunge.bench.plots._style", but=("figure4-heatmap", "figure1-masking")
        )
        patch.setattr(sys, "argv", ["expunge", "bench", *arguments, "--workers", "1"])
        with pytest.raises(SystemExit) as ending:
            main()
    assert ending.value.code == 0
    return root


def test_a_run_writes_records_tables_figures_and_claims(tiny: Path, store: Path) -> None:
    folder = tiny.parent / "results"
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {
        "results.jsonl",
        "README.md",
        "report.html",
        "claims.md",
        "claims.csv",
    } <= names
    assert {"tables/table2.md", "tables/table2.tex", "tables/table2.csv"} <= names
    assert {
        "figures/figure4-heatmap.pdf",
        "figures/figure4-heatmap.png",
        "figures/figure1-masking.png",
    } <= names
    assert (folder / "figures/figure4-heatmap.pdf").read_bytes().startswith(b"%PDF")
    results = load_results(folder / "results.jsonl")
    assert [r.label for r in results] == ["initial", "ideal", "FT", "SRL", "SRL-FOCUS"]
    page = (folder / "README.md").read_text()
    assert "3 of 3 unlearning runs finished" in page
    for line in page.splitlines():
        if line.startswith("!["):
            assert (folder / line.split("(")[1].rstrip(")")).is_file()


@pytest.mark.thorough
def test_a_run_by_a_worker_writes_the_same_files_and_every_figure(
    tiny: Path, store: Path, expunge: Expunge, tmp_path: Path
) -> None:
    arguments = ("-s", tmp_path / "store", "-o", tmp_path / "results", "--workers", 1)
    assert expunge("bench", "run", tiny, *arguments).code == 0
    both = [
        {path.relative_to(folder): path.stat().st_size for path in folder.rglob("*")}
        for folder in (tiny.parent / "results", tmp_path / "results")
    ]
    assert both[0].keys() == both[1].keys()
    assert all(both[1].values())
    results = load_results(tmp_path / "results" / "results.jsonl")
    assert [r.label for r in results] == ["initial", "ideal", "FT", "SRL", "SRL-FOCUS"]


def test_a_second_run_computes_nothing_and_writes_the_same(
    tiny: Path, store: Path, expunge: Expunge
) -> None:
    results = tiny.parent / "results"
    before = {path: path.read_bytes() for path in results.glob("*.*")}
    again = expunge("bench", "run", tiny, "-s", store, "-o", results)
    assert again.code == 0
    assert "0 done, 4 already there" in again.err
    assert {path: path.read_bytes() for path in results.glob("*.*")} == before


def test_what_is_finished_is_written_without_running_the_rest(
    tiny: Path, store: Path, expunge: Expunge, tmp_path: Path
) -> None:
    longer = tmp_path / "longer.toml"
    longer.write_text(tiny.read_text().replace("seeds = [0]", "seeds = [0, 1]"))
    kept = sorted(path.name for path in store.glob("*/*"))
    written = expunge("bench", "run", longer, "-s", store, "-o", tmp_path / "out", "--finished")
    assert written.code == 0
    assert "3 of 6 unlearning runs finished" in (tmp_path / "out" / "README.md").read_text()
    assert sorted(path.name for path in store.glob("*/*")) == kept
    none = ("-s", tmp_path / "none", "-o", tmp_path / "nothing")
    refused = expunge("bench", "run", longer, *none, "--finished")
    assert refused.code == 2
    assert "Nothing of longer is finished" in refused.err
    assert not (tmp_path / "nothing").exists()


def test_what_is_finished_of_other_blocks_is_published_too_and_nothing_that_is_not(
    tiny: Path, store: Path, expunge: Expunge, tmp_path: Path
) -> None:
    text = tiny.read_text()
    both = text + text[text.index("[[block]]") :].replace('"tiny"', '"other"')
    (tmp_path / "both.toml").write_text(both.replace("random:0.3", "random:0.2", 1))
    stale, foreign = tmp_path / "out/tables/texts.md", tmp_path / "out/tables/mine.md"
    stale.parent.mkdir(parents=True)
    for path in (stale, foreign):
        path.write_text("of an earlier time")
    where = ("-s", store, "-o", tmp_path / "out", "--finished")
    assert expunge("bench", "run", tmp_path / "both.toml", *where, "--only", "tiny").code == 0
    assert "3 of 6 unlearning runs finished" in (tmp_path / "out/README.md").read_text()
    assert {r.block for r in load_results(tmp_path / "out/results.jsonl")} == {"other"}
    assert (stale.exists(), foreign.exists()) == (False, True)


def test_a_plan_counts_without_data_or_a_store(expunge: Expunge, tmp_path: Path) -> None:
    plan = expunge("bench", "plan", "paper", "-s", tmp_path / "none")
    assert plan.code == 0
    assert "360 configurations of method and add-on, 72 of baselines; 3 seeds: 1296" in plan.out
    rows = {line.split()[0]: line.split()[1:] for line in plan.out.splitlines() if line.strip()}
    assert rows["initial"] == ["1,296", "1,284", "12", "0", "12"]
    assert rows["ideal"] == ["1,296", "1,224", "72", "0", "72"]
    assert rows["unlearn"] == ["1,296", "0", "1,296", "0", "1,296"]
    assert not (tmp_path / "none").exists()


def test_the_first_seeds_can_be_asked_for(tiny: Path, expunge: Expunge, tmp_path: Path) -> None:
    plan = ("bench", "plan", tiny, "-s", tmp_path / "none", "--json")
    counts = [json.loads(expunge(*plan, "--seeds", n).out) for n in (1, 2)]
    assert [(count["seeds"], count["runs"]) for count in counts] == [(1, 3), (2, 6)]
    assert expunge(*plan, "--seeds", 0).code == 2


def test_a_plan_knows_what_is_there(tiny: Path, store: Path, expunge: Expunge) -> None:
    done = expunge("bench", "plan", tiny, "-s", store)
    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines() if line.strip()}
    assert rows["unlearn"][3:5] == ["3", "0"]


def test_status_shows_what_failed_and_why(
    tiny: Path, store: Path, expunge: Expunge, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = expunge("bench", "status", tiny, "-s", store)
    assert done.code == 0
    assert "Resume with" not in done.out
    fails = write_tiny(tiny.parent / "..", ('data = "digits"\nlimit = 60\n', 'data = "cifar10"\n'))
    away = fails.parent / "away"
    away.mkdir()
    root = fails.parent / "other-store"
    monkeypatch.setattr("expunge.dispatch.RayEngine", lambda store, **_: InlineEngine(store))
    inline = ("--engine", "ray")
    failed = expunge("bench", "run", fails, "-s", root, "-o", away / "r", "-d", away, *inline)
    assert failed.code == 2
    assert "stages failed, the first" in failed.err
    status = expunge("bench", "status", fails, "-s", root, "-v")
    assert "failed: tiny, seed 0: initial" in status.out
    assert "DataError" in status.out
    assert "Traceback" in status.out
    assert "Resume with" in status.out


def test_tables_in_every_format(tiny: Path, store: Path, expunge: Expunge) -> None:
    shown = expunge("bench", "table", tiny, "-s", store, "--name", "table2")
    assert "SRL-FOCUS" in shown.out
    latex = expunge("bench", "table", tiny, "-s", store, "--name", "table2", "-f", "latex")
    assert r"\toprule" in latex.out
    text = expunge("bench", "table", tiny, "-s", store, "--name", "table1", "-f", "csv").out
    rows = list(csv.DictReader(text.splitlines()))
    assert {row["label"] for row in rows} >= {"SRL", "SRL-FOCUS"}


def test_records_can_be_kept_and_read_without_the_store(
    tiny: Path, store: Path, expunge: Expunge, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text((tiny.parent / "results" / "results.jsonl").read_text())
    direct = expunge("bench", "claims", tiny, "-s", store, "-f", "csv")
    from_file = expunge("bench", "claims", "-r", path, "-f", "csv")
    assert direct.out == from_file.out != ""
    path.write_text(path.read_text().replace('"settings"', '"setting"', 1))
    damaged = expunge("bench", "claims", "-r", path)
    assert damaged.code == 2
    assert "line 1: this is not a result" in damaged.err
    path.write_text("")
    for command in ("claims", "table", "figure"):
        assert "There are no results in" in expunge("bench", command, "-r", path).err


def test_figures_by_name(tiny: Path, store: Path, expunge: Expunge, tmp_path: Path) -> None:
    drawn = expunge("bench", "figure", tiny, "-s", store, "-n", "heatmap", "-o", tmp_path)
    assert drawn.code == 0
    assert {p.name for p in tmp_path.iterdir()} == {"figure4-heatmap.pdf", "figure4-heatmap.png"}
    lacking = expunge("bench", "figure", tiny, "-s", store, "-n", "baselines-ngplus")
    assert lacking.code == 2
    assert "cannot be drawn" in lacking.err


def test_trackers_get_every_run_once(
    tiny: Path, store: Path, expunge: Expunge, tmp_path: Path
) -> None:
    for _ in range(2):
        arguments = ("-o", tiny.parent / "results", "--track", f"tensorboard:{tmp_path / 'tb'}")
        assert expunge("bench", "run", tiny, "-s", store, *arguments).code == 0
    events = [path for path in (tmp_path / "tb").rglob("*") if path.is_file()]
    assert len({path.parent for path in events}) == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "papper"), "There is no protocol 'papper'"),
        (("run", "demo", "--only", "cifar"), "has no block 'cifar'"),
        (("run", "demo", "--address", "auto"), "--engine ray"),
        (("run", "demo", "--track", "zzz"), "Unknown tracker 'zzz'"),
        (("run", "demo", "--track", "mlflow:zzz://nowhere"), "MLflow cannot use the store"),
        (("table",), "Give a protocol, or --results FILE"),
        (("run", "cpu", "--data", "/nowhere"), "There is no folder /nowhere"),
    ],
)
def test_wrong_usage_ends_with_2(
    expunge: Expunge, store: Path, tiny: Path, arguments: tuple[str, ...], words: str
) -> None:
    swapped = [str(tiny) if a == "demo" and arguments[0] == "table" else a for a in arguments]
    ending = expunge("bench", *swapped, "-s", store)
    assert ending.code == 2
    assert words in ending.err


@pytest.mark.parametrize("out", ["file", "file/below", "bench-results"])
def test_results_that_cannot_be_written_are_an_error_before_anything_is_trained(
    out: str, tiny: Path, expunge: Expunge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / out.partition("/")[0]).write_text("somebody's")
    named = () if out == "bench-results" else ("-o", out)
    got = expunge("bench", "run", tiny, "-s", tmp_path / "store", *named)
    assert got.code == 2
    assert f"{out.partition('/')[0]} should be a folder. (got a file)" in " ".join(got.err.split())
    assert not (tmp_path / "store").exists()


def test_nothing_finished_is_said(expunge: Expunge, tmp_path: Path) -> None:
    ending = expunge("bench", "table", "demo", "-s", tmp_path / "empty")
    assert ending.code == 2
    assert "Start with `expunge bench run demo`" in ending.err


def test_a_store_of_a_newer_version_is_refused(
    tiny: Path, expunge: Expunge, tmp_path: Path
) -> None:
    root = tmp_path / "newer"
    assert expunge("bench", "status", tiny, "-s", root).code == 0
    from expunge.store import Store

    Store(root).prepare()
    mark = next(path for path in root.iterdir() if path.is_file())
    notes = json.loads(mark.read_text())
    notes["format"] = 99
    mark.write_text(json.dumps(notes))
    ending = expunge("bench", "run", tiny, "-s", root, "-o", tmp_path / "out")
    assert ending.code == 2
    assert "newer" in ending.err


def test_a_protocol_can_be_printed_as_a_start(expunge: Expunge, tmp_path: Path) -> None:
    text = expunge("bench", "show", "demo").out
    path = tmp_path / "mine.toml"
    path.write_text(text)
    assert expunge("bench", "plan", path, "-s", tmp_path / "s").code == 0
