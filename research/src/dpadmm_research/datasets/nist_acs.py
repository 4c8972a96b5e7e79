"""NIST Diverse Communities excerpt of the American Community Survey 2019: twenty regions, income above 50,000."""

import zlib
from pathlib import Path

import pandas as pd

from dpadmm.data.columns import Categorical, Numeric, ThresholdLabel
from dpadmm.data.partition import EncodedTable
from dpadmm.data.schema import Schema
from dpadmm.data.tables import encode_table
from dpadmm.errors import InputError, raise_alone
from dpadmm_research.datasets.source import data_folder, find_file

ADULT_AGE = 18
NOT_APPLICABLE = "N"
INCOME = "PINCP"
REGION = "PUMA"


def _codes(first: int, last: int, *more: str) -> tuple[str, ...]:
    return (*(str(code) for code in range(first, last + 1)), *more)


# Ranges and codes of the survey's public data dictionary. Left out: the poverty ratio and the income decile
# (they are the label in other words), the region and its density (the silo itself), survey weights, and the
# detailed industry code (its category is in).
SCHEMA = Schema(
    columns=(
        Numeric("AGEP", ADULT_AGE, 99),
        Categorical("SEX", _codes(1, 2)),
        Categorical("MSP", _codes(1, 6)),
        Categorical("HISP", _codes(0, 4)),
        Categorical("RAC1P", _codes(1, 9)),
        # The dictionary allows 19 own children; beyond 5 more say nothing about income, so 5 stands for "5+".
        Numeric("NOC", 0, 5),
        Categorical("HOUSING_TYPE", _codes(1, 3)),
        Categorical("OWN_RENT", _codes(0, 2)),
        Categorical("INDP_CAT", _codes(0, 18, NOT_APPLICABLE)),
        Categorical("EDU", _codes(1, 12)),
        Categorical("DVET", _codes(1, 6, NOT_APPLICABLE)),
        Categorical("DREM", _codes(1, 2)),
        Categorical("DPHY", _codes(1, 2)),
        Categorical("DEYE", _codes(1, 2)),
        Categorical("DEAR", _codes(1, 2)),
    ),
    label=ThresholdLabel(INCOME, 50_000),
    row_norm=1.0,
)


def load_nist_acs(path: str | Path | None = None) -> EncodedTable:
    """Return the adults with a known income, 22,062 rows in 20 regions of 611 to 1,958 rows.

    The label is +1 for a yearly income above 50,000 dollars; its share runs from 0.10 to 0.65 over the regions.
    "N" (not applicable) is a category of its own for industry and veterans' rating; for the number of own
    children it means people in group quarters and counts as 0.

    Parameters
    ----------
    path: folder with `national2019.csv`, plain or gzipped; by default `nist_acs` under DPADMM_DATA.
    """
    table = read_nist_acs(path)
    schema = SCHEMA.with_constant(None)  # papers fit no intercept
    encoded = encode_table(schema, table, "nist_acs")
    return EncodedTable(
        name="nist_acs",
        features=encoded.features,
        labels=encoded.labels,
        row_norm=schema.row_norm,
        schema=schema,
        groups=table[REGION].to_numpy(dtype=str),
        notes=encoded.notes,
        description="Income above 50,000 dollars among the adults of twenty US regions (2019).",
        origin="NIST Diverse Communities Data Excerpts (national 2019), not subject to US copyright.",
    )


def read_nist_acs(path: str | Path | None = None) -> pd.DataFrame:
    """Return the adults with a known income as they are in the file; `path` as for `load_nist_acs`."""
    file = find_file(data_folder("nist_acs", path), "national2019.csv")
    return _adults_with_income(_read(file), file)


def _read(file: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(file, dtype=str, keep_default_na=False)
    except (OSError, EOFError, ValueError, zlib.error):
        raise_alone(InputError(f"{str(file)!r} cannot be read as a table: damaged or another file. Download it again."))


def _adults_with_income(table: pd.DataFrame, file: Path) -> pd.DataFrame:
    lacking = [name for name in (REGION, INCOME, "AGEP", "NOC") if name not in table]
    if lacking:
        raise InputError(
            f"{str(file)!r} lacks these columns: {', '.join(lacking)}. Download it again.", setting="columns"
        )
    age = pd.to_numeric(table["AGEP"], errors="coerce")
    chosen = table[(age >= ADULT_AGE) & (table[INCOME] != NOT_APPLICABLE)]
    return chosen.assign(NOC=chosen["NOC"].replace(NOT_APPLICABLE, "0")).reset_index(drop=True)
