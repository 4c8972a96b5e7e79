"""`python -m dpadmm`, the same as the command `dpadmm`."""

from dpadmm.cli.main import app

if __name__ == "__main__":
    app(prog_name="dpadmm")
