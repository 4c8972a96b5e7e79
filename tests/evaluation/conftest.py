"""A model of two silos' tables, trained once with secure noise and a ledger."""

import json
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import STUDY_SCHEMA, study_tables

import dpadmm
from dpadmm.core.model import ReleasedModel
from dpadmm.data.tables import read_silos
from dpadmm.evaluation.evaluate import Evaluation, TableEvaluation
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
        paths, said = list(files) or self.files, EvaluationSettings(**settings)
        asked = TableEvaluation.of(self.model, paths, said, privacy or Privacy(), CellRules())
        return asked.run(read_silos(paths, said.split_by, protection=asked.protection))


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Study:
    made = Study(tmp_path_factory.mktemp("study"))
    for name, table in study_tables().items():
        table.to_csv(made.folder / f"{name}.csv", index=False)
    schema = made.folder / "schema.json"
    schema.write_text(json.dumps(STUDY_SCHEMA))
    with warnings.catch_warnings():
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
