"""Privacy as data, from the proof to the record.

Who is protected from whom, and the certificates that prove it (`protection`, `certificates`); what is released
(`releases`), what it costs together and the noise that a budget asks for (`accounting`, `curves`, `sampled`); and the
durable record of what was spent (`ledger`).
"""

from dpadmm import _offer

_HOMES = {
    "BareRelease": "releases",
    "Certificate": "protection",
    "CoordinateLaplaceRelease": "releases",
    "Curve": "curves",
    "FixedSizeSampling": "releases",
    "GaussianCurve": "curves",
    "GaussianRelease": "releases",
    "InfiniteCurve": "curves",
    "Norm": "protection",
    "ObjectiveRelease": "releases",
    "Origin": "releases",
    "PoissonSampling": "releases",
    "Protection": "protection",
    "PureCurve": "curves",
    "PureTarget": "accounting",
    "Relation": "protection",
    "Release": "releases",
    "SampledGaussianRelease": "releases",
    "SphericalLaplaceRelease": "releases",
    "Account": "accounting",
    "Strength": "protection",
    "SummedGaussianRelease": "releases",
    "Target": "accounting",
    "Unit": "protection",
    "View": "protection",
    "WorstCurve": "curves",
    "calibrate_gaussian": "accounting",
    "calibrate_laplace": "accounting",
    "calibrate_objective": "accounting",
    "calibrate_scale": "accounting",
    "compose": "accounting",
    "delta_of_epsilon": "curves",
    "epsilon_of_delta": "curves",
    "m_of": "curves",
    "account_for": "accounting",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
