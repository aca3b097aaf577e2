"""Experiments over several seeds, their tables and figures."""

from expunge.bench.demo import Demo as Demo
from expunge.bench.demo import run_demo as run_demo
from expunge.bench.tables import Group as Group
from expunge.bench.tables import Row as Row
from expunge.bench.tables import Summary as Summary
