"""CPU seconds that a tool adds to a training process: in its hooks and calls, in its threads, in its processes."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

TASKS = Path("/proc/self/task")

# The functions by which a tool installs a hook; the hook is the first argument after self.
INSTALLERS = (
    (nn.Module, "register_forward_pre_hook"),
    (nn.Module, "register_forward_hook"),
    (nn.Module, "register_full_backward_pre_hook"),
    (nn.Module, "register_full_backward_hook"),
    (torch.Tensor, "register_hook"),
    (torch.Tensor, "register_post_accumulate_grad_hook"),
)


def thread_seconds(task: int) -> float:
    """Of a thread of this process, by the kernel's clock of this thread."""
    return time.clock_gettime(~task << 3 | 6)


def process_seconds(pid: int) -> float:
    """Of any process."""
    return time.clock_gettime(~pid << 3 | 2)


def tasks() -> set[int]:
    """The threads of this process."""
    return {int(name) for name in os.listdir(TASKS)}


def children(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have started."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *children(child)]
    return found


class Meter:
    """What one tool has used so far, in CPU seconds. Made before the tool starts: threads and processes that are there
    are not the tool's."""

    def __init__(self) -> None:
        self.hooks = 0.0  # in the functions that were installed within counts_hooks()
        self.calls = 0.0  # in what the trainer calls
        self.gradients = 0.0  # in hooks that are not Python's; the trainer adds to it
        self._before = tasks()
        self._children = set(children(os.getpid()))
        self._threads: dict[int, tuple[str, float]] = {}

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A call of the tool."""
        begin = time.thread_time()
        try:
            return function(*arguments)
        finally:
            self.calls += time.thread_time() - begin

    @contextlib.contextmanager
    def counts_hooks(self) -> Iterator[None]:
        """Hooks that are installed meanwhile are counted as long as they exist."""
        originals = [getattr(kind, name) for kind, name in INSTALLERS]
        for (kind, name), original in zip(INSTALLERS, originals):
            setattr(kind, name, self._installer(original))
        try:
            yield
        finally:
            for (kind, name), original in zip(INSTALLERS, originals):
                setattr(kind, name, original)

    def _installer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def install(at: Any, hook: Callable[..., Any], *more: Any, **options: Any) -> Any:
            return original(at, self._counted(hook), *more, **options)

        return install

    def _counted(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            begin = time.thread_time()
            try:
                return hook(*arguments, **named)
            finally:
                self.hooks += time.thread_time() - begin

        return counted

    def threads(self) -> dict[str, float]:
        """Of the tool's threads, by their names. What a thread uses between the last call and its end is lost."""
        for task in tasks() - self._before:
            with contextlib.suppress(OSError):
                self._threads[task] = (TASKS / str(task) / "comm").read_text().strip(), thread_seconds(task)
        by_name: dict[str, float] = {}
        for name, seconds in self._threads.values():
            by_name[name] = by_name.get(name, 0.0) + seconds
        return by_name

    def processes(self) -> float:
        """Of the tool's processes that run now."""
        return sum(process_seconds(pid) for pid in set(children(os.getpid())) - self._children)
