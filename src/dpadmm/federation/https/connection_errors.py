"""Why a silo's connection to its coordinator is down, in kinds that can be told apart and in words for its log."""

import sqlite3
import ssl
from datetime import UTC, datetime
from enum import Enum

import httpx

from dpadmm.errors import DpadmmError
from dpadmm.federation.errors import MACHINE_FAILURES, UnexpectedFailure, reason_of

_CLOCK_ERRORS = (9, 10)  # OpenSSL: not yet valid, expired
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")


class CoordinatorUnavailable(Exception):
    """Nothing can be exchanged with the coordinator now; the message says why."""


FAILURES = (httpx.HTTPError, CoordinatorUnavailable, OSError, sqlite3.Error)
"""What may pass, and is tried again."""


class ConnectionProblem(Enum):
    """What a failure means, and what to do about it."""

    CLOCK = "the coordinator's certificate is not valid by this machine's clock, {now}; check the clock"
    STRANGER = "the server there is not the coordinator of any approved terms"
    NO_TLS = "the server there does not speak TLS (is this the coordinator's port?)"
    HUNG_UP = "the coordinator closed the connection: no open run or invitation has this key, or a clock is wrong"
    SLOW = "the coordinator did not answer in time"
    UNREACHABLE = "the coordinator cannot be reached ({problem})"
    REFUSED = "{problem}"
    FILES = "the silo's files cannot be written ({problem})"
    MACHINE = "this machine failed ({reason})"
    UNEXPECTED = "UnexpectedFailure, {fault}"


def classify_failure(problem: BaseException) -> ConnectionProblem:
    """Return what a failure of a connection means."""
    cause: BaseException | None = problem
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    match problem, cause:
        case _, ssl.SSLCertVerificationError() if cause.verify_code in _CLOCK_ERRORS:
            return ConnectionProblem.CLOCK
        case _, ssl.SSLCertVerificationError():
            return ConnectionProblem.STRANGER
        case _, ssl.SSLError() if cause.reason in _NO_TLS:
            return ConnectionProblem.NO_TLS
        case (_, ssl.SSLError()) | (httpx.RemoteProtocolError() | httpx.ReadError() | httpx.WriteError(), _):
            return ConnectionProblem.HUNG_UP
        case httpx.TimeoutException(), _:
            return ConnectionProblem.SLOW
        case httpx.HTTPError(), _:
            return ConnectionProblem.UNREACHABLE
        case CoordinatorUnavailable(), _:
            return ConnectionProblem.REFUSED
        case sqlite3.Error(), _:
            return ConnectionProblem.FILES
    return ConnectionProblem.MACHINE if isinstance(problem, MACHINE_FAILURES) else ConnectionProblem.UNEXPECTED


def describe_failure(problem: Exception) -> str:
    """Say what a failure means; the text of other packages may quote anything."""
    reason = str(problem) if isinstance(problem.__cause__, DpadmmError) else reason_of(problem)
    now, fault = datetime.now(UTC).isoformat(timespec="minutes"), UnexpectedFailure(problem)
    return classify_failure(problem).value.format(now=now, problem=problem, reason=reason, fault=fault)
