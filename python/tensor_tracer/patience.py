"""How long a loop over records waits."""

from __future__ import annotations

import time


class Patience:
    """The time until the next record that a loop wants. Messages that wait when the time is over are still looked at.
    `seconds`: None: no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        self._until = time.monotonic() + (self._seconds or 0.0)
        self._last_messages: int | None = None  # to be looked at; None: the time is not over

    def left(self) -> float | None:
        return None if self._seconds is None else max(0.0, self._until - time.monotonic())

    def is_over(self, waiting: int) -> bool:
        if self.left() != 0.0:
            return False
        if self._last_messages is None:
            self._last_messages = waiting
        self._last_messages -= 1
        return self._last_messages < 0
