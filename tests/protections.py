"""Changes of a protection by its fields, in records that hold one: terms, policies, entries, invitations."""

from dataclasses import replace

from dpadmm.privacy.protection import Protection

FIELDS = ("view", "colluders", "relation", "records_per_person", "silos_per_person")


def nested(protection: Protection, flat: dict) -> dict:
    """Return fields in which those of a protection change it."""
    found = {name: value for name, value in flat.items() if name in FIELDS}
    others = {name: value for name, value in flat.items() if name not in FIELDS}
    if found.get("view", protection.view) is not protection.view:
        found.setdefault("colluders", None)
    return others | ({"protection": replace(protection, **found)} if found else {})


def changed(record, **flat):
    """Return a record with these changes."""
    return replace(record, **nested(record.protection, flat))
