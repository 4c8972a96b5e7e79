"""`dpadmm summary`: the coefficients of a model, with confidence intervals where they exist."""

from typing import Annotated

import typer

from dpadmm.cli import options


def summary(
    model: options.ModelFile,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    json: options.Json = False,
) -> None:
    """Print the coefficients of a model of two classes, in the units of the table.

    With confidence intervals if it was fitted for them (dpadmm fit --aim inference) and they exist, else the
    reason why not. Nothing is spent: all of it follows from what was released.

    Example: dpadmm summary model.json
    """
    from dpadmm.cli.terminal import print_json, print_line
    from dpadmm.core.model import ReleasedModel

    table = ReleasedModel.load(model).summary(level)
    if json:
        facts = {"level": table.level, "estimand": table.estimand, "why_no_intervals": table.why_not or None}
        print_json({"command": "summary", "coefficients": table.records()} | facts)
    else:
        print_line(str(table))
