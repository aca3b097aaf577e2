"""What a request took, by stage, and what retraining would take: two sections of the evidence."""

from __future__ import annotations

from pydantic import Field

from expunge.evidence._sections import Section


class StageSeconds(Section):
    """Seconds of each stage of a request, and in all."""

    loading: float = Field(description="Libraries, the model and the data.")
    preflight: float
    steps: float = Field(description="Gradient steps.")
    method: float = Field(description="What the method does between epochs, such as new targets.")
    checks: float = Field(description="Comparisons after epochs, and checkpoints.")
    audit: float
    page: float = Field(description="The files of the bundle, those made before the evidence.")
    total: float

    def in_words(self) -> str:
        """The stages in a sentence, those that took longest first.

        >>> StageSeconds(
        ...     loading=2.0, preflight=4.0, steps=22.0, method=0.2, checks=6.0, audit=7.0, page=2.0,
        ...     total=43.2,
        ... ).in_words()
        'took 43 s of processor time: 22 s gradient steps, 7 s audit, 6 s checks, 4 s preflight, \
2 s loading, 2 s page, 0 s method'
        """
        stages = {
            name: value
            for name, value in self.model_dump().items()
            if name in StageSeconds.model_fields and name != "total"
        }
        parts = (
            f"{value:.0f} s {'gradient steps' if name == 'steps' else name}"
            for name, value in sorted(stages.items(), key=lambda item: -item[1])
        )
        return f"took {self.total:.0f} s of processor time: {', '.join(parts)}"


class Seconds(Section):
    """Wall time of the request by stage (see ``StageSeconds``), and the same in processor time.

    ``unlearning`` is the sum of steps, method and checks.
    """

    loading: float
    preflight: float
    unlearning: float
    steps: float
    method: float
    checks: float
    audit: float
    page: float
    total: float
    processor: StageSeconds | None = None


class CostComparison(Section):
    """What the request took and what retraining would take; null where that is not known."""

    unlearning_seconds: float = Field(description="Wall time of the run, without its checks.")
    request_seconds: float | None = Field(
        default=None, description="Wall time of the whole request, up to the evidence."
    )
    request_processor_seconds: float | None = Field(
        default=None, description="The same in processor time."
    )
    retraining_seconds: float | None
    retraining_processor_seconds: float | None = None
    retraining_epochs: int | None = Field(default=None, description="As stated, or by the card.")
    ratio: float | None = Field(description="Retraining over the request, wall time.")
    note: str

    def with_request(self, seconds: Seconds) -> CostComparison:
        """The comparison with what the whole request took."""
        retraining, total = self.retraining_seconds, seconds.total
        return self.model_copy(
            update={
                "request_seconds": round(total, 2),
                "request_processor_seconds": (
                    None if seconds.processor is None else round(seconds.processor.total, 2)
                ),
                "ratio": round(retraining / total, 2) if retraining and total > 0 else None,
            }
        )
