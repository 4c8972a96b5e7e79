"""Every figure under its name; the command line reads this table."""

from dpadmm_research.papers.consensus import fig2a as consensus_2a
from dpadmm_research.papers.consensus import fig2b as consensus_2b
from dpadmm_research.papers.consensus import fig2c as consensus_2c
from dpadmm_research.papers.consensus import fig2d as consensus_2d
from dpadmm_research.papers.consensus import fig3 as consensus_3
from dpadmm_research.papers.fixed_point import fig1 as fixed_point_1
from dpadmm_research.papers.p_admm import fig1 as p_admm_1
from dpadmm_research.papers.p_admm import fig2 as p_admm_2
from dpadmm_research.papers.p_admm import fig3 as p_admm_3
from dpadmm_research.papers.p_admm import fig4 as p_admm_4
from dpadmm_research.papers.ps_admm import fig2 as ps_admm_2
from dpadmm_research.papers.ps_admm import fig3 as ps_admm_3
from dpadmm_research.papers.r_admm import fig1 as r_admm_1
from dpadmm_research.papers.r_admm import fig2 as r_admm_2
from dpadmm_research.papers.r_admm import fig3 as r_admm_3
from dpadmm_research.reproduction.figure import Figure
from dpadmm_research.scoreboard import adult as scoreboard_adult
from dpadmm_research.scoreboard import star as scoreboard_star

ALL: tuple[Figure, ...] = (
    p_admm_1.FIGURE,
    p_admm_2.FIGURE,
    p_admm_3.FIGURE,
    p_admm_4.FIGURE,
    r_admm_1.FIGURE,
    r_admm_2.FIGURE,
    r_admm_3.FIGURE,
    consensus_2a.FIGURE,
    consensus_2b.FIGURE,
    consensus_2c.FIGURE,
    consensus_2d.FIGURE,
    consensus_3.FIGURE,
    ps_admm_2.FIGURE,
    ps_admm_3.FIGURE,
    fixed_point_1.FIGURE,
    scoreboard_adult.FIGURE,
    scoreboard_star.LASSO_FIGURE,
    scoreboard_star.CONTROL_FIGURE,
)

FIGURES: dict[str, Figure] = {figure.name: figure for figure in ALL}
