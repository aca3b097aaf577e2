"""What may be written: finite values, under valid names, once a step."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Real
from typing import Any

LONGEST = 250  # characters of a name, MLflow's limit


def valid_name(name: str) -> str:
    """``name`` with what trackers refuse replaced.

    >>> valid_name("UA, %"), valid_name("/../test//RA"), valid_name("..")
    ('UA___', 'test/RA', '_')
    """
    parts = re.sub(r"[^\w.\-/]", "_", name).split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))[:LONGEST] or "_"


class Names:
    """Valid names, and different ones for different names.

    >>> names = Names()
    >>> names["UA %"], names["UA $"], names["UA %"]
    ('UA__', 'UA___2', 'UA__')
    """

    def __init__(self) -> None:
        self._valid: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._valid:
            self._valid[name] = self._free(valid_name(name))
        return self._valid[name]

    def _free(self, wanted: str) -> str:
        taken = set(self._valid.values())
        name, count = wanted, 1
        while name in taken:
            count += 1
            suffix = f"_{count}"
            name = wanted[: LONGEST - len(suffix)] + suffix
        return name


class Ledger:
    """The values of one run that are written already; ``left_out`` counts those that cannot be."""

    def __init__(self) -> None:
        self.left_out = 0
        self._names = Names()
        self._written: set[tuple[str, int]] = set()

    def note(self, name: str, step: int) -> None:
        """Take a value as written."""
        self._written.add((name, step))

    def admit(self, values: Mapping[str, Any], step: int) -> dict[str, float]:
        """What of ``values`` is finite and new at ``step``, under valid names."""
        admitted: dict[str, float] = {}
        for key, value in values.items():
            name = self._names[key]
            if (name, step) in self._written:
                continue
            self.note(name, step)
            if isinstance(value, Real) and math.isfinite(value):
                admitted[name] = float(value)
            else:
                self.left_out += 1
        return admitted
