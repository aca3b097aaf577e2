"""The summary of a run of stages: what was done, found, failed and skipped."""

from __future__ import annotations

from dataclasses import dataclass, field

from expunge._errors import ExpungeError, StorageError
from expunge.store import Stage


@dataclass(frozen=True)
class Failure:
    """A stage that failed, and why; also recorded in the store's ``.failed/<key>.json``."""

    stage: Stage
    error: str
    message: str
    traceback: str = ""
    output: str = ""
    attempts: int = 1

    def __str__(self) -> str:
        return f"{self.stage.title}: {self.error}: {self.message}"


@dataclass
class RunSummary:
    """The stages of a run, by how they ended.

    ``found`` includes what another run computed in the meantime. ``skipped`` pairs a stage with the
    failed one it depends on, or with None where the run stopped early.
    """

    done: list[Stage] = field(default_factory=list)
    found: list[Stage] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    skipped: list[tuple[Stage, Stage | None]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every stage is in the store now."""
        return not self.failed and not self.skipped

    def __str__(self) -> str:
        return (
            f"{len(self.done)} done, {len(self.found)} already there, {len(self.failed)} failed, "
            f"{len(self.skipped)} skipped in {self.seconds:.1f} s"
        )

    def check(self) -> RunSummary:
        """Raise an error that names the first failure, if there is one."""
        if self.failed:
            first = self.failed[0]
            kind = StorageError if first.error in ("StorageError", "OSError") else ExpungeError
            raise kind(f"{self}. The first failure: {first}")
        return self
