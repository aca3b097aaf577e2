"""Datasets in memory, their splits, and the images in them to forget."""

from __future__ import annotations

from expunge.data.augment import Augment as Augment
from expunge.data.download import cache_dir as cache_dir
from expunge.data.download import fetch as fetch
from expunge.data.formats import DATASETS as DATASETS
from expunge.data.formats import Format as Format
from expunge.data.formats import load as load
from expunge.data.images import ImageSet as ImageSet
from expunge.data.scenario import SCENARIOS as SCENARIOS
from expunge.data.scenario import ClassForget as ClassForget
from expunge.data.scenario import IdsForget as IdsForget
from expunge.data.scenario import RandomForget as RandomForget
from expunge.data.scenario import Scenario as Scenario
from expunge.data.scenario import Selection as Selection
from expunge.data.scenario import parse_scenario as parse_scenario
from expunge.data.splits import Splits as Splits
from expunge.data.splits import hold_out as hold_out
