"""Certificates C1-C14: proved bounds on what one person can change, as frozen records.

Every function is pure: it takes problem constants, network facts and hyper-parameters and returns `Certificate`
records (a tuple where the bound depends on the round). The proofs are in `docs/proofs`. Common parameters:

* `LocalFunction`: the public side of one agent's function, its records and the people behind them.
* `weight` w > 0: the factor in front of f_i in the local subproblem as solved; it multiplies every constant of f_i.
* `solver_tolerance` (C7): norm of the local subproblem's gradient at the point returned; `None` leaves it out of the
  bound and weakens the certificate to "up to solver error".
"""

from dpadmm.privacy.certificates.baselines import (
    coordinate_gradient,
    full_gradient,
    general_constraint,
    gradient_step,
    gradient_sum,
    linearised_admm,
    output_perturbation,
    sampled_gradient,
)
from dpadmm.privacy.certificates.consensus import (
    consensus_broadcast,
    consensus_broadcast_quadratic,
    consensus_broadcast_records,
)
from dpadmm.privacy.certificates.curvature import curvature_sum
from dpadmm.privacy.certificates.fixed_point import (
    fixed_point_block_record,
    fixed_point_block_user,
    fixed_point_mean_record,
    fixed_point_mean_user,
)
from dpadmm.privacy.certificates.masked import Shares, masked_sum
from dpadmm.privacy.certificates.neighbours import LocalFunction
from dpadmm.privacy.certificates.objective import (
    dvp,
    m_admm,
    m_admm_linear_rate,
    objective_perturbation,
    r_admm,
    solver_smoothing,
)
from dpadmm.privacy.certificates.p_admm import (
    logistic_gradient_gap,
    own_iterate_p_admm,
    p_admm,
    p_admm_logistic,
)
from dpadmm.privacy.certificates.profile import CATEGORY_WEIGHT, column_profile, profile_on_grid
from dpadmm.privacy.certificates.ps_admm import ps_admm_correction, ps_admm_full_gradient
from dpadmm.privacy.certificates.queries import bounded_sum, cell_counts
from dpadmm.privacy.certificates.selection import score_differences, scores_on_grid

__all__ = [
    "CATEGORY_WEIGHT",
    "LocalFunction",
    "Shares",
    "bounded_sum",
    "cell_counts",
    "column_profile",
    "consensus_broadcast",
    "consensus_broadcast_quadratic",
    "consensus_broadcast_records",
    "coordinate_gradient",
    "curvature_sum",
    "dvp",
    "fixed_point_block_record",
    "fixed_point_block_user",
    "fixed_point_mean_record",
    "fixed_point_mean_user",
    "full_gradient",
    "general_constraint",
    "gradient_step",
    "gradient_sum",
    "linearised_admm",
    "logistic_gradient_gap",
    "m_admm",
    "m_admm_linear_rate",
    "masked_sum",
    "objective_perturbation",
    "output_perturbation",
    "own_iterate_p_admm",
    "p_admm",
    "p_admm_logistic",
    "profile_on_grid",
    "ps_admm_correction",
    "ps_admm_full_gradient",
    "r_admm",
    "sampled_gradient",
    "score_differences",
    "scores_on_grid",
    "solver_smoothing",
]
