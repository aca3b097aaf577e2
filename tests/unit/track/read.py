"""What the trackers' own libraries find in their stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto.wandb_internal_pb2 import Record
from wandb.sdk.internal.datastore import DataStore

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


def wandb_run(folder: Path) -> tuple[str, dict[str, Any], Curves, int | None]:
    """Name, configuration, curves and exit code of the only offline run in a folder."""
    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    log = DataStore()
    log.open_for_scan(str(path))
    name, config, curves, code = "", {}, Curves(), None
    while (found := log.scan_data()) is not None:
        record = Record.FromString(found)
        if record.WhichOneof("record_type") == "run":
            name = record.run.display_name
            config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        elif record.WhichOneof("record_type") == "history":
            row = {i.key or i.nested_key[0]: i.value_json for i in record.history.item}
            for key, value in row.items():
                if not key.startswith("_"):
                    curves.setdefault(key, []).append((int(row["_step"]), float(value)))
        elif record.WhichOneof("record_type") == "exit":
            code = record.exit.exit_code
    log.close()
    return name, config, curves, code
