"""Experiment trackers, all optional: log what a run measures to MLflow, TensorBoard or W&B."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.track._callback import TRACKERS as TRACKERS
    from expunge.track._callback import Track as Track
    from expunge.track._callback import Tracker as Tracker
    from expunge.track._callback import open_tracker as open_tracker
    from expunge.track._callback import track_runs as track_runs
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
