"""Ledgers are those of requests, which the tests of requests make."""

from __future__ import annotations

from tests.unit.request.conftest import _one_thread as _one_thread
from tests.unit.request.conftest import bare as bare
from tests.unit.request.conftest import finished as finished
from tests.unit.request.conftest import make_request as make_request
from tests.unit.request.conftest import named as named
from tests.unit.request.conftest import two_requests as two_requests
from tests.unit.request.conftest import weights as weights
