"""Experiment trackers, all optional: MLflow and TensorBoard see what a run measures."""

from expunge.track.callback import Track as Track
from expunge.track.mlflow import MlflowTracker as MlflowTracker
from expunge.track.runs import track_runs as track_runs
from expunge.track.tensorboard import TensorBoardTracker as TensorBoardTracker
from expunge.track.tracker import TRACKERS as TRACKERS
from expunge.track.tracker import Tracker as Tracker
from expunge.track.tracker import open_tracker as open_tracker
