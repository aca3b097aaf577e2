"""The graph of the stages to run, in an order that puts parents first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from expunge._errors import InvalidInput
from expunge.store import Stage, Store


class Graph:
    """The stages and ancestors of ``stages`` that are not in the store.

    A stored stage needs no parents, so parents are considered only where a child is missing:
    results that nothing depends on any more may be removed. Stages with equal keys are one stage.
    """

    def __init__(self, stages: Iterable[Stage], store: Store) -> None:
        self.found: list[Stage] = []
        self.missing: dict[str, Stage] = {}
        self._children: dict[str, list[Stage]] = {}
        self._pending: dict[str, set[str]] = {}
        self._ready: list[tuple[float, int, Stage]] = []
        self._order: dict[str, int] = {}
        self._find_missing(stages, store)
        for stage in self.missing.values():
            self._pending[stage.key] = {p.key for p in stage.parents if p.key in self.missing}
            for key in self._pending[stage.key]:
                self._children.setdefault(key, []).append(stage)
        for stage in self.missing.values():
            self._offer(stage)

    def _find_missing(self, stages: Iterable[Stage], store: Store) -> None:
        seen: set[str] = set()
        queue = list(stages)
        if wrong := [stage for stage in queue if not isinstance(stage, Stage)]:
            raise InvalidInput(f"`stages` should be stages. (got {wrong[0]!r})")
        queue.reverse()
        while queue:
            stage = queue.pop()
            if stage.key in seen:
                continue
            seen.add(stage.key)
            self._order[stage.key] = len(self._order)
            if store.intact(stage):
                self.found.append(stage)
            else:
                self.missing[stage.key] = stage
                queue.extend(reversed(stage.parents))

    def _offer(self, stage: Stage) -> None:
        if not self._pending[stage.key]:
            self.put_back(stage)

    def put_back(self, stage: Stage) -> None:
        """Make a stage ready (again)."""
        heapq.heappush(self._ready, (-stage.cost, self._order[stage.key], stage))

    def take(self) -> Stage | None:
        """Take the most costly stage that can be run now; of equals, the one listed first."""
        return heapq.heappop(self._ready)[2] if self._ready else None

    def complete(self, stage: Stage) -> None:
        """Note that a stage is in the store; its children may be ready."""
        for child in self._children.get(stage.key, []):
            self._pending[child.key].discard(stage.key)
            self._offer(child)

    def descendants(self, stage: Stage) -> Iterator[Stage]:
        """Every missing stage that depends on ``stage``, once each."""
        seen: set[str] = set()
        queue = [stage]
        while queue:
            for child in self._children.get(queue.pop().key, []):
                if child.key not in seen:
                    seen.add(child.key)
                    queue.append(child)
                    yield child
