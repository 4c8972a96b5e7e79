"""Names of silos, runs and studies: people can distinguish them, and every system takes them for a file or folder."""

import unicodedata
from collections import Counter
from collections.abc import Sequence

from dpadmm.checks import safe_repr
from dpadmm.errors import InputError

LONGEST = 100
"""Bytes of a name, in UTF-8; with its ending it is a file's name everywhere."""

_SEPARATORS = set('\\/:*?"<>|')  # on one system or another
_BLANK = set("\u115f\u1160\u2800\u3164\uffa0")  # printable, but nothing is seen
_DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$"} | {
    f"{port}{n}" for port in ("com", "lpt") for n in range(10)
}
# As Japanese, Chinese and Korean are.
_WRITTEN_TOGETHER = {"LATIN", "CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "BOPOMOFO", "HANGUL"}

# Letters of other scripts that are drawn like Latin ones, in lower case; modifier letters drawn like an apostrophe.
_DRAWN_ALIKE = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u0501\u051b\u051d\u04bb"
    "\u03b1\u03b2\u03b5\u03b6\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7"
    "\u02b9\u02bb\u02bc\u02bd\u02c8\u2018\u2019",
    "abekmhopctyxsijdqwhabezhikmnoptyx'''''''",
)


def check_name(what: str, name: object, longest: int = LONGEST) -> None:
    """Refuse what is no name; what: a silo, a run or a study."""
    reason = _fault(name, longest) if isinstance(name, str) else "is not text"
    if reason is not None:
        raise InputError(f"The name of a {what} {reason}; got {safe_repr(name)}. Choose another name.")


def check_distinct(names: Sequence[str]) -> None:
    """Refuse names of silos of which two are the same, or look the same."""
    drawn = [_drawn(name) for name in names]
    times = Counter(drawn)
    if len(times) < len(drawn):
        twice = sorted({name for name, sign in zip(names, drawn, strict=True) if times[sign] > 1})
        raise InputError(
            f"Every silo needs a name that cannot be confused with another's; got {', '.join(twice):.200}. Choose "
            "other names."
        )


def _fault(name: str, longest: int) -> str | None:
    plain = unicodedata.normalize("NFKC", name) if name.isprintable() else ""
    if not plain or _BLANK & set(name) or any(map(_is_ignored, name)):
        return "must be printable text without control or invisible characters, and not empty"
    if len(name.encode()) > longest:
        return f"must have at most {longest} bytes"
    if plain.strip(" .") != plain or unicodedata.category(plain[0]) == "Pd" or plain[0] == "\u2212":
        return "must not begin with a dash, nor begin or end with a space or a dot"
    if _SEPARATORS & set(plain):
        return f"must be usable for a file, without any of {' '.join(sorted(_SEPARATORS))}"
    if plain.split(".")[0].rstrip().casefold() in _DEVICES:
        return "must not be one that Windows reserves for a device, such as CON or NUL"
    # The script of a letter is the first word of its Unicode name.
    names = [
        unicodedata.name(sign, "UNKNOWN") for sign in plain if sign.isalpha() and unicodedata.category(sign) != "Lm"
    ]
    scripts = {name.split()[0].split("-")[0] for name in names}
    if len(scripts) > 1 and not scripts <= _WRITTEN_TOGETHER:
        mixed = " and ".join(sorted(script.capitalize() for script in scripts))
        return f"must not mix letters that look alike, of {mixed} script"
    return None


def _is_ignored(sign: str) -> bool:
    """Return whether nothing is drawn for a sign beside others: joiners and selectors of variants."""
    ranges = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
    return sign in "\u034f\u17b4\u17b5" or any(first <= ord(sign) <= last for first, last in ranges)


def _drawn(name: str) -> str:
    """Return a name by what is seen of it: two names that look the same give the same."""
    return unicodedata.normalize("NFKC", name).casefold().translate(_DRAWN_ALIKE)
