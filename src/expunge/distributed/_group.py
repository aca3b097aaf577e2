"""The processes that work together, and their collective operations.

In a single process every call does nothing and returns what that process has, so that callers need
not ask how many processes there are.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from expunge._errors import ExpungeError, InvalidInput, LostProcess

T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """``size`` processes, of which this one is number ``rank``; false where it is alone.

    All calls are collective: every process makes the same ones in the same order. If a process
    ends early, they raise :class:`~expunge._errors.LostProcess` in the others.

    >>> alone = Group()
    >>> bool(alone), alone.any(True), alone.exchange("me")
    (False, True, ['me'])
    """

    rank: int = 0
    size: int = 1
    processes: Any = field(default=None, repr=False)
    """The process group of torch; None means the default one."""

    def __bool__(self) -> bool:
        return self.size > 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and prints messages."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """The device from which small tensors are sent: the CPU if the backend supports it."""
        if "cpu:" in str(dist.get_backend_config(self.processes)):
            return torch.device("cpu")
        return torch.device("cuda", torch.cuda.current_device())

    @property
    def _first_rank(self) -> int:
        """The global rank of the first process."""
        return 0 if self.processes is None else dist.get_global_rank(self.processes, 0)

    def start_sum(self, tensor: Tensor) -> Callable[[], None]:
        """Begin to sum ``tensor`` over all processes, in place; call what is returned to wait."""
        with reporting_lost_processes():
            work = dist.all_reduce(tensor, group=self.processes, async_op=True)
        assert work is not None

        def wait() -> None:
            with reporting_lost_processes():
                work.wait()

        return wait

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of ``tensor`` over all processes, in place; the same bits everywhere."""
        if self:
            self.start_sum(tensor)()
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        """Every process's ``tensor``, all of one shape, along a new first dimension."""
        pieces = [torch.empty_like(tensor) for _ in range(self.size)]
        with reporting_lost_processes():
            dist.all_gather(pieces, tensor, group=self.processes)
        return torch.stack(pieces)

    def average(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The mean of each tensor over all processes."""
        if not self:
            return list(tensors)
        means = [(tensor.detach() * (1.0 / self.size)).contiguous() for tensor in tensors]
        for wait in [self.start_sum(mean) for mean in means]:
            wait()
        pairs = zip(tensors, means, strict=True)  # in the memory order of the tensors
        return [torch.empty_like(tensor).copy_(mean) for tensor, mean in pairs]

    def copy_from_first(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite ``tensors`` with those of the first process."""
        if not self:
            return
        with reporting_lost_processes(), torch.no_grad():
            for tensor in tensors:
                copied = tensor.detach().contiguous()
                dist.broadcast(copied, self._first_rank, group=self.processes)
                tensor.copy_(copied)

    def any(self, flag: bool) -> bool:
        """Whether ``flag`` is true in any process."""
        return self.largest(float(flag))[0] > 0 if self else flag

    def largest(self, *values: float) -> list[float]:
        """The largest of each value over all processes."""
        if not self:
            return list(values)
        packed = torch.tensor(values, dtype=torch.float64, device=self.device)
        with reporting_lost_processes():
            dist.all_reduce(packed, op=dist.ReduceOp.MAX, group=self.processes)
        return packed.tolist()

    def exchange(self, value: Any) -> list[Any]:
        """Every process's ``value``, in their order."""
        if not self:
            return [value]
        values: list[Any] = [None] * self.size
        with reporting_lost_processes():
            dist.all_gather_object(values, value, group=self.processes)
        return values

    def run_in_first(self, make: Callable[[], T]) -> T:
        """What ``make`` returns in the first process; all processes raise what it raises there."""
        if not self:
            return make()
        answer: list[Any] = [None, None]
        if self.is_first:
            try:
                answer[0] = make()
            except Exception as error:
                answer[1] = _sendable(error)
        with reporting_lost_processes():
            dist.broadcast_object_list(answer, self._first_rank, group=self.processes)
        if answer[1] is not None:
            raise answer[1]
        return answer[0]  # type: ignore[no-any-return]

    def check_agreement(self, arguments: dict[str, Any]) -> None:
        """Raise, in every process, if they were given different ``arguments``."""
        texts = [{k: repr(v) for k, v in values.items()} for values in self.exchange(arguments)]
        names = sorted({k for text in texts for k in text})
        differing = [k for k in names if len({text.get(k) for text in texts}) > 1]
        if differing:
            first, other = (next(s for s in texts if s != texts[0]), texts[0])
            raise InvalidInput(
                "Every process of a job should be given the same; they differ in "
                f"{', '.join(differing)}. (got {other.get(differing[0])} and "
                f"{first.get(differing[0])})"
            )


SINGLE = Group()
"""This process alone."""


def as_group(choice: Group | Any | Literal["auto"] | None) -> Group:
    """A group from None (alone), ``auto`` (the default process group, if any), or one of torch."""
    if choice is None:
        return SINGLE
    if isinstance(choice, Group):
        return choice
    if choice == "auto":
        if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
            return SINGLE
        return Group(dist.get_rank(), dist.get_world_size())
    if not (dist.is_available() and isinstance(choice, dist.ProcessGroup)):
        raise InvalidInput(
            f'`group` should be a process group of torch.distributed, "auto" or None. '
            f"(got {choice!r})"
        )
    return Group(dist.get_rank(choice), dist.get_world_size(choice), choice)


def check_same_bits(group: Group, digest: str) -> None:
    """Raise, in every process, if the digests of their weights differ."""
    digests = group.exchange(digest)
    others = [k for k, other in enumerate(digests) if other != digests[0]]
    if others:
        raise ExpungeError(
            "Every process should end with the same weights, to the last bit; those of process "
            f"{others[0]} differ from those of process 0. A callback that changes the model in "
            "one process only, or machines of different kinds, can do that."
        )


@contextmanager
def reporting_lost_processes() -> Iterator[None]:
    """Turn a backend's error about a process that is gone into a :class:`LostProcess`."""
    try:
        yield
    except RuntimeError as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise LostProcess(
            "Another process of this job has ended or did not answer in time. Its own message, if "
            "it printed one, says why. If the run has a checkpoint, start the same job again to "
            f"resume from it. ({reason})"
        ) from error


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return ExpungeError(f"{type(error).__name__}: {error}")
    return error


_GROUP: ContextVar[Group] = ContextVar("group", default=SINGLE)


@contextmanager
def shared_inference(group: Group) -> Iterator[None]:
    """Within, every process predicts a part of each data set and receives all predictions."""
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
