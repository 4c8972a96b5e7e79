"""Methods as public numbers: what one agent releases in a run, what that costs, what noise a budget needs.

For every method a frozen settings type with one interface (`Method`): `certificates()`, `releases(noise)`,
`statement(noise)`, `calibrate(target, shape)`, and, apart from all that, the paper's own figures:
`claimed_epsilon(noise, delta)`, `claimed_noise(target, shape)`. `METHODS` lists them by name.
"""

from dpadmm.privacy.methods.baselines import DpGd, OutputPerturbation
from dpadmm.privacy.methods.consensus import Consensus
from dpadmm.privacy.methods.fixed_point import Centralised, CoordinatorNoise, Federated, Walk
from dpadmm.privacy.methods.method import AnyTarget, Family, Levels, Method, RecordMethod, Sampling
from dpadmm.privacy.methods.objective import Dvp, MAdmm, RAdmm
from dpadmm.privacy.methods.p_admm import PAdmm
from dpadmm.privacy.methods.sampled import DpSgd, PsAdmm

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        PAdmm,
        Dvp,
        MAdmm,
        RAdmm,
        Consensus,
        PsAdmm,
        Centralised,
        Federated,
        Walk,
        CoordinatorNoise,
        DpSgd,
        DpGd,
        OutputPerturbation,
    )
}
"""Every method by the name it has on the command line."""

__all__ = [
    "METHODS",
    "AnyTarget",
    "Centralised",
    "Consensus",
    "CoordinatorNoise",
    "DpGd",
    "DpSgd",
    "Dvp",
    "Family",
    "Federated",
    "Levels",
    "MAdmm",
    "Method",
    "OutputPerturbation",
    "PAdmm",
    "PsAdmm",
    "RAdmm",
    "RecordMethod",
    "Sampling",
    "Walk",
]
