from __future__ import annotations

import pytest

from expunge._errors import InvalidInput
from expunge.request._job import make_job
from expunge.update import AdamMoments, PublishedMoments


def test_bad_values_in_python_are_named():
    with pytest.raises(InvalidInput, match=r"batch_size: .*\(got 0\)"):
        make_job(weights="w", out="o", batch_size=0)


def test_the_addon_gets_its_moments():
    job = make_job(weights="w", out="o", addon="FOCUS")
    assert isinstance(job.procedure.addon.statistics, AdamMoments)
    other = make_job(weights="w", out="o", addon="FOCUS", moments="published")
    assert isinstance(other.procedure.addon.statistics, PublishedMoments)
    assert make_job(weights="w", out="o", addon="none").procedure.addon.statistics is None


@pytest.mark.parametrize(("given", "kept"), [(True, "exact"), (False, "none"), ("near", "near")])
def test_copies_to_include_are_named(given, kept):
    assert make_job(weights="w", out="o", include_duplicates=given).include_duplicates == kept
    with pytest.raises(InvalidInput, match=r"include_duplicates: .*'exact'.*\(got 'all'\)"):
        make_job(weights="w", out="o", include_duplicates="all")
