"""Privacy as data, from the proof to the record.

Who is protected from whom, and the certificates that prove it (`protection`, `certificates`); what is released
(`records`) and what it costs together (`accounting`, `curves`, `sampled`); the noise that a budget asks for
(`calibration`); and the durable record of what was spent (`ledger`).
"""

from dpadmm import _offer

_HOMES = {
    "BareRelease": "records",
    "Certificate": "protection",
    "CoordinateLaplaceRelease": "records",
    "Curve": "curves",
    "FixedSizeSampling": "records",
    "GaussianCurve": "curves",
    "GaussianRelease": "records",
    "InfiniteCurve": "curves",
    "Norm": "protection",
    "ObjectiveRelease": "records",
    "Origin": "records",
    "PoissonSampling": "records",
    "Protection": "protection",
    "PureCurve": "curves",
    "PureTarget": "calibration",
    "Relation": "protection",
    "Release": "records",
    "SampledGaussianRelease": "records",
    "SphericalLaplaceRelease": "records",
    "Statement": "accounting",
    "Strength": "protection",
    "SummedGaussianRelease": "records",
    "Target": "calibration",
    "Unit": "protection",
    "View": "protection",
    "WorstCurve": "curves",
    "calibrate_gaussian": "calibration",
    "calibrate_laplace": "calibration",
    "calibrate_objective": "calibration",
    "calibrate_scale": "calibration",
    "compose": "accounting",
    "delta_of_epsilon": "curves",
    "epsilon_of_delta": "curves",
    "m_of": "curves",
    "statement": "accounting",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
