"""``unlearn()`` and ``train()``: the loop, its history, checkpoint and resume."""

from expunge.engine.callbacks import Callback as Callback
from expunge.engine.history import History as History
from expunge.engine.procedure import Procedure as Procedure
from expunge.engine.recipe import Recipe as Recipe
from expunge.engine.run import Run as Run
from expunge.engine.setting import Result as Result
from expunge.engine.unlearn import train as train
from expunge.engine.unlearn import unlearn as unlearn
