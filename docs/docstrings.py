"""Docstrings as Markdown for the site: doctests become code blocks, underlined sections lists.

Taken as they are, prompts would be quotations, `[3, 2, 2]` a link, and all parameters one paragraph.
"""

import re
from collections.abc import Iterator
from typing import Any

from griffe import Extension, Object

_RULE = re.compile(r"-{3,}")
_ENTRY = re.compile(r"([\w*]+(?:, [\w*]+)*)(?: ?: |$)")


def markdown(text: str) -> str:
    """Return a docstring as Markdown; a paragraph ends at an empty line."""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join("\n".join(_paragraph(each.splitlines())) for each in paragraphs)


def _paragraph(lines: list[str]) -> Iterator[str]:
    if lines and lines[0].startswith(">>> "):
        yield from ("```pycon", *lines, "```")
    elif len(lines) > 1 and _RULE.fullmatch(lines[1]):
        yield from (f"**{lines[0]}**", "")
        yield from (_ENTRY.sub(r"- `\1`: ", line, count=1) if _ENTRY.match(line) else line for line in lines[2:])
    else:
        yield from lines


class Docstrings(Extension):
    """Rewrite the docstring of every object that is collected."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
