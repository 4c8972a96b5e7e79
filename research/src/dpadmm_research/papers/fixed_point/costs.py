"""What the noise of the authors' runs costs, certified by the library from what these runs really let out."""

import numpy as np

from dpadmm.methods.base import Setting
from dpadmm.methods.fixed_point import LassoADMM
from dpadmm.privacy.accounting import compose
from dpadmm.privacy.protection import Certificate, Protection, Strength, Unit, View
from dpadmm.privacy.releases import FixedSizeSampling, SampledGaussianRelease
from dpadmm_research.levels import at_levels
from dpadmm_research.papers.fixed_point.world import World
from dpadmm_research.reproduction.trials import TOLERANCE


def admm_cost(world: World, noise_std: float, participations: int) -> float:
    """Return the certified epsilon of a user who takes part so often, against whoever sees the messages (C5).

    A clipped change with noise leaves once per participation, whatever z and the block are, so that the tracking and
    the threshold of the authors' code change nothing. Nothing smaller is proved for those who see less.
    """
    s = world.setting
    method = LassoADMM(s.gamma, s.relaxation, clip=s.admm_clip, unit=Unit.USER)
    mechanisms = method.mechanisms(Setting(world.problem(), participations, TOLERANCE))
    plan = at_levels(mechanisms, [np.full(participations, noise_std)])
    return plan.account().curve.epsilon(s.delta)


def sgd_cost(world: World, noise_std: float) -> float:
    """Return the certified epsilon of a record against whoever sees every iterate, but not the batches (C9).

    The clipped sum of a batch has norm C at most, so any two differ by 2C, however often a record is in one of them: a
    record matters only if it is drawn. Of m draws from n with replacement that has probability `1 - (1 - 1/n)^m`,
    below the m/n of draws without replacement, whose curve grows with that probability.
    """
    s = world.setting
    clipped = Certificate(
        bound=s.sgd_clip,
        protection=Protection(unit=Unit.RECORD, view=View.PUBLIC),
        theorem="C9 (clipped sum of a batch)",
        assumptions=(f"the sum of a batch's gradients is clipped to norm {s.sgd_clip:g}", "fresh secret batches"),
        strength=Strength.UP_TO_FLOATING_POINT,
    )
    release = SampledGaussianRelease(
        certificate=clipped,
        noise_std=noise_std,
        sampling=FixedSizeSampling(size=s.sampled, population=world.users),
        agent=0,
        round=1,
        count=s.iterations,
    )
    return compose([release]).epsilon(s.delta)
