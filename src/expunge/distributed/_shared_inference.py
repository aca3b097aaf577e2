"""Forward passes over a data set, divided among processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from expunge.distributed._group import SINGLE, Group

T = TypeVar("T")

_GROUP: ContextVar[Group] = ContextVar("group", default=SINGLE)


@contextmanager
def shared_inference(group: Group) -> Iterator[None]:
    """Within, every process predicts a part of each data set and receives all predictions.

    This is not automatic where there is a process group: one process alone may want to evaluate.
    """
    before = _GROUP.set(group)
    try:
        yield
    finally:
        _GROUP.reset(before)


def inference_group() -> Group:
    """The processes that share forward passes here."""
    return _GROUP.get()


def interleave(group: Group, items: Sequence[T]) -> list[T]:
    """All items in order, where process r of N has the items r, r+N, r+2N, …"""
    lists = group.exchange(list(items))
    return [lists[j % group.size][j // group.size] for j in range(sum(map(len, lists)))]
