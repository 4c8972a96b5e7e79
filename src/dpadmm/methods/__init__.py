"""The methods, one file each, that read like their pseudo-code: frozen hyper-parameters, a state, pure steps.

A method says what it releases, what one record can move and whom it hides (`Method`, `About`); `by_name` lists all of
them. The loop over rounds is `dpadmm.core.loop`, which hands in the noise. How to add one: `docs/adding.md`.
"""

from dpadmm import _offer

_NAMES = {
    "base": "About Agents Method NoiseHook Residuals Setting Topology by_name",
    "batches": "Batches",
    "consensus": "ConsensusADMM",
    "consensus_dp": "ConsensusDPADMM GaussianConsensusADMM",
    "decentralised": "DecentralisedADMM GraphMethod",
    "dp_dgd": "DPDGD",
    "dp_gd": "DPGD",
    "dp_sgd": "DPProxSGD DPSGD",
    "dvp": "DVP",
    "fixed_point": "CentralisedADMM CoordinateDescent CoordinatorADMM FederatedADMM "
    "GeneralADMM LassoADMM Participation RandomWalkADMM",
    "linearised": "LinearisedADMM",
    "m_admm": "MADMM",
    "noisy_gradients": "NoisyGradients",
    "output_perturbation": "OutputPerturbation",
    "p_admm": "PADMM",
    "preconditioned": "PreconditionedGradients PreconditionedSilos",
    "ps_admm": "PSADMM",
    "r_admm": "RADMM",
    "recycled": "RecycledPADMM",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
