"""Trainings that test_attach_safety.py runs on forked ranks: the tracer is attached, and something goes wrong.

Each function runs on every rank and returns what the test looks at. `attach`: arguments of attach(); None: no tracer.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from attached_training import DEVICE, Plain, batch_of, hooks_of, inner_of, loss_of, make_model, wrapped
from torch import Tensor, nn

Options = dict[str, Any] | None


def nothing(_step: int) -> None:
    """Before each step nothing happens."""


class Training:
    """A model, its optimizer and, if asked, its tracer."""

    def __init__(self, kind: str, wrap: str, attach: Options) -> None:
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.ranks = dist.get_world_size() if dist.is_initialized() else 1
        self.wrap = wrap
        if attach is not None:
            sys.argv = ["", str(attach["run_dir"])]  # make_model() writes a model into this folder
        else:
            sys.argv = ["", os.environ["FOLDER"]]
        self.model = wrapped(make_model(kind, wrap), wrap)
        self.root = inner_of(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2, foreach=False)
        self.losses: list[float] = []
        self.run: Any = None
        if attach is not None:
            import tensor_tracer as tt

            self.run = tt.attach(self.model, **attach)

    def step(self, number: int, tokens: slice = slice(None), rows: slice = slice(None)) -> None:
        with self.run.step() if self.run is not None else contextlib.nullcontext():
            ids = batch_of(number, 0, {"wrap": self.wrap}, self.rank, self.ranks)[rows, tokens]
            self.take(loss_of(self.model, ids))
        if self.run is not None:
            self.run.log(loss=self.losses[-1])

    def take(self, loss: Tensor) -> None:
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(float(loss.detach()))

    def steps(self, count: int, before: Callable[[int], None] = nothing) -> list[float]:
        for number in range(1, count + 1):
            before(number)
            self.step(number)
        if self.run is not None:
            self.run.detach()
        return self.losses


def logged(attach: Options, values: list[Any]) -> list[str]:
    """Logs each value as the loss of a step. Returns the refusals."""
    import tensor_tracer as tt

    training, refusals = Training("plain", "none", attach), []
    for number, value in enumerate(values, 1):
        with training.run.step():
            training.take(loss_of(training.model, batch_of(number, 0, {"wrap": "none"}, 0, 1)))
        try:
            training.run.log(loss=value)
        except tt.TensorTracerError as error:
            refusals.append(str(error))
    training.run.detach()
    return refusals


def copied(attach: Options, kind: str) -> list[float]:
    """From step 2 on, a copy, an average of the weights and a file of the model run, too; they are not of the run."""
    training = Training(kind, "none", attach)
    others: list[Any] = [copy.deepcopy(training.model)]

    def run_others(step: int) -> None:
        if step == 3:
            others.append(torch.optim.swa_utils.AveragedModel(training.model))
            torch.save(training.model, Path(sys.argv[1]) / "model.pt")
            others.append(torch.load(Path(sys.argv[1]) / "model.pt", weights_only=False))
        for other in others:
            loss_of(other, batch_of(step, 0, {"wrap": "none"}, 0, 1)).backward()

    return training.steps(5, run_others)


def refused_updates(attach: Options) -> str:
    """Why the updates of FSDP1's flat weights are not watched."""
    import tensor_tracer as tt

    training = Training("plain", "fsdp1", attach)
    told = ""
    try:
        training.run.watch_optimizer(training.optimizer)
    except tt.TensorTracerError as error:
        told = str(error)
    training.steps(2)
    return told


