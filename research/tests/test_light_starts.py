"""What a fresh interpreter does not load for the help of research's commands."""

from tests.test_light_starts import _COMMANDS, HEAVY, loaded_by


def test_help_loads_no_numbers():
    loaded = loaded_by(_COMMANDS.format(commands=("", "reproduce", "audit")))
    assert not loaded & ((HEAVY - {"rich", "typer"}) | {"numpy", "scipy", "sklearn"})


def test_accounting_loads_neither_solvers_nor_tables():
    loaded = loaded_by(_COMMANDS.format(commands=("account", "account p-admm", "calibrate", "calibrate p-admm")))
    assert "numpy" in loaded
    assert not loaded & (HEAVY - {"rich", "typer"})
    assert not loaded & {"sklearn", "dpadmm.solvers.kernels", "dpadmm.data"}
