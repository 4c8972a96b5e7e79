"""DP-SGD and DP-prox-SGD, central (one silo) and federated (every silo adds noise to its own batch gradient).

m_i <- (w_i/l) sum_{m in batch_i} clip( grad loss_m(x) ) + w_i mu x + N(0, s_{i,k}^2 I)
x   <- x - step ( sum_i m_i + grad g(x) )            DP-SGD
x   <- prox_{step g}( x - step sum_i m_i )           DP-prox-SGD
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.base import MESSAGE, About, Agents, Common, NoiseHook, Setting, Topology
from dpadmm.methods.batches import Batches, Moment, batch_gradients
from dpadmm.methods.decentralised import check_ridge
from dpadmm.methods.gradient_method import GradientMethod
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Family, MechanismSpec
from dpadmm.privacy.certificates.gradients import sampled_gradient
from dpadmm.privacy.protection import Strength
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem


@dataclass(frozen=True)
class DPProxSGD(GradientMethod):
    """Proximal steps along noisy batch gradients; any regulariser with a prox.

    Parameters
    ----------
    step, power: see `GradientMethod`.
    batches: how each silo draws its records; required.
    clip: norm to which each record's gradient is shortened, > 0; None leaves them as they are. With a clip even
        losses without a gradient bound (squared) are private; clipping then biases the result.

    Guarantees: C9. A sampled Gaussian per silo and round, one record's term at most `w_i min(G, clip)/l`; record level,
    replace-one, against an eavesdropper who sees every message but not the batches; up to floating point, since
    batches come from a generator.

    Reference: Abadi et al., "Deep learning with differential privacy" (2016); divided here by the expected batch size.
    """

    about: ClassVar[About] = About(
        name="dp-prox-sgd",
        summary="like dp-sgd, with a proximal step for any regulariser",
        topology=Topology.STAR,
        certificate="C9",
        noise=(Family.SAMPLED,),
        noised="the mean gradient of a batch",
        free=frozenset({"step", "power", "mu"}),
        takes_any_regulariser=True,
        longest_step=1.0,
        is_federated=False,
    )

    batches: Batches | None = None
    clip: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers; batches are not optional."""
        super().__post_init__()
        if self.batches is None:
            raise InputError(f"{type(self).__name__} needs batches; give for example Batches(size=50, seed=0).")
        if self.clip is not None:
            checks.positive("clip", self.clip)

    @classmethod
    def numbers(cls) -> dict[str, float | None]:
        """Add the size of a batch."""
        return super().numbers() | {"batch": None}

    @classmethod
    def agreed(cls, common: Common, **numbers: Any) -> Self:
        """The common seed draws the batches."""
        batch = int(numbers.pop("batch"))
        return cls(**numbers, batches=Batches(batch, seed=common.seed))

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """As long as is safe for every data set, on a fifth of the smallest silo: any batch serves alike."""
        longest = cls.about.longest_step / setting.problem.functions.constants.smoothness
        return cls(step=min(step, longest), batches=Batches.default(setting.problem.functions.sizes))

    @property
    def draws(self) -> Batches:
        """The batches, which are always there."""
        if self.batches is None:
            raise InputError(f"{type(self).__name__} needs batches.")
        return self.batches

    def with_drawn_batches(self) -> Self:
        """Secret batches get the seed of this run."""
        return replace(self, batches=self.draws.with_drawn_seed())

    def check(self, problem: Problem, network: Network | None) -> None:
        """The batches must fit the silos."""
        self.draws.check(problem)

    def gradients(self, k: int, agents: Agents, x: Floats) -> tuple[Floats, Floats]:
        """The batch's clipped gradients need noise; the ridge inside f_i touches no data."""
        clip = math.inf if self.clip is None else self.clip
        ridge = agents.weights[:, None, None] * agents.functions.constants.strong_convexity * x
        return batch_gradients(self.draws, Moment(k), agents, x, clip=clip), ridge

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One sampled Gaussian release per silo and round."""
        clip, rows = math.inf if self.clip is None else self.clip, []
        for i, size in enumerate(setting.problem.functions.sizes):
            found = sampled_gradient(setting.local_gradient(i, clip), batch_size=self.draws.size, clip=clip)
            found = found.weaken(Strength.UP_TO_FLOATING_POINT)
            rows.append(setting.row(i, found, self.draws.sampling(int(size))))
        return (MechanismSpec(MESSAGE, Family.SAMPLED, tuple(rows)),)


@dataclass(frozen=True)
class DPSGD(DPProxSGD):
    """Plain steps along noisy batch gradients; a ridge regulariser enters by its gradient.

    Parameters and guarantees: as `DPProxSGD`.

    >>> DPSGD(step=0.5, batches=Batches(50, seed=0)).step_at(7)
    0.5
    """

    about: ClassVar[About] = replace(
        DPProxSGD.about,
        name="dp-sgd",
        summary="noisy batch gradients; one silo is the central model",
        takes_any_regulariser=False,
    )

    def check(self, problem: Problem, network: Network | None) -> None:
        """The regulariser must have a gradient that is known."""
        super().check(problem, network)
        check_ridge(self, problem, "Use DP-prox-SGD for others.")

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """A plain step along the sum of the messages and the regulariser's gradient."""
        push = messages.sum(axis=0, keepdims=True) + problem.regulariser.strong_convexity * inbox
        return inbox - self.step_at(k) * push
