"""Fig. 3: classification error on the test data for the same runs as Fig. 2."""

from dataclasses import asdict
from functools import partial

from dpadmm_research.papers.ps_admm.fig2 import answers
from dpadmm_research.papers.ps_admm.runs import CHOICES, ERROR, GROUND, PARTS, SETTING, draw
from dpadmm_research.reproduction.figure import Figure

FIGURE = Figure(
    name="ps-admm/fig3",
    title="PS-ADMM, Fig. 3: test error",
    reports="For all three budgets PS-ADMM has a higher testing accuracy than DVP-ADMM.",
    setting=asdict(SETTING),
    choices=CHOICES,
    parts=PARTS,
    draw=partial(draw, "PS-ADMM, Fig. 3", ERROR),
    findings=lambda table: answers(table, ERROR, "a smaller test error"),
    ground=GROUND,
)
