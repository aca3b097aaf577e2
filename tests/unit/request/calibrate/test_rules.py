from __future__ import annotations

from typing import Any

import pytest

from expunge._errors import InvalidInput
from expunge.request.calibrate._rules import Rules


@pytest.mark.parametrize(
    "bad", [{"floor": -1.0}, {"depth": 1.0}, {"lr_cap": 0.5}, {"alpha_cap": 1.0}, {"pause": 0}]
)
def test_rules_should_make_sense(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Rules(**bad)
