"""Runs a script of examples/attach without the tracer, on the ranks that torchrun starts, and prints rank 0's losses:

    python -m torch.distributed.run … live_attached_plain.py SCRIPT STEPS [MODULE FACTOR FIRST LAST]

A hook of PyTorch multiplies the output of MODULE by FACTOR in the steps from FIRST to LAST.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "python"), str(REPOSITORY / "examples" / "attach")]
import tensor_tracer  # noqa: E402


class Plain:
    """Stands for the attached run: counts the steps, and keeps the losses."""

    def __init__(self, model: Any, module: str, factor: str, first: str, last: str) -> None:
        self.step_number = 0
        self.losses: list[float] = []
        self.factor, self.steps = float(factor), range(int(first), int(last) + 1)
        if module:
            getattr(model, "module", model).get_submodule(module).register_forward_hook(self.scale)

    def scale(self, _module: Any, _args: Any, output: Any) -> Any:
        if self.step_number not in self.steps:
            return None
        return (output[0] * self.factor, *output[1:]) if isinstance(output, tuple) else output * self.factor

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        self.step_number += 1
        yield

    def log(self, loss: Any, **_more: Any) -> None:
        self.losses.append(loss.item())

    def detach(self) -> None:
        if os.environ["RANK"] == "0":
            print(json.dumps(self.losses), flush=True)


def main() -> None:
    script, steps, *scaled = sys.argv[1:]
    scaled = scaled or ["", "1", "0", "0"]
    tensor_tracer.attach = lambda model, **_options: Plain(model, *scaled)
    sys.argv = [script, "--steps", steps]
    runpy.run_path(str(REPOSITORY / "examples" / "attach" / script), run_name="__main__")


if __name__ == "__main__":
    main()
