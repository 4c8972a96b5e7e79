"""Fig. 1: Adult, five agents, l2-regularised logistic regression, total eps = 5, delta = 1e-4, R up to 0.995."""

from dpadmm_research.papers.p_admm.regularised import figure
from dpadmm_research.papers.p_admm.setting import AdultRace

SETTING = AdultRace(epsilons=(5.0,), agents=5, delta=1e-4, decays=(0.9, 0.95, 0.98, 0.995), runs=10)

FIGURE = figure(1, SETTING)