def processes() -> list[tuple[int, int]]:
    """Of all living processes and zombies: the number and the parent's."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit():
                found.append((int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])))
    return found


def descendants(pid: int) -> list[int]:
    return [one for child, parent in processes() if parent == pid for one in (child, *descendants(child))]


def wait_for(file: Path) -> None:
    end = time.monotonic() + 30
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.01)


# --- processes that die ---


def kill_hub(attach: Options, which: str) -> list[float]:
    """Before step 4 the hub dies: itself, or its supervisor, after which it ends."""
    training = Training("plain", "none", attach)

    def before(step: int) -> None:
        if step == 4 and attach is not None:
            supervisor, hub = descendants(os.getpid())
            os.kill(hub if which == "hub" else supervisor, signal.SIGKILL)
        if step > 4 and attach is not None:
            time.sleep(0.3)

    losses = training.steps(8, before)
    assert not descendants(os.getpid()), "a process is left"
    return losses


def watch_and_die(run_dir: str, gone: str) -> None:
    """A viewer that is killed while it gets records."""
    import tensor_tracer as tt

    wait_for(Path(run_dir) / "open.html")
    run = tt.connect(run_dir=run_dir)
    for _ in range(500):
        with contextlib.suppress(ValueError):  # the places are known after the first step
            next(iter(run.records("HiddenStates", direction="value")))
            break
        time.sleep(0.02)
    Path(gone).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def lose_viewer(attach: Options, gone: str) -> list[float]:
    """Steps until the viewer has died, and four more."""
    training = Training("plain", "none", attach)
    step = last = 0
    while step < 1000 and (not last or step < last):
        step += 1
        training.step(step)
        time.sleep(0.02)
        if not last and Path(gone).exists():
            last = step + 4
    training.run.detach()
    return training.losses


def pause(attach: Options, seconds: float) -> list[float]:
    """After step 3 a viewer, a thread of rank 0, pauses the run for longer than the limit of time of the groups."""
    import tensor_tracer as tt

    training = Training("plain", "ddp", attach)
    paused = threading.Event()

    def hold() -> None:
        with tt.connect(run_dir=attach["run_dir"]) as viewer, viewer.control("test") as control:
            control.pause()
            paused.set()
            time.sleep(seconds)
            control.resume()

    viewer = threading.Thread(target=hold)
    step, last = 0, 0
    while not last or step < last:
        step += 1
        training.step(step)
        if training.rank == 0 and step == 3:
            viewer.start()
        is_over = torch.tensor([float(paused.is_set() and not last)])
        dist.all_reduce(is_over)  # the ranks take the same number of steps
        if is_over > 0:
            last = step + 3
        time.sleep(0.05)
    training.run.detach()
    if training.rank == 0:
        viewer.join()
    return training.losses


def train(attach: Options, kind: str, wrap: str, steps: int) -> list[float]:
    return Training(kind, wrap, attach).steps(steps)


def lose_rank(attach: Options, kind: str, wrap: str, how: str) -> list[float]:
    """Rank 1 ends before step 4."""
    training = Training(kind, wrap, attach)

    def before(step: int) -> None:
        if step == 4 and training.rank == 1:
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("an error of rank 1")

    return training.steps(6, before)


# --- models that change ---

# A module, and the one that takes what the first returns.
WIDENED = {
    "plain": ("blocks.1.up", "blocks.1.down"), "llama": ("model.layers.1.mlp.gate_proj", "model.layers.1.mlp.act_fn"),
}  # fmt: skip


def other_shapes(attach: Options, kind: str, wrap: str, which: str) -> list[float]:
    """From step 4 on the batches, or what a module in layer 2 returns, have another shape."""
    training = Training(kind, wrap, attach)
    if which == "features":  # columns come twice; the next module takes the first half
        training.root.get_submodule(WIDENED[kind][0]).register_forward_hook(
            lambda _module, _args, output: torch.cat([output] * (2 if len(training.losses) >= 3 else 1), dim=-1)
        )
        training.root.get_submodule(WIDENED[kind][1]).register_forward_pre_hook(
            lambda _module, args: (args[0][..., : args[0].shape[-1] // (2 if len(training.losses) >= 3 else 1)],)
        )
    for step in range(1, 8):
        changes = step >= 4
        tokens = slice(0, 5 + step if changes and which == "tokens" else None)
        rows = slice(0, 2 if changes and which == "rows" else None)
        training.step(step, tokens, rows)
    if training.run is not None:
        training.run.detach()
    return training.losses


def edit(attach: Options, how: str) -> list[float]:
    """Before step 4 somebody edits the model."""
    training = Training("plain", "none", attach)
    blocks = training.root.blocks

    def before(step: int) -> None:
        if step != 4:
            return
        torch.manual_seed(1)
        fresh = Plain().to(DEVICE).blocks[0]
        if how == "replaced":
            blocks[1].down = fresh.down
        elif how == "appended":
            blocks.append(fresh)
        elif how == "removed":
            del blocks[2]
        else:
            training.root.compile(backend="aot_eager")

    return training.steps(7, before)


def compiled(attach: Options, which: str) -> tuple[list[float], list[dict[str, Any]]]:
    """Single layers are compiled before attach()."""
    torch.compiler.reset()
    training = Training("plain", "none", None)
    blocks = training.root.blocks
    for number, block in enumerate(blocks):
        if which == "in place":
            block.compile(backend="aot_eager")
        elif which == "all" or number == 1:
            blocks[number] = torch.compile(block, backend="aot_eager")
    if attach is None:
        return training.steps(4), []
    import tensor_tracer as tt

    training.run = tt.attach(training.model, **attach)
    for step in range(1, 5):
        training.step(step)
    points = training.run.points()
    training.run.detach()
    return training.losses, points


def two_models(attach: Options) -> list[list[float]]:
    """Two models, each attached, whose steps alternate."""
    both = [Training("plain", "none", attach and attach | {"run_dir": f"{attach['run_dir']}{i}"}) for i in (0, 1)]
    for step in range(1, 5):
        for number, training in enumerate(both):
            training.step(10 * number + step)
    for training in both:
        if training.run is not None:
            training.run.detach()
    return [training.losses for training in both]


# --- errors of the tracer ---


class Failing:
    """The library's object, one of whose methods raises an error from a step on."""

    def __init__(self, native: Any, method: str, training: Training) -> None:
        self._native, self._method, self._training = native, method, training

    def __getattr__(self, name: str) -> Any:
        if name == "begin" and self._method not in ("begin", "before_step", "end_step"):
            return lambda *args: Failing(self._native.begin(*args), self._method, self._training)
        if name == self._method and len(self._training.losses) >= 3:
            raise RuntimeError("forced")
        return getattr(self._native, name)


