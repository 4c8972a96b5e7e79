"""The picture of the network: who holds records, who talks to whom, and who is looking."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from dpadmm.privacy.protection import Protection
from dpadmm.reporting.charts import svg
from dpadmm.reporting.facts import SiloFacts, Wiring

_WIDTH, _HEIGHT = 400, 330
_CENTRE = (200.0, 200.0)
_RADII = (132.0, 84.0)
_END = (290.0, _CENTRE[1])
_EYE_AT = (200.0, 66.0)
_ROOMY = 5  # so many silos have room for large circles with names beside them
_LONGEST = 16  # so many letters of a name have room there
_WITH_ENVELOPES = 12  # lines; on more of them envelopes would hide each other
MOST_SHOWN = 24

_EYE = Markup(
    '<g transform="translate({x:.0f},{y:.0f})"><path class="eye" d="M-20 0Q0 -17 20 0Q0 17 -20 0Z"/>'
    '<circle class="pupil" r="6"/></g>'
)
_ENVELOPE = Markup(
    '<g transform="translate({x:.1f},{y:.1f})"><rect class="envelope" x="-9" y="-6" width="18" height="12" rx="1.5"/>'
    '<path class="flap" d="M-9 -5L0 2L9 -5"/></g>'
)


def is_numbered(silos: Sequence[SiloFacts]) -> bool:
    """Return whether silos are drawn with numbers, for a list beside the picture to name: many, or with long names."""
    return len(silos) > _ROOMY or any(len(silo.name) > _LONGEST for silo in silos)


def network_picture(silos: Sequence[SiloFacts], wiring: Wiring, protection: Protection) -> Markup:
    """Return the silos, their lines and the observer that the guarantee names."""
    view = protection.view.value
    shown = silos[:MOST_SHOWN]
    places = _places(len(shown))
    parts: list[Markup] = []
    lines = _lines(places, wiring)
    wire = "wire" if len(lines) <= _WITH_ENVELOPES else "wire faint"
    parts += [
        Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(wire, *a, *b)
        for a, b in lines
    ]
    if len(lines) <= _WITH_ENVELOPES:
        parts += [_ENVELOPE.format(x=x, y=y) for x, y in (_message(a, b) for a, b in lines)]
    if wiring.has_coordinator:
        parts.append(_box("coordinator", _CENTRE if len(shown) > 1 else _END))
    elif len(silos) == 1:
        parts.append(_box("model", _END))
    if is_numbered(silos):
        parts += [_numbered(number, place, len(shown)) for number, place in enumerate(places, 1)]
    else:
        largest = max(silo.records for silo in silos)
        parts += [_named(silo, place, largest) for silo, place in zip(shown, places, strict=True)]
    parts.append(_observer(view, lines, places))
    if len(silos) > len(shown):
        words = f"and {len(silos) - len(shown)} more silos"
        parts.append(Markup('<text class="label" x="200" y="325" text-anchor="middle">{}</text>').format(words))
    names = ", ".join(silo.name for silo in shown)
    title = f"{len(silos)} silos ({names}): {wiring.words}. The guarantee holds against {protection.observer}."
    return svg(title, _WIDTH, _HEIGHT, parts)


def _places(number: int) -> list[tuple[float, float]]:
    if number == 1:
        return [(130.0, _CENTRE[1])]
    if number == 2:  # from left to right
        return [(_CENTRE[0] + side * _RADII[0], _CENTRE[1]) for side in (-1, 1)]
    # No silo stands at the top: the observer looks down from there.
    angles = [math.pi * (2 * i + 1) / number - math.pi / 2 for i in range(number)]
    return [(_CENTRE[0] + _RADII[0] * math.cos(a), _CENTRE[1] + _RADII[1] * math.sin(a)) for a in angles]


def _lines(places: list[tuple[float, float]], wiring: Wiring) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    if wiring.has_coordinator:
        return [(place, _CENTRE if len(places) > 1 else _END) for place in places]
    drawn = [(a, b) for a, b in wiring.edges if a < len(places) and b < len(places)]
    if not drawn:
        return [(place, _END) for place in places] if len(places) == 1 else []
    return [(places[a], places[b]) for a, b in drawn]


def _box(words: str, place: tuple[float, float]) -> Markup:
    return Markup(
        '<rect class="hub" x="{:.0f}" y="{:.0f}" width="92" height="30" rx="6"/>'
        '<text class="hub-text" x="{:.0f}" y="{:.0f}" text-anchor="middle">{}</text>'
    ).format(place[0] - 46, place[1] - 15, place[0], place[1] + 4, words)


def _named(silo: SiloFacts, place: tuple[float, float], largest: int) -> Markup:
    radius = 17 + 13 * math.sqrt(silo.records / largest)
    # Names stand outside the ring of silos, clear of the lines.
    shift = -radius - 7 if place[1] < _CENTRE[1] - 1 else radius + 15
    return Markup(
        '<g transform="translate({:.1f},{:.1f})"><circle class="silo" r="{:.1f}"/>'
        '<text class="count" y="4.5" text-anchor="middle">{}</text>'
        '<text class="name" y="{:.1f}" text-anchor="middle">{}</text></g>'
    ).format(*place, radius, silo.records, shift, silo.name)


def _numbered(number: int, place: tuple[float, float], total: int) -> Markup:
    return Markup(
        '<g transform="translate({:.1f},{:.1f})"><circle class="silo" r="{}"/>'
        '<text class="count" y="4.5" text-anchor="middle">{}</text></g>'
    ).format(*place, 22 if total <= _ROOMY else 13, number)


_SEES = {
    "eavesdropper": "sees every message",
    "coordinator": "the coordinator looks",
    "peer": "another silo looks",
    "public": "sees the final model only",
    "aggregate": "sees the sum of all messages only",
}


def _observer(
    view: str, lines: Sequence[tuple[tuple[float, float], tuple[float, float]]], places: Sequence[tuple[float, float]]
) -> Markup:
    eye = _EYE.format(x=200, y=26)
    words = Markup('<text class="observer" x="200" y="58" text-anchor="middle">{}</text>').format(_SEES.get(view, view))
    if view != "eavesdropper" or not lines:
        return eye + words
    near = sorted({_message(a, b) for a, b in lines}, key=lambda place: (round(place[1]), abs(place[0] - 200)))
    seen = [message for message in near if _is_in_sight(message, places)][:2]
    looks = [
        Markup('<line class="look" x1="{:.0f}" y1="{:.0f}" x2="{:.1f}" y2="{:.1f}"/>').format(*_EYE_AT, x, y - 9)
        for x, y in seen
    ]
    return Markup("").join(looks) + eye + words


def _is_in_sight(message: tuple[float, float], places: Sequence[tuple[float, float]]) -> bool:
    """Return whether the eye sees a message past the silos and the names above them."""
    steps = [0.05 * i for i in range(20)]
    ray = [tuple(e + t * (m - e) for e, m in zip(_EYE_AT, message, strict=True)) for t in steps]
    apart = [(abs(x - at[0]), y - at[1]) for x, y in ray for at in places]
    clear = 31 if len(places) <= _ROOMY else 23
    return not any(math.hypot(*each) < clear or (each[0] < 26 and -50 < each[1] < -28) for each in apart)


def _message(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    """Return where a message is drawn: off the middle, where lines cross."""
    return 0.62 * a[0] + 0.38 * b[0], 0.62 * a[1] + 0.38 * b[1]
