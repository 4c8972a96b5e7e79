"""The notebooks of `examples`: run one in place (`python docs/notebooks.py FILE...`), and show them on the site.

Cells are run in order in one namespace, with nothing but Python and matplotlib; what they print, the value of a last
expression and open figures are kept as their outputs, as Jupyter keeps them.
"""

import ast
import io
import json
import os
import re
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parent.parent
_SHOWN = re.compile(r"^<!-- notebook: (\S+) -->$", re.MULTILINE)


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run the code cells, here, and keep their outputs; return the names that they have defined."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), 1):
        said = io.StringIO()
        with redirect_stdout(said):
            value = _executed("".join(cell["source"]), f"cell {number}", names)
        cell["execution_count"] = number
        cell["outputs"] = _outputs(said.getvalue() + ("" if value is None else f"{value}\n"))
    return names


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells that are run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _executed(source: str, where: str, names: dict[str, Any]) -> Any:
    """Run a cell; return the value of its last line, if that is an expression."""
    tree = ast.parse(source, where)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None  # type: ignore[attr-defined]
    exec(compile(tree, where, "exec"), names)
    value = None if last is None else eval(compile(last, where, "eval"), names)
    return None if source.rstrip().endswith(";") else value


def _outputs(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if text:
        found.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if "matplotlib.pyplot" in sys.modules:
        from matplotlib import pyplot

        for number in pyplot.get_fignums():
            drawing = io.StringIO()
            with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dpadmm"}):
                pyplot.figure(number).savefig(drawing, format="svg", metadata={"Date": None})
            lines = drawing.getvalue().splitlines(keepends=True)
            found.append({"output_type": "display_data", "data": {"image/svg+xml": lines}, "metadata": {}})
        pyplot.close("all")
    return found


def markdown(notebook: dict[str, Any]) -> str:
    """Return the cells and their outputs as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_shown(output, cell["metadata"].get("alt", "")) for output in cell["outputs"]]
    return "\n\n".join(parts).replace("](../docs/", "](../")  # a notebook lies in `examples`, its page in `docs`


def _shown(output: dict[str, Any], texts: str) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text'])}```"
    drawing = quote("".join(output["data"]["image/svg+xml"]), safe="")
    return f'<img class="plot" alt="{texts}" src="data:image/svg+xml,{drawing}">'


def on_page_markdown(markdown_text: str, **_: Any) -> str:
    """Put a notebook where a page asks for it; called by mkdocs."""
    return _SHOWN.sub(lambda found: markdown(json.loads((ROOT / found[1]).read_text())), markdown_text)


def main(files: list[str]) -> None:
    """Run notebooks in place, each in an empty folder."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    for file in map(Path, files):
        place, notebook = file.resolve(), json.loads(file.read_text())
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            run(notebook)
        place.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
