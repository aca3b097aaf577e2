"""What was checked of a request, and what does not hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from expunge.request.evidence._sections import Status


@dataclass
class Verification:
    """What was checked of one request, and what does not hold.

    ``status`` is the request's verdict as its evidence states it; None if it cannot be read. That
    hashes hold says nothing about it.
    """

    number: int
    status: Status | None = None
    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return not self.problems

    def note(self, what: str) -> None:
        """Add a line about what could not be checked, or says nothing."""
        self.lines.append(what)

    def add(self, holds: bool, claim: str, problem: str = "") -> None:
        """Add the result of checking ``claim``; ``problem`` describes it if it does not hold."""
        self.lines.append(f"{'holds' if holds else 'DOES NOT HOLD'}: {claim}")
        if not holds:
            self.problems.append(problem or claim)
