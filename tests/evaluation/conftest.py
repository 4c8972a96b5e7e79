"""A model of two silos' tables, trained once with secure noise and a ledger."""

import json
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.builders import instant_plans
from tests.cli.conftest import STUDY_SCHEMA, study_tables

import dpadmm
from dpadmm.core.model import ReleasedModel
from dpadmm.evaluation.evaluate import Evaluation, evaluate
from dpadmm.settings import CellRules, EvaluationSettings, Privacy


@dataclass(frozen=True)
class Study:
    """Tables of two silos and a schema; a model of them and its ledger, whose budget is 3."""

    folder: Path

    @property
    def files(self) -> list[Path]:
        return [self.folder / "north.csv", self.folder / "south.csv"]

    @property
    def model(self) -> Path:
        return self.folder / "model.json"

    @property
    def ledger(self) -> Path:
        return self.folder / "study.ledger"

    def loaded(self) -> ReleasedModel:
        return ReleasedModel.load(self.model)

    def measure(self, *files: Path, privacy: Privacy | None = None, **settings: Any) -> Evaluation:
        """Measure the model on these files, else on its own."""
        return evaluate(
            self.model, list(files) or self.files, EvaluationSettings(**settings), privacy or Privacy(), CellRules()
        )


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Study:
    made = Study(tmp_path_factory.mktemp("study"))
    for name, table in study_tables().items():
        table.to_csv(made.folder / f"{name}.csv", index=False)
    schema = made.folder / "schema.json"
    schema.write_text(json.dumps(STUDY_SCHEMA))
    with warnings.catch_warnings(), instant_plans():
        warnings.simplefilter("ignore")
        places = {"out": made.model, "ledger": made.ledger, "budget": 3.0}
        dpadmm.fit(made.files, "sick", epsilon=1.0, delta=1e-5, schema=schema, **places)
    return made


@pytest.fixture
def study(whole: Study, tmp_path: Path) -> Study:
    """A copy of one's own."""
    for file in whole.folder.iterdir():
        shutil.copy(file, tmp_path / file.name)
    return Study(tmp_path)


@pytest.fixture(autouse=True)
def _plans(instant_forecasts: None) -> None:
    """Fits are planned at once."""
