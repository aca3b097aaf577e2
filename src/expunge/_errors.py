"""The errors this package raises on purpose; each message names a remedy."""

from __future__ import annotations

from typing import Any


class ExpungeError(Exception):
    """Base of every error this package raises on purpose."""


class InvalidInput(ExpungeError, ValueError):
    """A value, a name or a combination that cannot be used as given."""


class DataError(ExpungeError):
    """A dataset or file that is missing, truncated, tampered with or of another format."""


class StorageError(ExpungeError):
    """A file that could not be written or must not be overwritten; no data was lost."""


class LostProcess(ExpungeError):
    """Another process of a data-parallel job has ended or does not respond."""


class Diverged(ExpungeError):
    """A non-finite loss or gradient stopped a run.

    ``result`` holds the model with the last good weights and the history up to that point.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class PluginWarning(UserWarning):
    """A plug-in of another package is left out; the message names it and says why."""
