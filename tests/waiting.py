"""Waiting for what another process or thread does."""

import time
from collections.abc import Callable


def wait_until(is_true: Callable[[], bool], seconds: float, what: str) -> None:
    """Return when something is true; `TimeoutError` when it takes too long."""
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            raise TimeoutError(f"Waited {seconds:g} s for {what}, without success.")
        time.sleep(0.05)
