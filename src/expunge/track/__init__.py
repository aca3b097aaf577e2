"""Experiment trackers, all optional: log what a run measures to MLflow or TensorBoard."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.track._callback import Track as Track
    from expunge.track._callback import track_runs as track_runs
    from expunge.track._trackers import TRACKERS as TRACKERS
    from expunge.track._trackers import MlflowTracker as MlflowTracker
    from expunge.track._trackers import TensorBoardTracker as TensorBoardTracker
    from expunge.track._trackers import Tracker as Tracker
    from expunge.track._trackers import open_tracker as open_tracker
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
