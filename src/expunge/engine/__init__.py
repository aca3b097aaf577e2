"""``unlearn()`` and ``train()``: the loop, its history, checkpoint and resume."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.engine._callbacks import Callback as Callback
    from expunge.engine._execution import Execution as Execution
    from expunge.engine._history import History as History
    from expunge.engine._procedure import Procedure as Procedure
    from expunge.engine._recipe import Recipe as Recipe
    from expunge.engine._rewind import Rewind as Rewind
    from expunge.engine._run import Result as Result
    from expunge.engine._run import Run as Run
    from expunge.engine._unlearn import train as train
    from expunge.engine._unlearn import unlearn as unlearn
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
