"""Results are written where their results have changed, or something is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from expunge._files import write_text
from expunge.bench._publish import OVERVIEW_FIGURES, write_overview
from expunge.bench._results import Result
from expunge.bench.plots import WrittenFigures
from tests.unit.bench import making


def write_empty_figures(
    results: Sequence[Result], folder: Path, names: Sequence[str]
) -> WrittenFigures:
    """Files without content: what figures show is tested where they are drawn."""
    paths = [folder / f"{name}.png" for name in names]
    for path in paths:
        write_text(path, "")
    return WrittenFigures(paths)


def test_a_folder_is_written_again_only_where_records_changed_or_a_file_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expunge.bench._publish.write_figures", write_empty_figures)
    runs = [making.run(95.0, addon=addon) for addon in ("none", "FOCUS", "PROB")]
    results = [making.reference("ideal", 90.0), *runs]
    written = write_overview(results, tmp_path).paths
    assert tmp_path / "table.md" in written
    assert {tmp_path / f"{name}.png" for name in OVERVIEW_FIGURES} <= set(written)
    assert write_overview(results, tmp_path).paths == ()

    (tmp_path / "table.md").unlink()
    assert write_overview(results, tmp_path).paths == written
    assert (tmp_path / "table.md").is_file()

    assert write_overview([*results, making.run(93.0, "NGPlus")], tmp_path).paths == written
