"""How well unlearning worked: accuracies, fidelity to the ideal model, membership attacks."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.engine import Predictions as Predictions
    from expunge.engine import predict as predict
    from expunge.evaluation._distances import activation_distance as activation_distance
    from expunge.evaluation._distances import js_divergence as js_divergence
    from expunge.evaluation._distances import klom as klom
    from expunge.evaluation._distances import zrf as zrf
    from expunge.evaluation._metric import DIRECTIONS as DIRECTIONS
    from expunge.evaluation._metric import Metric as Metric
    from expunge.evaluation._metrics import METRICS as METRICS
    from expunge.evaluation._scores import Scores as Scores
    from expunge.evaluation._scores import evaluate as evaluate
    from expunge.evaluation._scores import score as score
    from expunge.evaluation._statistics import Estimate as Estimate
    from expunge.evaluation._views import Views as Views
    from expunge.evaluation._views import view as view
    from expunge.evaluation.attacks._attack import Attack as Attack
    from expunge.evaluation.attacks._attack import AttackReport as AttackReport
    from expunge.evaluation.attacks._attack import MemberScores as MemberScores
    from expunge.evaluation.attacks._attack import Verdict as Verdict
    from expunge.evaluation.attacks._attack import judge as judge
    from expunge.evaluation.attacks._attack import make_report as make_report
    from expunge.evaluation.attacks._attack import run_attack as run_attack
    from expunge.evaluation.attacks._population import RMIA as RMIA
    from expunge.evaluation.attacks._population import LossThreshold as LossThreshold
    from expunge.evaluation.attacks._population import SVCAttack as SVCAttack
    from expunge.evaluation.attacks._population import member_shares as member_shares
    from expunge.evaluation.attacks._registry import ATTACKS as ATTACKS
    from expunge.evaluation.attacks._registry import FEATURES as FEATURES
    from expunge.evaluation.attacks._registry import PAPER_FIVE as PAPER_FIVE
    from expunge.evaluation.text._text_scores import TextIdeal as TextIdeal
    from expunge.evaluation.text._text_scores import TextScores as TextScores
    from expunge.evaluation.text._text_scores import evaluate_text as evaluate_text
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.evaluation._benign_steps import (
        BENIGN_BATCH,
        BENIGN_STEPS,
        after_benign_steps,
        benign_rate,
        loss_auc,
        mean_fan_in,
    )
    from expunge.evaluation._distances import js_divergence_by_example
    from expunge.evaluation._file_jobs import (
        evaluate_artifacts,
        forgotten_by,
        recipe_of,
        recipe_to_follow,
        retrain_ideal,
        train_initial,
        unlearn_artifact,
    )
    from expunge.evaluation._metric import score_rows
    from expunge.evaluation._scorer import EpochScores, Scorer
    from expunge.evaluation._scores import accuracy
    from expunge.evaluation._statistics import (
        auc_of,
        delong_interval,
        exposure_of,
        match_class_mix,
        student_reach,
        wilson_interval,
    )
    from expunge.evaluation._views import check_same_labels
    from expunge.evaluation.attacks._features import confidence, loss
    from expunge.evaluation.attacks._lira import ULiRA, scaled_confidence, ulira
    from expunge.evaluation.attacks._population import decisions, sample
    from expunge.evaluation.attacks._shadow_models import ShadowPlan, join, run_shadows
    from expunge.evaluation.text._robustness import FactMoment, FactScores, attack_facts
    from expunge.evaluation.text._text_metrics import text_definitions
    from expunge.evaluation.text._text_predictions import TextPredictions, predict_texts
    from expunge.evaluation.text._text_scores import Definitions
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
