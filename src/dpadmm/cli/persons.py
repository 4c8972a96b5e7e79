"""The options --person and --keep: whose the rows of tables are, where people have several."""

from collections.abc import Mapping

from dpadmm import checks
from dpadmm.datasets.persons import Persons
from dpadmm.datasets.schema import Schema
from dpadmm.datasets.tables import SiloTable, lacks
from dpadmm.errors import InputError
from dpadmm.privacy.protection import Protection, Unit


def unit_of(unit: str | None, person: str | None) -> str | None:
    """Return the unit that the options name: a person, where a column tells whose rows are."""
    if person is None:
        return unit
    if unit not in (None, Unit.PERSON.value):
        raise InputError(f"--person protects a person with all their rows, --unit {unit} something else. Say one.")
    return Unit.PERSON.value


def check_person(
    person: str | None, keep: int | None, protection: Protection, schema: Schema | None, split_by: str | None
) -> None:
    """Refuse persons that no column tells apart, and a column of persons that is used for something else as well."""
    if person is None:
        if keep is not None:
            raise InputError("--keep counts the rows of a person: say which column tells them apart, --person COLUMN.")
        if protection.unit is Unit.PERSON:
            raise InputError("A person is to be protected with all their rows: say whose they are, --person COLUMN.")
        return
    if person == split_by:
        raise InputError("--person and --split-by name the same column. If every silo is one person, say --unit user.")
    if schema is not None and person in (*schema.column_names, schema.label.name):
        raise InputError(
            f"--person {person!r} is a column of the schema, from which the model would learn. Who a row belongs to "
            "says nothing about others: take it out of the schema (`dpadmm schema init --leave-out COLUMN` does so)."
        )


def persons_of(tables: Mapping[str, SiloTable], column: str, keep: int | None = None) -> Persons:
    """Return whose the rows of all silos are, by a column that every table has."""
    if keep is not None:
        checks.count("--keep", keep)
    for table in tables.values():
        if column not in table.frame.columns:
            raise InputError(f"{lacks(table.where, [column], table.frame.columns)} Give --person the right name.")
    return Persons.of([table.frame[column] for table in tables.values()], [t.where for t in tables.values()], keep)
