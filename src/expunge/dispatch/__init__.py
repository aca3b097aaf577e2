"""Run a graph of stages: parents first, nothing twice, whatever happens to the workers."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.dispatch._display import Display as Display
    from expunge.dispatch._engine import Engine as Engine
    from expunge.dispatch._engine import Event as Event
    from expunge.dispatch._engine import StageOutcome as StageOutcome
    from expunge.dispatch._execute import Context as Context
    from expunge.dispatch._execute import InlineEngine as InlineEngine
    from expunge.dispatch._local import LocalEngine as LocalEngine
    from expunge.dispatch._ray import RayEngine as RayEngine
    from expunge.dispatch._run import RunSummary as RunSummary
    from expunge.dispatch._run import run as run
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