def fail(
    attach: dict[str, Any], kind: str, wrap: str, method: str, rank: int, program: str = "", watches: bool = False
) -> list[float]:
    """From step 4 on a call of the library fails on one rank. `watches`: the optimizer is watched."""
    training = Training(kind, wrap, attach)
    if watches:
        training.run.watch_optimizer(training.optimizer)
    if training.rank == rank:
        native, training.run._native = training.run._native, None
        training.run._native = Failing(native, method, training)
        del native

    def before(step: int) -> None:
        if step == 2 and program:
            training.run.intervene(program)

    return training.steps(7, before)


def left_behind(attach: dict[str, Any], kind: str, wrap: str, raises: bool) -> dict[str, Any]:
    """What is there before attach() and after detach()."""
    from tensor_tracer.attaching import points

    training = Training(kind, wrap, None)

    def count() -> dict[str, Any]:
        tensors = sum(len(one._backward_hooks or {}) for one in training.model.parameters())
        threads = sorted(thread.name for thread in threading.enumerate())
        groups = len(dist.distributed_c10d._world.pg_map) if dist.is_initialized() else 0
        names = len(dist.distributed_c10d._world.pg_names) if dist.is_initialized() else 0
        tasks = [(Path("/proc/self/task") / one / "comm").read_text() for one in os.listdir("/proc/self/task")]
        ours = sorted(name for name in tasks if name.startswith("tt-"))
        loops = sum(name.startswith("gloo_tcp_loop") for name in tasks)
        children = descendants(os.getpid())
        optimizer = training.optimizer
        of_optimizer = len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)
        return {"hooks": hooks_of(training.model), "tensors": tensors, "threads": threads, "groups": groups,
                "names": names, "ours": ours, "loops": loops, "children": children, "of optimizer": of_optimizer,
                "watchers of points": len(points._watchers)}  # fmt: skip

    before = count()
    import tensor_tracer as tt

    training.run = tt.attach(training.model, **attach)
    training.run.watch_optimizer(training.optimizer)
    for step in range(1, 4):
        training.step(step)
        if step == 1:
            training.run.intervene("layers[2].output *= 1.0")
    while_attached = count()
    if raises:
        with contextlib.suppress(ZeroDivisionError), training.run.step():
            training.take(loss_of(training.model, batch_of(4, 0, {"wrap": wrap}, training.rank, training.ranks)))
            raise ZeroDivisionError
    training.run.detach()
    return {"before": before, "attached": while_attached, "after": count()}


def forgotten(attach: dict[str, Any]) -> list[bool]:
    """Whether model and optimizer are gone once the script has no reference to them."""
    training: Any = Training("plain", "none", attach)
    training.run.watch_optimizer(training.optimizer)
    kept = [weakref.ref(training.root), weakref.ref(training.optimizer)]
    training.steps(3)
    training = None
    gc.collect()
    return [one() is None for one in kept]


# --- ranks that differ ---


def attach_error(attach: dict[str, Any], of_rank_1: dict[str, Any], what: str = "") -> tuple[str, str, float]:
    """Code and text of the error of attach() or of the first step, and its seconds. Rank 1 has other arguments."""
    import tensor_tracer as tt

    training = Training("plain", "ddp" if dist.is_initialized() else "none", None)
    model = training.model
    if what == "meta" and training.rank == 1:
        model = Plain().to("meta")
    if what == "no library" and training.rank == 1:
        os.environ["TENSOR_TRACER_BUILD"] = "/nowhere"
    if what == "launched":
        os.environ["WORLD_SIZE"] = "2"
    began = time.monotonic()
    try:
        training.run = tt.attach(model, **(attach | (of_rank_1 if training.rank == 1 else {})))
        if what == "twice":
            tt.attach(model, **attach)
        training.steps(3)
    except tt.TensorTracerError as error:
        return error.code, str(error), time.monotonic() - began
    return "", "", time.monotonic() - began


