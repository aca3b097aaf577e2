"""How well did it work? Accuracies, and fidelity to the ideal model."""

from expunge.evaluate.metrics import METRICS as METRICS
from expunge.evaluate.metrics import Metric as Metric
from expunge.evaluate.predict import Predictions as Predictions
from expunge.evaluate.predict import predict as predict
from expunge.evaluate.scores import Scores as Scores
from expunge.evaluate.scores import evaluate as evaluate
