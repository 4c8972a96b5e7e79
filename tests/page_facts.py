"""Reads the facts of a report by their names, and its text as a reader sees it."""

from collections import defaultdict
from html.parser import HTMLParser

_EMPTY = ("meta", "link", "br", "img")
_SKIPPED = ("style", "text", "head")
_LINES = ("p", "h1", "h2", "h3", "dt", "li", "tr", "figure", "figcaption", "summary", "title")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, list[str] | None]] = []
        self.found: defaultdict[str, list[list[str]]] = defaultdict(list)
        self.lines: list[str] = [""]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = dict(attrs).get("data-fact")
        if tag in _LINES:
            self.lines.append("")
        if tag not in _EMPTY:
            self.open.append((tag, None if name is None else []))
        if name is not None:
            texts = self.open[-1][1]
            assert texts is not None
            self.found[name].append(texts)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for _, texts in self.open:
            if texts is not None:
                texts.append(data)
        if not any(tag in _SKIPPED for tag, _ in self.open):
            self.lines[-1] += data


def _read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    return reader


def facts_of(page: str) -> dict[str, list[str]]:
    """Return the texts of all elements with `data-fact`, by its value."""
    return {name: [" ".join("".join(each).split()) for each in texts] for name, texts in _read(page).found.items()}


def text_of(page: str) -> str:
    """Return what a reader sees, but for the labels of pictures: a line for each paragraph, entry and row."""
    lines = [" ".join(line.split()) for line in _read(page).lines]
    return "\n".join(filter(None, lines)) + "\n"
