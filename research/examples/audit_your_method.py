"""Attack a method of your own: here P-ADMM with a small change that looks harmless and is not.

Each agent continues from its own noise-free model instead of the one it broadcast. The messages still carry the same
noise, but they now depend on a hidden state, and the certificate covers another algorithm. Thousands of runs on two
neighbouring data sets show it: the attacker's epsilon exceeds the certified one.
"""

from dataclasses import dataclass, replace
from typing import Any

from dpadmm.methods.base import MESSAGE
from dpadmm.methods.decentralised import GraphState, penalised_minimiser
from dpadmm.methods.p_admm import PADMM
from dpadmm_research.audit.audit import AuditResult, examine
from dpadmm_research.audit.catalogue import subjects_of


@dataclass(frozen=True)
class MyADMM(PADMM):
    """P-ADMM that trusts its own noise-free model (`guess`) more than its broadcast (`x`)."""

    def local_step(self, k: int, agents: Any, state: GraphState, inbox: Any, noise: Any) -> tuple[GraphState, Any]:
        """As in P-ADMM, except for the third argument of the minimiser."""
        x = penalised_minimiser(self.eta, agents, state.guess, inbox, lin=state.a, start=state.guess)
        message = noise.perturb(MESSAGE, k, agents.index, x)
        return GraphState(x=message, a=state.a, guess=x), message


def main(runs: int = 20_000) -> dict[str, AuditResult]:
    """Attack the library's method and the changed one on the same pair of data sets; returns both results."""
    honest = subjects_of("p-admm")[1]  # one record of three, pulled to opposite sides, 20 rounds
    subjects = {"p-admm": honest, "my-admm": replace(honest, algorithm=MyADMM(eta=honest.algorithm.eta))}
    found = {}
    for name, subject in subjects.items():
        (found[name],) = examine(subject, runs=runs, confidence=0.999)
        result = found[name]
        verdict = "REFUTED" if result.is_violation else "not refuted"
        print(
            f"{name:8} certified epsilon {result.certified_epsilon:.2f}, an attacker demonstrates at least "
            f"{result.estimate.epsilon_lower:.2f}: {verdict}"
        )
    return found


if __name__ == "__main__":
    main()
