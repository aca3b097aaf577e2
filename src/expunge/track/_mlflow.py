"""Runs in MLflow, through its client: without global state, so trackers are independent."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from typing import Any

from expunge._errors import InvalidInput
from expunge.track._tracker import KEY, RunStatus, ValidNames, Value, WrittenValues, import_optional

LOCAL = "sqlite:///mlflow.db"
METRICS_PER_BATCH = 1000  # MLflow's limits
PARAMS_PER_BATCH = 100
MAX_WAIT = 1.0  # seconds that values wait for others, to be written together


class MlflowTracker:
    """A local database (``sqlite:///path.db``) or a server (``http://...``).

    Without ``store``, the environment's ``MLFLOW_TRACKING_URI`` or ``mlflow.db`` in the current
    folder. A run with the same ``expunge.key`` in the same experiment is resumed, not repeated: it
    gets the steps, parameters and tags that it lacks. MLflow's usage reports are turned off unless
    the environment turns them on.
    """

    def __init__(self, store: str | None = None, *, experiment: str = "expunge") -> None:
        self.store = store or os.environ.get("MLFLOW_TRACKING_URI") or LOCAL
        self.experiment = experiment
        self.run_id: str | None = None
        self._values = WrittenValues()
        self._pending: list[Any] = []
        self._written = 0.0
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        # MLflow raises deprecation warnings about its own parts while it loads them.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self._mlflow = import_optional("mlflow", extra="mlflow")
            self._entities = import_optional("mlflow.entities", extra="mlflow")
            if self.store.startswith("sqlite:"):
                import_optional("sqlalchemy", extra="mlflow")
                import_optional("alembic", extra="mlflow")
            self._experiment_id = self._open()

    def _open(self) -> str:
        try:
            self._client = self._mlflow.MlflowClient(tracking_uri=self.store)
            experiment = self._client.get_experiment_by_name(self.experiment)
            if experiment is None:
                return str(self._client.create_experiment(self.experiment))
        except Exception as error:  # of MLflow, of the database's driver, of the disk
            raise InvalidInput(
                f"MLflow cannot use the store {self.store!r}; a local one is "
                f"`mlflow:sqlite:///path/to/mlflow.db`. ({error})"
            ) from error
        if experiment.lifecycle_stage == "deleted":
            raise InvalidInput(
                f"The experiment {self.experiment!r} is deleted in {self.store}. Restore it, or "
                "choose another name."
            )
        return str(experiment.experiment_id)

    @property
    def left_out(self) -> int:
        """Values of the current run that are not finite."""
        return self._values.left_out

    def start(self, name: str, params: Mapping[str, Value], tags: Mapping[str, str]) -> None:
        """Open the run of this key: a new one, or one that MLflow has."""
        key = tags.get(KEY, name)
        self.run_id, self._values, self._pending = None, WrittenValues(), []
        self._written = time.monotonic()
        names = ValidNames()
        valid_tags = {names[tag]: str(value) for tag, value in {**tags, KEY: key}.items()}
        run = self._find(key)
        if run is None:
            run = self._client.create_run(self._experiment_id, run_name=name, tags=valid_tags)
        else:
            self._resume(run, valid_tags)
        self.run_id = run.info.run_id
        self._write_params(params, run.data.params)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write the values of one step; those within a second are written together."""
        if self.run_id is None:
            raise InvalidInput("Start a run before you log to it.")
        now = int(time.time() * 1000)
        for name, value in self._values.new_values(values, step).items():
            self._pending.append(self._entities.Metric(name, value, now, step))
        late = time.monotonic() - self._written > MAX_WAIT
        if late or len(self._pending) >= METRICS_PER_BATCH:
            self._write_pending()

    def finish(self, status: RunStatus) -> None:
        """Write what is pending, and close the run."""
        if self.run_id is None:
            return
        self._write_pending()
        if self.left_out:
            self._client.set_tag(self.run_id, "expunge.left_out", str(self.left_out))
        self._client.set_terminated(self.run_id, status.upper())
        self.run_id = None

    def _find(self, key: str) -> Any:
        if "'" in key or "\\" in key:
            raise InvalidInput(f"`{KEY}` should have no quotes and no backslashes. (got {key!r})")
        condition = f"tags.`{KEY}` = '{key}'"
        runs = self._client.search_runs([self._experiment_id], condition, max_results=1)
        return runs[0] if runs else None

    def _resume(self, run: Any, tags: Mapping[str, str]) -> None:
        run_id = run.info.run_id
        self._client.update_run(run_id, status="RUNNING")
        changed = {tag: value for tag, value in tags.items() if run.data.tags.get(tag) != value}
        self._client.log_batch(
            run_id, tags=[self._entities.RunTag(tag, value) for tag, value in changed.items()]
        )
        for metric in run.data.metrics:
            for point in self._client.get_metric_history(run_id, metric):
                self._values.mark(metric, point.step)

    def _write_params(self, params: Mapping[str, Value], existing: Mapping[str, str]) -> None:
        names = ValidNames()
        valid_params = {names[name]: str(value) for name, value in params.items()}
        # MLflow does not let a parameter change: the first value stays.
        new = [self._entities.Param(n, v) for n, v in valid_params.items() if n not in existing]
        for first in range(0, len(new), PARAMS_PER_BATCH):
            self._client.log_batch(self.run_id, params=new[first : first + PARAMS_PER_BATCH])

    def _write_pending(self) -> None:
        while self._pending:
            self._client.log_batch(self.run_id, metrics=self._pending[:METRICS_PER_BATCH])
            del self._pending[:METRICS_PER_BATCH]
        self._written = time.monotonic()
