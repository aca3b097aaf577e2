"""Commands, job files and protocols offer every option that a procedure declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from expunge.bench._protocol import Unlearning
from expunge.cli._forget import forget_command
from expunge.cli._unlearn import unlearn_command
from expunge.engine._procedure import PLAIN_OPTIONS
from expunge.request._job import Job

NAMES = {each.name for each in PLAIN_OPTIONS}


@pytest.mark.parametrize(
    ("command", "without"),
    [(unlearn_command, set()), (forget_command, {"epochs", "aggregate", "beta"})],
)
def test_a_command_offers_every_option(command: Callable[..., None], without: set[str]) -> None:
    assert NAMES - set(inspect.signature(command).parameters) == without


def test_a_job_and_a_protocol_take_every_option() -> None:
    assert NAMES - set(Job.model_fields) == {"epochs", "aggregate", "beta"}
    assert NAMES - set(Unlearning.model_fields) == {"method", "addon", "moments"}


@pytest.mark.parametrize("command", [unlearn_command, forget_command])
def test_what_is_not_given_is_left_to_the_method_or_a_file(command: Callable[..., None]) -> None:
    asked = inspect.signature(command).parameters
    assert all(asked[name].default is None for name in NAMES & set(asked))