def uneven(attach: Options, what: str) -> list[float]:
    """Rank 1 does something that rank 0 does not."""
    training = Training("plain", "ddp", attach)
    rank = training.rank
    for step in range(1, 6):
        if what == "late" and step == 1:  # rank 0 alone runs the model in the first step, without backward
            with training.run.step() if training.run is not None else contextlib.nullcontext():
                if rank == 0:
                    training.root(batch_of(1, 0, {"wrap": "ddp"}, rank, 2))
            continue
        training.step(step, slice(0, 12 - 3 * rank if what == "shapes" else None))
        if rank == 1 and what == "evaluation":
            with torch.no_grad():
                loss_of(training.root, batch_of(step, 0, {"wrap": "ddp"}, rank, 2))
        if rank == 0 and what == "calls" and training.run is not None:
            training.run.points()
            training.run.log(loss=1.0)
            if step == 2:
                training.run.intervene("layers[2].output *= 1.0")
    if training.run is not None:
        training.run.detach()
    return training.losses


def recover(attach: Options, where: str) -> list[float]:
    """In step 3 rank 1 leaves the step by an exception after its update, and goes on."""
    training = Training("plain", "ddp", attach)
    for step in range(1, 6):
        with contextlib.suppress(ZeroDivisionError), \
                training.run.step() if training.run is not None else contextlib.nullcontext():  # fmt: skip
            training.take(loss_of(training.model, batch_of(step, 0, {"wrap": "ddp"}, training.rank, 2)))
            if step == 3 and (training.rank == 1 or where == "everywhere"):
                raise ZeroDivisionError
    if training.run is not None:
        training.run.detach()
    return training.losses


def changing_from_step_3(training: Training, program: str, by_hand: Callable[[], None]) -> Callable[[int], None]:
    """What Training.steps() calls before a step: with the tracer the program begins, without it the change by hand."""

    def before(step: int) -> None:
        if step == 3:
            by_hand() if training.run is None else training.run.intervene(program)

    return before


def steer(attach: Options, kind: str, wrap: str, program: str, skipped: list[int]) -> list[float]:
    """The program from step 3 on. Without the tracer: layers that return their input, by PyTorch's own means, and
    whose weights get gradients of 0."""
    training = Training(kind, wrap, attach)
    layers = next(one for one in training.root.modules() if isinstance(one, nn.ModuleList))

    def instead(layer: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        def returns_input(hidden: Tensor, *args: Any, **kwargs: Any) -> Any:
            computed = forward(hidden, *args, **kwargs)
            zero = 0.0 * (computed if isinstance(computed, Tensor) else computed[0])
            changed = hidden + zero
            return changed if isinstance(computed, Tensor) else (changed, *computed[1:])

        return returns_input

    def by_hand() -> None:
        for number in skipped:
            layers[number - 1].forward = instead(layers[number - 1], layers[number - 1].forward)

    return training.steps(6, changing_from_step_3(training, program, by_hand))


def multiply_weights(
    attach: Options, kind: str, wrap: str, program: str, paths: list[str], recomputes: bool = False
) -> tuple[list[float], list[dict[str, Any]]]:
    """The program from step 3 on. Without the tracer: these modules compute with 1.5 times their weight. Returns the
    losses and, with the tracer, its places."""
    training = Training(kind, wrap, attach)
    if recomputes:
        training.root.gradient_checkpointing_enable({"use_reentrant": False})

    def forward_of(module: nn.Module) -> Callable[[Tensor], Tensor]:
        def of_linear(x: Tensor) -> Tensor:
            return nn.functional.linear(x, module.weight * 1.5, module.bias)

        def of_conv(x: Tensor) -> Tensor:
            return torch.addmm(module.bias, x.flatten(0, -2), module.weight * 1.5).view(*x.shape[:-1], -1)

        return of_linear if isinstance(module, nn.Linear) else of_conv

    def by_hand() -> None:
        for path in paths:
            module = training.root.get_submodule(path)
            module.forward = forward_of(module)

    losses = training.steps(6, changing_from_step_3(training, program, by_hand))
    assert not any("weight" in module.__dict__ for module in training.root.modules())
    return losses, training.run.points() if attach is not None else []


def errors_of(attach: dict[str, Any], kind: str, programs: list[str]) -> list[str]:
    """Of each program, the error; empty: none."""
    import tensor_tracer as tt

    training = Training(kind, "none", attach)
    training.step(1)
    errors = []
    for number, program in enumerate(programs):
        try:
            training.run.intervene(program, name=f"program {number}")
            errors.append("")
        except tt.TensorTracerError as error:
            errors.append(str(error))
    training.step(2)
    training.run.detach()
    return errors
