"""The methods, one file each, that read like their pseudo-code: frozen hyper-parameters, a state, pure steps.

A method says what it releases, what one record can move and whom it hides (`Method`, `About`); `by_name` lists all of
them. The loop over rounds and the noise are the engine's. How to add one: `docs/adding.md`.
"""

from dpadmm import _offer

_HOMES = {
    "About": "method",
    "Agents": "anatomy",
    "Algorithm": "anatomy",
    "Batches": "batches",
    "CentralisedADMM": "fixed_point",
    "ConsensusADMM": "consensus",
    "ConsensusDPADMM": "consensus_dp",
    "CoordinateDescent": "fixed_point",
    "CoordinatorADMM": "fixed_point",
    "DPDGD": "dp_dgd",
    "DPGD": "dp_gd",
    "DPProxSGD": "dp_sgd",
    "DPSGD": "dp_sgd",
    "DVP": "dvp",
    "DecentralisedADMM": "decentralised",
    "FederatedADMM": "fixed_point",
    "FixedPointIteration": "fixed_point",
    "GaussianConsensusADMM": "consensus_dp",
    "GeneralADMM": "fixed_point",
    "GraphMethod": "decentralised",
    "LassoADMM": "fixed_point",
    "LinearisedADMM": "linearised",
    "MADMM": "m_admm",
    "Method": "method",
    "NoiseHook": "anatomy",
    "NoisyGradients": "noisy_gradients",
    "OutputPerturbation": "output_perturbation",
    "PADMM": "p_admm",
    "PSADMM": "ps_admm",
    "Participation": "fixed_point",
    "Private": "method",
    "RADMM": "r_admm",
    "RandomWalkADMM": "fixed_point",
    "RecycledPADMM": "recycled",
    "Residuals": "anatomy",
    "Setting": "method",
    "Topology": "method",
    "by_name": "method",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
