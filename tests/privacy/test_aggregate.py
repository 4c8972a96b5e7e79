"""The view aggregate beside the others: whom it covers, and what happens where releases for several views meet."""

from dataclasses import replace

import pytest

from dpadmm.core.budget import account_with
from dpadmm.errors import InputError
from dpadmm.noise.mechanisms import COORDINATOR, MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.accounting import account_for
from dpadmm.privacy.certificates.sums import Shares, masked_sum
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
from dpadmm.privacy.protection import Certificate, Protection, Unit, View
from dpadmm.privacy.releases import GaussianRelease, Origin, SphericalLaplaceRelease, SummedGaussianRelease

DATA = tuple(SiloColumns(name, {"x": [i + 0.5, 1.0]}) for i, name in enumerate("abcde"))
OTHERS = [view for view in View if view is not View.AGGREGATE]


def certified(view):
    return Certificate(bound=0.1, protection=Protection(unit=Unit.RECORD, view=view), theorem="C", assumptions=("-",))


def masked(colluders):
    certificate = masked_sum(certified(View.PUBLIC), shares=Shares(5, colluders), grid=2.0**-20, dimension=1)
    return SummedGaussianRelease(certificate=certificate, noise_std=1.0, silos=5, agent=COORDINATOR, round=1)


def gaussian(view):
    return GaussianRelease(certificate=certified(view), noise_std=1.0, agent=COORDINATOR, round=1)


def plan_of(release):
    return NoisePlan({(MessageKind("broadcast"), 1): {COORDINATOR: release}})


def hidden_less(release, looking):
    """What m^2 is multiplied by for so many silos that look: of five shares, all but theirs hide."""
    return (
        (5 - release.certificate.protection.n_colluders) / (5 - looking)
        if isinstance(release, SummedGaussianRelease)
        else 1.0
    )


class TestCoverage:
    def test_whom_sums_are_hidden_from(self):
        """From the coordinator and the public always, from a single silo if one may look, from wiretaps of bare values
        never."""
        for t in range(4):
            said = Protection(view=View.AGGREGATE, colluders=t)
            covered = {view for view in OTHERS if Protection(view=view).is_covered_by(said)}
            assert covered == {View.COORDINATOR, View.PUBLIC} | ({View.PEER} if t else set())
            for asked in range(4):
                assert Protection(view=View.AGGREGATE, colluders=asked).is_covered_by(said) == (asked <= t)

    def test_what_covers_sums(self):
        """Silos that hide alone hide from every coalition; what is hidden from a coordinator alone does not."""
        for t in range(4):
            asked = Protection(view=View.AGGREGATE, colluders=t)
            assert [view for view in OTHERS if asked.is_covered_by(Protection(view=view))] == [View.EAVESDROPPER]


class TestLedgers:
    @pytest.mark.parametrize("t", [0, 1, 2])
    @pytest.mark.parametrize("asked", [*OTHERS, 0, 1, 2])
    def test_what_a_budget_takes(self, tmp_path, asked, t):
        views = isinstance(asked, View)
        protection = Protection(view=asked) if views else Protection(view=View.AGGREGATE, colluders=asked)
        is_taken = asked in (View.COORDINATOR, View.PUBLIC) or (asked is View.PEER and t > 0)
        is_taken = is_taken if views else asked <= t
        labels = {"run": "r", "algorithm": "a", "origin": Origin.SECURE}
        with Ledger.create(tmp_path / "book", DATA, Budget(epsilon=1.0, delta=1e-5), protection=protection) as ledger:
            opened = ledger.confirm(DATA)
            if not is_taken:
                for work in (
                    lambda: opened.check_protection(masked(t).certificate.protection),
                    lambda: opened.reserve([masked(t)], **labels),
                ):
                    with pytest.raises(InputError, match="not cover"):
                        work()
                assert ledger.statement().releases == 0
                return
            opened.check_protection(masked(t).certificate.protection)
            opened.reserve([masked(t)], **labels)
            cost = account_for([masked(t)]).curve.epsilon(1e-5)
            assert ledger.statement().spent_epsilon == pytest.approx(cost, rel=1e-9)

    def test_releases_of_several_kinds_compose(self, tmp_path):
        """Sums for two numbers of colluders, and pure noise against everybody, under one budget for one colluder."""
        pure = SphericalLaplaceRelease(certificate=certified(View.EAVESDROPPER), rate=1.0, agent=2, round=3)
        labels = {"run": "r", "algorithm": "a", "origin": Origin.SECURE}
        who = Protection(view=View.AGGREGATE)
        with Ledger.create(tmp_path / "book", DATA, Budget(epsilon=9.0, delta=1e-5), protection=who) as ledger:
            opened, spent = ledger.confirm(DATA), [0.0]
            for release in (masked(1), replace(masked(2), round=2), pure, replace(masked(1), round=4)):
                opened.reserve([release], **labels)
                spent.append(ledger.statement().spent_epsilon)
            assert spent == sorted(set(spent))
        with Ledger.open(tmp_path / "book") as again:
            assert again.statement().spent_epsilon == spent[-1]
            assert again.protection == who


class TestEarlierProfiles:
    @pytest.mark.parametrize(
        ("run", "earlier", "stated"),
        [
            (masked(1), masked(1), Protection(view=View.AGGREGATE, colluders=1)),
            (masked(2), masked(1), Protection(view=View.AGGREGATE, colluders=1)),
            (masked(0), masked(2), Protection(view=View.AGGREGATE, colluders=0)),
            (masked(1), gaussian(View.EAVESDROPPER), Protection(view=View.AGGREGATE, colluders=1)),
            (gaussian(View.EAVESDROPPER), masked(1), Protection(view=View.AGGREGATE, colluders=1)),
            (masked(1), gaussian(View.PUBLIC), Protection(view=View.PUBLIC)),
            (gaussian(View.PUBLIC), masked(1), Protection(view=View.PUBLIC)),
            (gaussian(View.PEER), masked(1), Protection(view=View.PEER)),
            (gaussian(View.PUBLIC), gaussian(View.EAVESDROPPER), Protection(view=View.PUBLIC)),
        ],
    )
    def test_the_weaker_view_is_stated(self, run, earlier, stated):
        said = account_with(plan_of(run), earlier)
        assert said.protection == stated
        looking = 1 if stated.view is View.PEER else stated.n_colluders  # a peer knows its own share of the noise
        squares = sum(one.cost.m_squared * hidden_less(one, looking) for one in (run, earlier))
        assert said.curve.m**2 == pytest.approx(squares, rel=1e-12)
