"""``unlearn()`` and ``train()``: the loop, its history, checkpoint and resume."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.engine._callbacks import Callback as Callback
    from expunge.engine._execution import Execution as Execution
    from expunge.engine._history import History as History
    from expunge.engine._procedure import Procedure as Procedure
    from expunge.engine._recipe import Recipe as Recipe
    from expunge.engine._run import Result as Result
    from expunge.engine._run import Run as Run
    from expunge.engine._unlearn import train as train
    from expunge.engine._unlearn import unlearn as unlearn
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.engine._artifact import (
        Artifact,
        Card,
        DataCard,
        ModelCard,
        check_named_model,
        describe_data,
        load_artifact,
        load_card_data,
        matching_ideal,
        read_weights,
        save_artifact,
        sidecar_of,
    )
    from expunge.engine._callbacks import StepReporter
    from expunge.engine._checkpoint import load_checkpoint, save_checkpoint, stable_repr
    from expunge.engine._device import device_of, fast_layout, pick_device
    from expunge.engine._execution import EXECUTION_OPTIONS
    from expunge.engine._history import StepRecorder
    from expunge.engine._losses import diverged, weigh
    from expunge.engine._model_from_config import (
        as_numbers,
        build_from_config,
        check_model_fits,
        default_augment,
        default_model,
        load_checked_weights,
        loss_for,
        restore_from_config,
        sizes_for,
        train_from_config,
        untrained_for,
    )
    from expunge.engine._overlap_check import check_disjoint
    from expunge.engine._predict import (
        PredictionCache,
        Predictions,
        RunSplits,
        check_predictions,
        predict,
    )
    from expunge.engine._procedure import PLAIN_OPTIONS
    from expunge.engine._recipe import check_recipe
    from expunge.engine._run_setup import copy_model, one_pass
    from expunge.engine._token_scores import TOKEN_ROWS_PER_BATCH, TokenScores, score_tokens
    from expunge.engine._weights import (
        OTHER_COMPUTERS,
        StateDict,
        describe_imports_of_data,
        describe_imports_of_model,
        without_prefix,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
