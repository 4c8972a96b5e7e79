"""`python -m dpadmm` is the command, for whom its script is not on the path; its help says what arguments are."""

import subprocess
import sys
import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "'click", DeprecationWarning)
    import typer

    from dpadmm.cli.main import app


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "dpadmm", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("dpadmm ")


def test_help_says_what_every_argument_is(cli):
    def arguments(command, name):
        for word, each in getattr(command, "commands", {}).items():
            yield from arguments(each, f"{name} {word}")
        yield from ((f"{name} {each.name}", each.help) for each in command.params if each.param_type_name == "argument")

    group = typer.main.get_command(app)
    found = [told for name in group.commands for told in arguments(group.get_command(None, name), name)]
    assert len(found) > 30
    assert [name for name, told in found if not told] == []
    shown = " ".join(cli.run("predict", "--help").stdout.split())
    assert "Model file written by `dpadmm fit`" in shown
    assert "Rows to predict: CSV or other text" in shown
