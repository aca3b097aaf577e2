"""fig:maskingSalUn is an example of what it says."""

from __future__ import annotations

import numpy as np

from expunge.bench.plots._noisy_masking import NoisyExample
from expunge.update import And, Prob


def test_noisy_example_misleads_and_but_not_prob() -> None:
    case = NoisyExample()
    assert case.true_c[1] * case.true_u[1] < 0 < case.batch_c[1] * case.batch_u[1]
    f = case.agreement()
    assert 0.5 < f[1] < case.p < f[0]
    assert min(case.changes(case.update(And()))) < 0
    assert min(case.changes(case.update(Prob(p=case.p)))) > 0
    assert case.update(Prob(p=case.p))[1] == 0
    whole = 0.8 * np.array(case.batch_u) + 0.5 * np.array(case.batch_c)
    np.testing.assert_allclose(case.update(And()), whole)
