"""Silos and coordinators as services of systemd: units that let them do what they must, and little else."""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpadmm.engines.federation.coordinator_files import CoordinatorFiles
from dpadmm.engines.federation.policy import Policy
from dpadmm.engines.federation.silo_files import SiloFiles
from dpadmm.errors import InputError
from dpadmm.operations.machine import user_name

PRIVILEGED_PORTS = 1024
"""Ports below need a right of their own."""

_HOMES = tuple(map(Path, ("/home", "/root", "/run/user")))
_TEMPORARY = tuple(map(Path, ("/tmp", "/var/tmp")))

_TEMPLATE = """\
[Unit]
Description={description}
Wants=network-online.target time-sync.target
After=network-online.target time-sync.target
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
User={user}
WorkingDirectory={directory}
Restart=on-failure
RestartSec=15
# It ends when the step at hand is stored. The process that reads the table must not be ended before it: mixed.
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec=120
# Compiled code is kept here; what is installed may be read-only.
CacheDirectory=%N
CacheDirectoryMode=0700
Environment="NUMBA_CACHE_DIR=%C/%N"
UMask=0077
LimitCORE=0
{rights}
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={writes}
{reads}ProtectHome={home}
PrivateTmp={temporary}
PrivateDevices=yes
ProtectProc=invisible
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
# No MemoryDenyWriteExecute: kernels are compiled when they are first used.

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class ServiceUnit:
    """A unit's name (a file's, without .service), its text, and what whoever installs it should know."""

    name: str
    text: str
    hints: tuple[str, ...]


def silo_unit(directory: Path, coordinator: str) -> ServiceUnit:
    """Return the unit that serves a silo of a directory, dialling the coordinator at HOST:PORT."""
    from dpadmm.engines.https.line import Place

    files = SiloFiles(Path(os.path.realpath(directory)))
    files.check()
    Place.of(coordinator)
    policy = Policy.load(files.policy)
    command = [*program(), "silo", "run", str(files.directory), "--coordinator", coordinator]
    return _unit(f"dpadmm silo {policy.name}", f"silo-{policy.name}", command, files.directory, [Path(policy.data)])


def coordinator_unit(directory: Path, host: str, port: int) -> ServiceUnit:
    """Return the unit that serves the coordinator of a directory there."""
    files = CoordinatorFiles(Path(os.path.realpath(directory)))
    files.check()
    command = [*program(), "coordinator", "run", str(files.directory), "--host", host, "--port", str(port)]
    name = files.directory.name
    right = "CAP_NET_BIND_SERVICE" if port < PRIVILEGED_PORTS else ""
    return _unit(f"dpadmm coordinator {name}", f"coordinator-{name}", command, files.directory, [], right)


def program() -> list[str]:
    """Return the words that start the program which is running now, wherever they are used."""
    script = Path(sys.executable).with_name("dpadmm")  # not resolved: the link knows the environment
    return [str(script)] if script.is_file() else [sys.executable, "-m", "dpadmm"]


def _installed() -> list[Path]:
    """Return where the program and its Python are."""
    return [Path(sys.executable), Path(sys.prefix), Path(os.path.realpath(sys.executable)), Path(sys.base_prefix)]


def _unit(
    description: str, name: str, command: Sequence[str], directory: Path, reads: Sequence[Path], right: str = ""
) -> ServiceUnit:
    owner, paths = user_name(directory.stat().st_uid), [*_installed(), directory, *reads]
    is_at_home, is_temporary = _is_any_in(paths, _HOMES), _is_any_in(paths, _TEMPORARY)
    first, *rest = command
    text = _TEMPLATE.format(
        description=_plain(description),
        command=" ".join([quoted(first), *(quoted(word).replace("$", "$$") for word in rest)]),
        user=owner,
        directory=_plain(str(directory)),
        writes=quoted(str(directory)),
        reads="".join(f"ReadOnlyPaths={quoted(f'-{path}')}\n" for path in reads),
        home="read-only" if is_at_home else "yes",
        temporary="no" if is_temporary else "yes",
        rights=f"CapabilityBoundingSet={right}" + (f"\nAmbientCapabilities={right}" if right else ""),
    )
    return ServiceUnit(f"dpadmm-{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}", text, tuple(_hints(owner, is_temporary)))


def _hints(owner: str, is_temporary: bool) -> list[str]:
    hints = []
    if owner == "root":
        hints.append("It runs as root, who owns the directory. Give the directory to a dedicated user first.")
    if is_temporary:
        hints.append("Part of it is in a temporary folder, which may be emptied at any time. Move it.")
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        hints.append("Services do not see this terminal's proxy: set it with `systemctl edit`, Environment=.")
    return hints


def quoted(text: str) -> str:
    r"""Return a word as systemd reads it back: blanks, quotes and backslashes kept, no specifier expanded.

    >>> quoted("/srv/100% of it/\"x\""), quoted("/srv/clinic")
    ('"/srv/100%% of it/\\"x\\""', '/srv/clinic')
    """
    plain = _plain(text)
    if re.fullmatch(r"[\w@%+=:,./\[\]-]+", plain, re.ASCII):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _plain(text: str) -> str:
    """Return text for a line of its own, in which nothing is quoted."""
    if not text.isprintable() or text != text.strip() or text.endswith("\\"):
        raise InputError(f"A unit cannot hold {text!r}: rename it without line breaks and unusual spaces.")
    return text.replace("%", "%%")


def _is_any_in(paths: Sequence[Path], places: Sequence[Path]) -> bool:
    return any(path.is_relative_to(place) for path in paths for place in places)
