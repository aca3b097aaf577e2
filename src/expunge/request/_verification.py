"""What was checked of a request, what does not hold, and what could not be checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from expunge.request.evidence._sections import Status


@dataclass
class Verification:
    """What was checked of one request, and what does not hold.

    ``status`` is the request's verdict as its evidence states it; None if it cannot be read.
    ``not_verified`` says why its numbers were not recomputed; empty if they were. That hashes hold
    says nothing about the verdict.
    """

    number: int
    status: Status | None = None
    not_verified: str = ""
    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was found that does not hold."""
        return not self.problems

    @property
    def verified(self) -> bool:
        """Whether everything holds, the numbers and the verdict included."""
        return self.ok and not self.not_verified

    def note(self, what: str) -> None:
        """Add a line about what could not be checked, or says nothing."""
        self.lines.append(what)

    def add(self, holds: bool, claim: str, problem: str = "") -> None:
        """Add the result of checking ``claim``; ``problem`` describes it if it does not hold."""
        self.lines.append(f"{'holds' if holds else 'DOES NOT HOLD'}: {claim}")
        if not holds:
            self.problems.append(problem or claim)
