"""Fig. 2: as Fig. 1 with total eps = 10."""

from dpadmm.experiments.p_admm.regularised import figure
from dpadmm.experiments.p_admm.setting import AdultRace

SETTING = AdultRace(epsilons=(10.0,), agents=5, delta=1e-4, decays=(0.9, 0.95, 0.98, 0.995), runs=10)

FIGURE = figure(2, SETTING)
