"""Runs in MLflow, through its client: nothing global, so trackers do not meet."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from typing import Any

from expunge._errors import InvalidInput
from expunge.track._interface import KEY, Status, Value
from expunge.track._optional_package import need
from expunge.track._written_values import Ledger, Names

LOCAL = "sqlite:///mlflow.db"
METRICS_A_BATCH = 1000  # MLflow's limits
PARAMS_A_BATCH = 100
HOLD = 1.0  # seconds that values wait for others, to be written together


class MlflowTracker:
    """A local database (``sqlite:///path.db``) or a server (``http://...``).

    Without ``store``, the environment's ``MLFLOW_TRACKING_URI`` or ``mlflow.db`` in the current
    folder. A run with the same ``expunge.key`` in the same experiment is taken up, not repeated: it
    gets the steps, parameters and tags that it lacks. MLflow's usage reports are turned off unless
    the environment says otherwise.
    """

    def __init__(self, store: str | None = None, *, experiment: str = "expunge") -> None:
        self.store = store or os.environ.get("MLFLOW_TRACKING_URI") or LOCAL
        self.experiment = experiment
        self.run_id: str | None = None
        self._ledger = Ledger()
        self._pending: list[Any] = []
        self._written = 0.0
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        # Deprecations between MLflow and its own parts, while it loads them.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self._mlflow = need("mlflow", extra="mlflow")
            self._entities = need("mlflow.entities", extra="mlflow")
            if self.store.startswith("sqlite:"):
                need("sqlalchemy", extra="mlflow")
                need("alembic", extra="mlflow")
            self._experiment_id = self._open()

    def _open(self) -> str:
        try:
            self._client = self._mlflow.MlflowClient(tracking_uri=self.store)
            found = self._client.get_experiment_by_name(self.experiment)
            if found is None:
                return str(self._client.create_experiment(self.experiment))
        except Exception as error:  # of MLflow, of the database's driver, of the disk
            raise InvalidInput(
                f"MLflow cannot use the store {self.store!r}; a local one is "
                f"`mlflow:sqlite:///path/to/mlflow.db`. ({error})"
            ) from error
        if found.lifecycle_stage == "deleted":
            raise InvalidInput(
                f"The experiment {self.experiment!r} is deleted in {self.store}. Restore it, or "
                "choose another name."
            )
        return str(found.experiment_id)

    @property
    def left_out(self) -> int:
        """Values of the current run that are not finite."""
        return self._ledger.left_out

    def start(self, name: str, params: Mapping[str, Value], tags: Mapping[str, str]) -> None:
        """Open the run of this key, new or known."""
        key = tags.get(KEY, name)
        self.run_id, self._ledger, self._pending = None, Ledger(), []
        self._written = time.monotonic()
        names = Names()
        named = {names[tag]: str(value) for tag, value in {**tags, KEY: key}.items()}
        found = self._find(key)
        if found is None:
            found = self._client.create_run(self._experiment_id, run_name=name, tags=named)
        else:
            self._take_up(found, named)
        self.run_id = found.info.run_id
        self._write_params(params, found.data.params)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write the values of one step; those that come within a second, together."""
        if self.run_id is None:
            raise InvalidInput("Start a run before you log to it.")
        now = int(time.time() * 1000)
        for name, value in self._ledger.admit(values, step).items():
            self._pending.append(self._entities.Metric(name, value, now, step))
        late = time.monotonic() - self._written > HOLD
        if late or len(self._pending) >= METRICS_A_BATCH:
            self._write_pending()

    def finish(self, status: Status) -> None:
        """Write what waits, and close the run."""
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
        chosen = f"tags.`{KEY}` = '{key}'"
        found = self._client.search_runs([self._experiment_id], chosen, max_results=1)
        return found[0] if found else None

    def _take_up(self, run: Any, tags: Mapping[str, str]) -> None:
        run_id = run.info.run_id
        self._client.update_run(run_id, status="RUNNING")
        changed = {tag: value for tag, value in tags.items() if run.data.tags.get(tag) != value}
        self._client.log_batch(
            run_id, tags=[self._entities.RunTag(tag, value) for tag, value in changed.items()]
        )
        for metric in run.data.metrics:
            for point in self._client.get_metric_history(run_id, metric):
                self._ledger.note(metric, point.step)

    def _write_params(self, params: Mapping[str, Value], known: Mapping[str, str]) -> None:
        names = Names()
        named = {names[name]: str(value) for name, value in params.items()}
        # MLflow does not let a parameter change: the first value stays.
        new = [self._entities.Param(n, v) for n, v in named.items() if n not in known]
        for first in range(0, len(new), PARAMS_A_BATCH):
            self._client.log_batch(self.run_id, params=new[first : first + PARAMS_A_BATCH])

    def _write_pending(self) -> None:
        while self._pending:
            self._client.log_batch(self.run_id, metrics=self._pending[:METRICS_A_BATCH])
            del self._pending[:METRICS_A_BATCH]
        self._written = time.monotonic()
