"""What those who run a federation do around it: invite silos, join, rehearse, watch, change keys and data, check its
status, find out what is wrong, install it as a service.

Nothing here decides what is released, which is `dpadmm.federation`'s alone; no output shows a cell of a table.
"""

from dpadmm import _offer

_HOMES = {
    "Checkup": "checkups",
    "CoordinatorStatus": "coordinator_status",
    "Guest": "joining",
    "Health": "checkups",
    "Invitation": "invitations",
    "OwnRules": "joining",
    "Rehearsal": "rehearsal",
    "SiloStatus": "silo_status",
    "Studies": "invitations",
    "Study": "invitations",
    "change_data": "custody",
    "examine_coordinator": "coordinator_doctor",
    "examine_silo": "silo_doctor",
    "rotate_coordinator_key": "custody",
    "rotate_silo_key": "custody",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
