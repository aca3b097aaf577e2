"""Run a graph of stages: parents first, nothing twice, whatever happens to the workers."""

from expunge.dispatch.context import Context as Context
from expunge.dispatch.display import Display as Display
from expunge.dispatch.engine import Engine as Engine
from expunge.dispatch.engine import Event as Event
from expunge.dispatch.inline import InlineEngine as InlineEngine
from expunge.dispatch.local import LocalEngine as LocalEngine
from expunge.dispatch.outcome import Failure as Failure
from expunge.dispatch.outcome import Outcome as Outcome
from expunge.dispatch.ray import RayEngine as RayEngine
from expunge.dispatch.run import run as run
