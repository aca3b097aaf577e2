"""The stages that have to be run, in an order that puts parents first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from expunge._errors import InvalidInput
from expunge.store import Stage, Store


class Graph:
    """What is missing to have ``stages``.

    A stage that is complete needs no parents, so those are looked at only where a child of theirs
    is missing: results nothing depends on any more may be removed. Stages of one key are one.
    """

    def __init__(self, stages: Iterable[Stage], store: Store) -> None:
        self.found: list[Stage] = []
        self.missing: dict[str, Stage] = {}
        self._children: dict[str, list[Stage]] = {}
        self._pending: dict[str, set[str]] = {}
        self._ready: list[tuple[float, int, Stage]] = []
        self._order: dict[str, int] = {}
        self._survey(stages, store)
        for stage in self.missing.values():
            self._pending[stage.key] = {p.key for p in stage.parents if p.key in self.missing}
            for key in self._pending[stage.key]:
                self._children.setdefault(key, []).append(stage)
        for stage in self.missing.values():
            self._offer(stage)

    def _survey(self, stages: Iterable[Stage], store: Store) -> None:
        seen: set[str] = set()
        todo = list(stages)
        if wrong := [stage for stage in todo if not isinstance(stage, Stage)]:
            raise InvalidInput(f"`stages` should be stages. (got {wrong[0]!r})")
        todo.reverse()
        while todo:
            stage = todo.pop()
            if stage.key in seen:
                continue
            seen.add(stage.key)
            self._order[stage.key] = len(self._order)
            if store.intact(stage):
                self.found.append(stage)
            else:
                self.missing[stage.key] = stage
                todo.extend(reversed(stage.parents))

    def _offer(self, stage: Stage) -> None:
        if not self._pending[stage.key]:
            self.put_back(stage)

    def put_back(self, stage: Stage) -> None:
        """Make a stage ready (again)."""
        heapq.heappush(self._ready, (-stage.cost, self._order[stage.key], stage))

    def take(self) -> Stage | None:
        """The most costly stage that can be run now; of equals, the one named first."""
        return heapq.heappop(self._ready)[2] if self._ready else None

    def complete(self, stage: Stage) -> None:
        """A stage is in the store: its children may be ready."""
        for child in self._children.get(stage.key, []):
            self._pending[child.key].discard(stage.key)
            self._offer(child)

    def descendants(self, stage: Stage) -> Iterator[Stage]:
        """Every missing stage that depends on ``stage``, once each."""
        seen: set[str] = set()
        todo = [stage]
        while todo:
            for child in self._children.get(todo.pop().key, []):
                if child.key not in seen:
                    seen.add(child.key)
                    todo.append(child)
                    yield child
