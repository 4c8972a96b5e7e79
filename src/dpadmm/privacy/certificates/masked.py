"""C12: sums of the silos' values, seen by nobody but as sums, with shares of one noise.

Silo i sends `round(v_i/grid) + e_i + masks_i mod 2^64`. The masks of a pair cancel in the sum; the shares e_i, discrete
Gaussians of variance `sigma^2/(N - t)`, add up. The coordinator and t silos together learn the sum and the t silos' own
parts, hence the honest silos' sum with noise of variance `sigma^2` at least. Proof: `docs/proofs/c12.md`.
"""

import math
from dataclasses import dataclass, replace

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.privacy.certificates.neighbours import TRUSTED_SUM
from dpadmm.privacy.protection import Certificate, Norm, View


@dataclass(frozen=True)
class Shares:
    """How many silos the noise is split among, and how many of them may collude with the coordinator.

    >>> Shares(silos=5, colluders=1).honest
    4
    """

    silos: int
    colluders: int = 1

    def __post_init__(self) -> None:
        """Refuse sums that would hide nobody."""
        checks.count("silos", self.silos)
        checks.count("colluders", self.colluders, least=0)
        if self.honest < 2:
            raise InputError(
                f"{self.silos} silos of which {self.colluders} may collude leave {self.honest} honest, but a sum hides "
                "a silo only among at least two honest ones. Use more silos, or fewer colluders."
            )

    @property
    def honest(self) -> int:
        """N - t, whose shares of the noise must suffice."""
        return self.silos - self.colluders


def masked_sum(
    certificate: Certificate, *, shares: Shares, grid: float, dimension: int, is_on_grid: bool = False
) -> Certificate:
    """Return the certificate of a sum of the silos' values as one of the same sum under masks (C12).

    The bound is that of the plain sum, plus the rounding of as many silos as a person may be in, `s grid sqrt(d)`; not
    where values lie on the grid already (`is_on_grid`). It holds with noise of variance `sigma^2` from the shares
    `sigma^2/(N - t)` of all N silos.

    certificate: of the sum, in the L2 norm, against those who see it with noise (the view PUBLIC).

    >>> from dpadmm.privacy.protection import Unit
    >>> plain = Certificate(bound=2.0, unit=Unit.RECORD, view=View.PUBLIC, theorem="C9", assumptions=("bounded",))
    >>> said = masked_sum(plain, shares=Shares(5, 1), grid=2.0**-20, dimension=4)
    >>> said.bound == 2.0 + 2 * 2.0**-20, said.view.value, said.colluders, said.theorem
    (True, 'aggregate', 1, 'C9 + C12')
    """
    d, width = checks.count("dimension", dimension), checks.positive("grid", grid)
    if math.frexp(width)[0] != 0.5:
        raise InputError(f"grid must be a power of two, got {shown(width)}. Use 2.0**k, for instance {2.0**-30!r}.")
    if certificate.view is not View.PUBLIC or certificate.norm is not Norm.L2 or certificate.grid is not None:
        raise InputError(
            "masked_sum takes the certificate of a plain sum of all silos' values, in the L2 norm, not yet on a grid; "
            f"got one against the {certificate.view.value}, in the {certificate.norm.value} norm."
        )
    kept = (words for words in certificate.assumptions if words != TRUSTED_SUM)
    rounding = 0.0 if is_on_grid else certificate.silos_per_person * width * math.sqrt(d)
    return replace(
        certificate,
        bound=certificate.bound + rounding,
        view=View.AGGREGATE,
        colluders=shares.colluders,
        theorem=f"{certificate.theorem} + C12",
        assumptions=(*kept, *mask_words(shares, is_on_grid=is_on_grid)),
        grid=width,
        grid_dimension=d,
    )


def mask_words(shares: Shares, *, is_on_grid: bool) -> tuple[str, ...]:
    """Say what the certificate rests on beyond that of the plain sum."""
    n, t = shares.silos, shares.colluders
    looks = (
        "no silo looks: only the coordinator and outsiders are counted, and a silo that looked would know its own "
        f"share of the noise, so that its m would be {math.sqrt(n / (n - 1)):.3g} times the certified one"
        if t == 0
        else f"at most {t} of the {n} silos look, alone or together with the coordinator and outsiders"
    )
    grid = (
        "counts are whole multiples of the noise's grid"
        if is_on_grid
        else "each silo rounds its values to multiples of the noise's grid, which the bound counts"
    )
    return (
        looks,
        f"each silo adds its own share of the noise, 1/{n - t} of the variance that is counted, and sends nothing else "
        "about its values",
        f"{grid} (C8)",
        "sums are taken modulo 2^64 and do not wrap: no silo sends a value that is too large for that",
        "observers are computationally bounded: masks come from X25519, HKDF-SHA256 and ChaCha20, with fresh keys for "
        "every run, and serve one vector each",
        "the owners of the silos have compared the fingerprints of their identity keys over another channel, so that "
        "nobody stands between them or invents silos",
    )
