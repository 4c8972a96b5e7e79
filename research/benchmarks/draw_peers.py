"""Draw `docs/pictures/peers.png` and `peers-seconds.png` from the tables of `research/docs/peers.md`.

    python research/benchmarks/draw_peers.py

Nothing is measured here: `make bench-peers` writes the page.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "research" / "docs" / "peers.md"
PICTURES = ROOT / "docs" / "pictures"
TOOLS = {  # Okabe and Ito's colours, and a marker each
    "dpadmm": ("#0072B2", "o"),
    "Opacus DP-SGD": ("#D55E00", "s"),
    "diffprivlib LogisticRegression": ("#009E73", "^"),
}
NOT_PRIVATE = "scikit-learn, pooled"
SHORT = {
    "NIST ACS, 20 regions, income > 50,000": "NIST ACS, 20 regions",
    "Synthetic, heavy tails, 5 clinics": "Synthetic",
}


def tables(page: str, heading: str) -> Iterator[tuple[str, list[str], dict[str, list[str]]]]:
    """Yield section, header and rows by first cell of every table whose header starts with `heading`."""
    section, rows, header = "", dict[str, list[str]](), list[str]()
    for line in [*page.splitlines(), ""]:
        if line.startswith("#"):
            section = line.lstrip("# ")
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| ") else []
        if cells and not header and cells[0] == heading:
            header = cells
        elif cells and header:
            rows[f"{cells[0].strip('*')} {cells[1]}" if heading.startswith("a ") else cells[0].strip("*")] = cells[1:]
        elif header and not line.startswith("|---"):
            yield section, header, rows
            rows, header = {}, []


def draw_accuracy(page: str, figure: Figure) -> None:
    """Draw AUC against epsilon, a panel for each data set, records pooled."""
    first = {each[0]: each for each in reversed(list(tables(page, "AUC"))) if each[0].endswith(": trusted")}
    found = list(reversed(first.values()))  # the first table of a section has every tool's own encoding
    panels: list[Axes] = list(figure.subplots(1, len(found), sharey=True))
    for axes, (section, header, rows) in zip(panels, found, strict=True):
        epsilons = [float(cell.removeprefix("eps ")) for cell in header if cell.startswith("eps ")]
        for tool, (colour, marker) in TOOLS.items():
            pairs = [list(map(float, cell.split(" ± "))) for cell in rows[tool][1:]]
            means, errors = [mean for mean, _ in pairs], [error for _, error in pairs]
            axes.errorbar(epsilons, means, errors, color=colour, marker=marker, markersize=4, label=tool.split()[0])
        best = float(rows[NOT_PRIVATE][-1].split(" ± ")[0])
        axes.axhline(best, color="black", linestyle="--", linewidth=1, label="scikit-learn, not private")
        axes.set_xscale("log")
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons], fontsize=9)
        axes.minorticks_off()
        name = section.removesuffix(": trusted")
        axes.set_title(SHORT.get(name, name).replace(", ", "\n"), fontsize=10)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("AUC on held-out records")
    figure.supxlabel("epsilon at delta = 1e-5, one record replaced", fontsize=9)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)


def draw_seconds(page: str, figure: Figure) -> None:
    """Draw the processor seconds of a first fit, a group of bars for each data set."""
    ((_, header, rows),) = tables(page, "a first fit")
    names, axes = header[2:], figure.subplots()
    bars = {**{tool: colour for tool, (colour, _) in TOOLS.items()}, NOT_PRIVATE: "#777777"}
    for k, (tool, colour) in enumerate(bars.items()):
        seconds = [float(re.split(r" s,? ?", cell)[1]) for cell in rows[f"{tool} trusted"][1:]]
        places = [i + (k - 1.5) * 0.2 for i in range(len(names))]
        label = "scikit-learn, not private" if tool == NOT_PRIVATE else tool.split()[0]
        axes.bar(places, seconds, width=0.18, color=colour, label=label)
    axes.set_yscale("log")
    axes.set_yticks([0.001, 0.01, 0.1, 1, 10], ["0.001", "0.01", "0.1", "1", "10"])
    axes.minorticks_off()
    axes.set_xticks(range(len(names)), [SHORT.get(name, name).replace(", ", "\n") for name in names], fontsize=9)
    axes.set_ylabel("processor seconds of a first fit")
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)


def main() -> None:
    """Write both pictures."""
    page = PAGE.read_text()
    for name, draw, size in (("peers", draw_accuracy, (11, 3.0)), ("peers-seconds", draw_seconds, (8, 3.2))):
        figure = Figure(figsize=size, layout="constrained")
        draw(page, figure)
        figure.savefig(PICTURES / f"{name}.png", dpi=130)


if __name__ == "__main__":
    main()
