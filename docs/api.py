"""The API page, made from what the packages list: a section for each, every name once, where it is first listed."""

import inspect
from importlib import import_module
from types import ModuleType
from typing import Any

PACKAGES = [
    "api",
    "method_run",
    "costs",
    "settings",
    "estimators",
    "evaluation",
    "models",
    "inference",
    "report",
    "export",
    "planner",
    "federation",
    "federation.admin",
    "core",
    "queries",
    "methods",
    "methods.fixed_point",
    "noise",
    "solvers",
    "data",
    "privacy",
    "privacy.certificates.local",
    "privacy.certificates.gradients",
    "privacy.certificates.objective",
    "privacy.certificates.hidden_state",
    "privacy.certificates.sums",
    "privacy.certificates.sharing",
    "privacy.ledger",
    "problems",
    "networks",
    "testing",
]
"""The packages in the order of the page; a test finds the missing ones."""


def names_of(package: ModuleType) -> list[str]:
    """Return the names that a package lists; of a module without a list, all public classes and functions in it."""
    own = (name for name, value in vars(package).items() if getattr(value, "__module__", "") == package.__name__)
    return list(getattr(package, "__all__", None) or sorted(name for name in own if not name.startswith("_")))


def path_of(package: str, name: str) -> str:
    """Return where a name is defined, by which the page knows it."""
    module = import_module(package)
    value, homes = getattr(module, name), getattr(module, "_HOMES", {})
    if inspect.isclass(value) or inspect.isfunction(value):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{package}.{homes[name]}.{name}" if name in homes else f"{package}.{name}"


def listing() -> list[str]:
    """Return the lines of the page: links for the top level, then package by package."""
    import dpadmm

    classes = [f"[`{name}`][{path_of('dpadmm', name)}]" for name in dpadmm.__all__ if name != "data"]
    lines, shown = ["", f"`dpadmm`: {', '.join(classes)}, and the package [`data`](#dpadmmdata).", ""], set()
    for package in (f"dpadmm.{each}" for each in PACKAGES):
        made = import_module(package)
        lines += [f"## {package}", "", inspect.getdoc(made) or "", ""]
        paths = {name: path_of(package, name) for name in names_of(made)}
        lines += [f"::: {path}" for name, path in paths.items() if path not in shown]
        elsewhere = [f"[`{name}`][{path}]" for name, path in paths.items() if path in shown]
        lines += ["", f"Also: {', '.join(elsewhere)}.", ""] if elsewhere else [""]
        shown |= set(paths.values())
    return lines


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Complete the API page, as mkdocs calls its hooks."""
    return markdown + "\n".join(listing()) if page.file.src_uri == "api.md" else markdown
