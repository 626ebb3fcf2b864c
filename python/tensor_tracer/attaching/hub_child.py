"""The hub's process, a child of global rank 0."""

from __future__ import annotations

import os
import time

_kLongestEnd = 35.0  # seconds: the hub may write its recording for 30


class HubChild:
    """`pid`: of the supervisor, which starts the hub again if it dies; 0: this rank has no hub. Thread: one."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def has_ended(self) -> bool:
        """True once, after the supervisor has ended."""
        if not self._pid:
            return False
        try:
            ended, _ = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:  # the trainer waits for all its children
            ended = self._pid
        if ended:
            self._pid = 0
        return bool(ended)

    def wait(self) -> None:
        """Returns when the process has ended, and no zombie is left; or after 35 s."""
        end = time.monotonic() + _kLongestEnd
        while self._pid and not self.has_ended() and time.monotonic() < end:
            time.sleep(0.01)
