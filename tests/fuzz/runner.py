"""Run a case of the corpus: the outcome is as expected, or it is bad."""

from __future__ import annotations

import codecs
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from expunge._errors import ExpungeError
from tests.fuzz.corpus import Case

SECONDS = 120
"""A case that takes longer hangs."""


class Hangs(BaseException):
    """A case that did not end."""


def run_case(case: Case, world: Any) -> str:
    """Run one case; what is bad about its outcome, or nothing.

    Bad are: an exception that the package did not raise on purpose, a hang, a refusal without the
    expected words, an acceptance of what should be refused, and the reverse.
    """
    from tests.fuzz import makers

    make: Callable[[str, Path, Any], Any] = getattr(makers, f"run_{case.kind}")
    with tempfile.TemporaryDirectory() as name, _timed(), _restored_folder():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = make(case.text, Path(name), world)
            got = f"ok: {result!r}"
        except ExpungeError as error:
            got = f"refused: {error}"
        except Hangs:
            got = f"hangs for {SECONDS} s"
        except Exception as error:
            got = f"raw {type(error).__name__}: {error}"
    return (
        ""
        if matches(got, case.expected)
        else f"{case}: {case.text!r} should be {case.expected!r}. (got {got[:400]!r})"
    )


@contextmanager
def folder_of_its_own() -> Iterator[Path]:
    """A temporary folder, where the user's cache and id key are looked for as well."""
    with tempfile.TemporaryDirectory() as name:
        places = {"EXPUNGE_CACHE": f"{name}/cache", "EXPUNGE_ID_KEY": f"{name}/config/id.key"}
        with mock.patch.dict(os.environ, places):
            yield Path(name)


def matches(got: str, expected: str) -> bool:
    """Whether an outcome is the expected one.

    >>> matches("refused: `p` should be a number. (got 'a')", "refused: `p` should be")
    True
    >>> matches("ok: 5", "refused: `p` should be")
    False
    """
    wanted, _, words = expected.partition(":")
    return got.startswith(f"{wanted}: ") and words.strip() in got.partition(": ")[2]


def unescape(text: str) -> str:
    """A line of the corpus as the text it stands for.

    >>> unescape("a\\\\n\\\\u2028")
    'a\\n\\u2028'
    """
    return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")


@contextmanager
def _timed() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _restored_folder() -> Iterator[None]:
    """Work in a folder of its own: what a case leaves in the current one goes with it."""
    before, scratch = Path.cwd(), tempfile.mkdtemp()
    os.chdir(scratch)
    try:
        yield
    finally:
        os.chdir(before)
        shutil.rmtree(scratch, ignore_errors=True)
