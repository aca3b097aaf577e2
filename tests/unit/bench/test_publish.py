"""Results are written where their records have changed, or something is missing."""

from __future__ import annotations

from pathlib import Path

from expunge.bench._publish import write_overview
from tests.unit.bench import making


def test_a_folder_is_written_again_only_where_records_changed_or_a_file_is_missing(
    tmp_path: Path,
) -> None:
    runs = [making.run(95.0, addon=addon) for addon in ("none", "FOCUS", "PROB")]
    records = [making.reference("ideal", 90.0), *runs]
    written = write_overview(records, tmp_path).paths
    assert tmp_path / "table.md" in written
    assert write_overview(records, tmp_path).paths == ()

    (tmp_path / "table.md").unlink()
    assert write_overview(records, tmp_path).paths == written
    assert (tmp_path / "table.md").is_file()

    assert write_overview([*records, making.run(93.0, "NGPlus")], tmp_path).paths == written
