"""What the tracer costs a training on a device; gpu_check.py starts it.

    python gpu_costs.py OUT '{"device": "cuda", "width": 2048, "batch": 8, "tokens": 1024, "steps": 100, "turns": 5}'

One process trains one model. In each turn every kind of watching has a block of steps, so that all kinds see the same
clocks of the device. Writes OUT/result.json: by kind, the milliseconds of a step in each turn.
"""

import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import tensor_tracer as tt
import torch
from gpu_training import Model, PlainHooks, one_step, plan_of, wait_for

KINDS = ("nothing", "idle", "every 50th", "stats", "tiles", "hooks")
BEFORE = 5  # steps of a block that are not timed: the tracer and the allocator learn what a step needs


@contextlib.contextmanager
def watching(kind: str, model: Model, folder: Path):
    """What a step does besides training: the attached run, and what is done before each step."""
    if kind == "nothing":
        yield None, lambda: None
    elif kind == "hooks":
        hooks = PlainHooks(model)
        yield None, hooks.numbers.clear
        hooks.remove()
    else:
        run = tt.attach(model, port=0, plan=plan_of(kind), run_dir=folder)
        yield run, lambda: None
        run.detach()


def block(kind: str, model: Model, step: Callable[[tt.AttachedRun | None], object], folder: Path, device: str,
          steps: int) -> float:
    """Milliseconds of a step."""
    with watching(kind, model, folder) as (run, prepare):
        begin = 0.0
        for number in range(BEFORE + steps):
            if number == BEFORE:
                wait_for(device)
                begin = time.perf_counter()
            prepare()
            step(run)
        wait_for(device)
        return (time.perf_counter() - begin) * 1e3 / steps


def main() -> None:
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    device = options["device"]
    torch.manual_seed(3)
    model = Model(options["width"]).to(device, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    ids = torch.randint(0, 128, (options["batch"], options["tokens"])).to(device)
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for turn in range(options["turns"]):
        for kind in KINDS:
            found[kind].append(block(
                kind, model, lambda run: one_step(model, optimizer, ids, run, may_not_wait=False),
                folder / f"{kind}{turn}", device, options["steps"],
            ))  # fmt: skip
    (folder / "result.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
