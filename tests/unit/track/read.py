"""What the trackers' own libraries find in their stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

Curves = dict[str, list[tuple[int, float]]]


def mlflow_runs(store: str, experiment: str = "expunge") -> list[Any]:
    client = MlflowClient(tracking_uri=store)
    found = client.get_experiment_by_name(experiment)
    return list(client.search_runs([found.experiment_id], order_by=["tags.mlflow.runName"]))


def mlflow_curves(store: str, run: Any) -> Curves:
    client = MlflowClient(tracking_uri=store)
    return {
        name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)]
        for name in run.data.metrics
    }


def events(folder: Path) -> EventAccumulator:
    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def tensorboard_curves(folder: Path) -> Curves:
    found = events(folder)
    return {
        name: [(e.step, e.value) for e in found.Scalars(name)] for name in found.Tags()["scalars"]
    }


def tensorboard_text(folder: Path, title: str) -> str:
    (event,) = events(folder).Tensors(f"{title}/text_summary")
    return str(event.tensor_proto.string_val[0].decode())
