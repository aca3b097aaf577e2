from __future__ import annotations

from pathlib import Path

import pytest

from expunge.request import verify
from tests.fuzz.many_requests import carry_out_all


@pytest.mark.thorough
def test_requests_one_after_another_leave_the_model_as_accurate(tmp_path: Path) -> None:
    *requests, retrained = carry_out_all(tmp_path, 4)
    accuracies = [row[3] for row in requests]
    assert len(accuracies) == 4
    assert min(accuracies) > retrained[3] - 5
    assert all(row[5] < 10 for row in requests), "most answers stay as they were"
    assert [each.ok for each in verify(tmp_path / "requests", quick=True)] == [True] * 4
