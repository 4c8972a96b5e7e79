"""Whether the code keeps its promises: attacks that distinguish neighbours, checks of sensitivity, noise and samplers.

A `Subject` is what is attacked, `MethodSubject` a method; `audit_all` attacks and judges many, with lower bounds on the
attacker's epsilon beside the certified one. See `docs/audit.md`.
"""

from dpadmm import _offer

_HOMES = {
    "Attack": "attacks",
    "AuditResult": "audit",
    "Check": "findings",
    "CheckOutcome": "findings",
    "CurvatureSubject": "curvature",
    "Estimate": "estimates",
    "Evidence": "attacks",
    "Insider": "insider",
    "LikelihoodRatio": "attacks",
    "MatchedFilter": "attacks",
    "MethodSubject": "subjects",
    "ProfileSubject": "column_profile",
    "Script": "sensitivity",
    "Subject": "subjects",
    "all_subjects": "catalogue",
    "audit_all": "audit",
    "check_noise": "noise_checks",
    "check_rounding": "sampler_checks",
    "check_sampler": "sampler_checks",
    "check_sampling": "batch_checks",
    "check_sensitivity": "sensitivity",
    "check_streams": "noise_checks",
    "examine": "audit",
    "inspect": "inspection",
    "reconstruct_quadratic": "reconstruction",
    "reconstruct_record": "record_reconstruction",
    "reconstruct_silo": "record_reconstruction",
    "subjects_of": "catalogue",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
