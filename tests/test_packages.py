"""What every package offers: a list, a paragraph, names that exist and are explained, all of them on the API page."""

import inspect
import pkgutil
import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

import dpadmm

API = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "api.py"))
PACKAGES = [each.name for each in pkgutil.iter_modules(dpadmm.__path__) if each.ispkg]


@pytest.mark.parametrize("package", [*PACKAGES, *(each for each in API["PACKAGES"] if each not in PACKAGES)])
def test_a_package_lists_what_it_offers(package: str) -> None:
    made = import_module(f"dpadmm.{package}")
    assert made.__doc__
    names = API["names_of"](made)
    assert names == sorted(names)
    for name in names:
        offered = getattr(made, name)
        assert not inspect.ismodule(offered), f"a module hides {name}"
        assert inspect.getdoc(offered), name
        assert not re.fullmatch(rf"{name}\(.*\)", inspect.getdoc(offered) or "", flags=re.DOTALL), (
            f"{name}: no docstring"
        )
    if "_HOMES" in vars(made):
        assert dir(made) == made.__all__
        with pytest.raises(AttributeError, match="nothing"):
            _ = made.nothing


def test_the_api_page_shows_every_package_and_every_name_once() -> None:
    lines = API["listing"]()
    page = "\n".join(lines)
    assert set(PACKAGES) - {"cli"} <= set(API["PACKAGES"])
    shown = [line.removeprefix("::: ") for line in lines if line.startswith("::: ")]
    assert len(shown) == len(set(shown))
    for package in (f"dpadmm.{each}" for each in API["PACKAGES"]):
        assert f"## {package}\n" in page
        for name in API["names_of"](import_module(package)):
            assert API["path_of"](package, name) in shown
    for name in set(dpadmm.__all__) - {"data"}:
        assert API["path_of"]("dpadmm", name) in shown, name
