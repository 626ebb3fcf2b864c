"""A training of a small GPT with pipeline stages that test_attach_pipeline.py starts, by itself or by torchrun.

torch.distributed.pipelining runs the stages. The tracer is attached or not. Hooks of this file, which know nothing of
the tracer, keep what each module returned on this rank and its gradient; rank r writes them to OUT/rank<r>.pt by step,
micro-batch, layer (0: outside the layers) and path, with the losses. With `watches_optimizer`, it also writes what Updates
should show of each step, by the parameter's name in the whole model.

    python pipeline_training.py OUT '{"chunks": 1, "attach": {…}, …}'
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from attach_scenarios import Failing
from expected_updates import step_with_rows
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.utils.checkpoint import checkpoint

TOKENS, VOCABULARY, HIDDEN, LAYERS, MICRO_BATCHES, ROWS = 12, 61, 32, 4, 4, 2  # ROWS: of a micro-batch


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_attn = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.c_proj = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (one.unflatten(2, (4, -1)).transpose(1, 2) for one in self.c_attn(x).chunk(3, dim=-1))
        scores = (query @ key.mT / 8**0.5).masked_fill(torch.ones(TOKENS, TOKENS).triu(1).bool(), -1e9)
        return self.c_proj((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_fc = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.c_proj = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(nn.functional.gelu(self.c_fc(x)))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(HIDDEN), Attention()
        self.ln_2, self.mlp = nn.LayerNorm(HIDDEN), Mlp()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """The whole model, or the part of it that one pipeline stage has."""

    def __init__(self, recomputes: bool, layer: type[nn.Module] = Layer) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.wte: nn.Module | None = nn.Embedding(VOCABULARY, HIDDEN)
        self.h = nn.ModuleList(layer() for _ in range(LAYERS))
        self.norm: nn.Module | None = nn.LayerNorm(HIDDEN)
        self.lm_head: nn.Module | None = nn.Linear(HIDDEN, VOCABULARY)
        self.recomputes = recomputes
        self.layers_before = 0

    def keep_stage(self, stage: int, stages: int) -> Gpt:
        size = LAYERS // stages
        self.layers_before = stage * size
        self.h = self.h[stage * size : (stage + 1) * size]
        if stage > 0:
            self.wte = None
        if stage < stages - 1:
            self.norm = self.lm_head = None
        return self

    def weights(self) -> dict[str, Tensor]:
        """By their names in the whole model."""
        whole = {f"h.{number}.": f"h.{number + self.layers_before}." for number in range(len(self.h))}
        named = {}
        for name, weight in self.named_parameters():
            part = next((part for part in whole if name.startswith(part)), "")
            named[whole.get(part, "") + name.removeprefix(part)] = weight
        return named

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.wte is None else self.wte(x)
        for layer in self.h:
            x = checkpoint(layer, x, use_reentrant=False) if self.recomputes else layer(x)
        x = x if self.norm is None else self.norm(x)
        return x if self.lm_head is None else self.lm_head(x)

    def lens(self, hidden: Tensor) -> Tensor | None:
        """The logit lens, without the hooks of norm and output layer; None: another stage has them."""
        if self.norm is None or self.lm_head is None:
            return None
        with torch.no_grad():
            return self.lm_head.forward(self.norm.forward(hidden))


class Witness:
    """Keeps the output of each module and its gradient, and changes one of them if it is told to. Of the layers on the
    rank with the output layer, it also keeps the logit lens."""

    def __init__(self, model: Gpt, scale: dict[str, Any] | None) -> None:
        self.values: dict[tuple[int, int, int, str], Tensor] = {}
        self.gradients: dict[tuple[int, int, int, str], Tensor] = {}
        self.step = 0
        self.forwards = 0  # of the step
        self._now = 0  # the micro-batch whose forward or backward runs
        self._scale = scale
        self._model = model
        model.register_forward_pre_hook(self._begins)
        for path, module in model.named_modules():
            parts, layer = path.split("."), 0
            if parts[0] == "h" and len(parts) > 1:
                layer, parts = model.layers_before + int(parts[1]) + 1, parts[2:]
            module.register_forward_hook(self._keeps(layer, ".".join(parts), not path))

    def _begins(self, _module: nn.Module, _args: Any) -> None:
        if torch._C._current_graph_task_id() == -1:
            self._now, self.forwards = self.forwards, self.forwards + 1

    def _keeps(self, layer: int, path: str, is_root: bool) -> Any:
        def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
            if not isinstance(output, Tensor):
                return None
            scale = self._scale
            if scale and (layer, path) == (scale["layer"], scale["path"]) and self.step >= scale["from"]:
                if self._now in scale.get("micro_batches", range(MICRO_BATCHES)):
                    output = output * scale["factor"]
            key = self.step, self._now, layer, path
            if is_root:  # the backward of this micro-batch begins with its gradient
                micro_batch = self._now
                output.register_hook(lambda _gradient: setattr(self, "_now", micro_batch)) if output.requires_grad else None
            self.values.setdefault(key, output.detach().clone())
            if layer and not path and (lens := self._model.lens(output)) is not None:
                self.values.setdefault((*key[:3], "lens"), lens)
            if output.requires_grad and torch.is_grad_enabled():
                output.register_hook(lambda gradient: self.gradients.setdefault(key, gradient.detach().clone()))
            return output

        return hook


def batch_of(step: int, replica: int, replicas: int) -> Tensor:
    """The rows of this replica for all micro-batches."""
    generator = torch.Generator().manual_seed(1000 * step)
    ids = torch.randint(0, VOCABULARY, (MICRO_BATCHES, replicas, ROWS, TOKENS), generator=generator)
    return ids[:, replica].flatten(0, 1)


def loss_of(logits: Tensor, ids: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


class Whole:
    """The whole model in this process, one micro-batch after another."""

    def __init__(self, options: dict[str, Any], replicas: int) -> None:
        self.models = [Gpt(options.get("recomputes", False))]
        self.stages: list[Any] = list(self.models)
        self.replicas = replicas

    def run(self, step: int, losses: list[Tensor]) -> None:
        batches = [batch_of(step, replica, self.replicas).chunk(MICRO_BATCHES) for replica in range(self.replicas)]
        for ids in zip(*batches, strict=True):
            loss = loss_of(self.models[0](torch.cat(ids)), torch.cat(ids))
            loss.backward()
            losses.append(loss.detach())
        for weight in self.models[0].parameters():
            weight.grad = weight.grad / MICRO_BATCHES if weight.grad is not None else None


class Pipeline:
    """This rank's stages. With data replicas, their gradients are averaged after the backward."""

    def __init__(self, options: dict[str, Any], pipeline: int) -> None:
        chunks = options.get("chunks", 1)
        self.mesh = self.make_mesh(pipeline)
        self.index, self.replica = self.mesh.get_local_rank("pp"), self.mesh.get_local_rank("dp")
        self.replicas = self.mesh["dp"].size()
        group, total = self.mesh.get_group("pp"), pipeline * chunks
        numbers = [self.index + pipeline * chunk for chunk in range(chunks)]
        self.models = [self.make_part(options, number, total) for number in numbers]
        self.stages = [
            PipelineStage(model, number, total, torch.device("cpu"), group=group)
            for model, number in zip(self.models, numbers, strict=True)
        ]
        self.is_first, self.is_last = self.index == 0, self.index == pipeline - 1
        if chunks > 1:
            self.schedule: Any = ScheduleInterleaved1F1B(self.stages, MICRO_BATCHES, loss_of)
        else:
            self.schedule = Schedule1F1B(self.stages[0], MICRO_BATCHES, loss_of)

    def make_mesh(self, pipeline: int) -> DeviceMesh:
        return init_device_mesh("cpu", (pipeline, dist.get_world_size() // pipeline), mesh_dim_names=("pp", "dp"))

    def make_part(self, options: dict[str, Any], stage: int, stages: int) -> Gpt:
        return Gpt(options.get("recomputes", False)).keep_stage(stage, stages)

    def run(self, step: int, losses: list[Tensor]) -> None:
        ids = batch_of(step, self.replica, self.replicas)
        inputs = (ids,) if self.is_first else ()
        if self.is_last:
            self.schedule.step(*inputs, target=ids, losses=losses)
        else:
            self.schedule.step(*inputs)
        for weight in (weight for model in self.models for weight in model.parameters() if self.replicas > 1):
            dist.all_reduce(weight.grad, op=dist.ReduceOp.AVG, group=self.mesh.get_group("dp"))


def cut_link(port: int) -> None:
    """Closes this process's connections to the hub."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as one:
            if one.family == socket.AF_INET and one.getpeername()[1] == port:
                one.shutdown(socket.SHUT_RDWR)


def break_at(fault: dict[str, Any], trained: Any, witness: Witness, run: Any, done: list[list[float]]) -> None:
    """In step 4, in the forward of the second micro-batch, the layers of this rank raise an error or kill the process; or
    from step 4 on a call of the tracer's library fails."""

    def hook(_module: nn.Module, _args: Any) -> None:
        if witness.step == 4 and witness.forwards == 2:
            if fault["how"] == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("an error of this stage")

    if fault["how"] in ("killed", "raises"):
        trained.models[0].h[-1].register_forward_pre_hook(hook)
    elif run is not None:
        native, run._native = run._native, None
        run._native = Failing(native, fault["how"], SimpleNamespace(losses=done))


def intervene(run: Any, program: str) -> str:
    """The error."""
    import tensor_tracer as tt

    try:
        run.intervene(program)
    except tt.TensorTracerError as refused:
        return str(refused)
    return ""


def name_machine(name: str) -> None:
    """For this process alone, this machine has another name."""
    libc, clone_newuts = ctypes.CDLL(None, use_errno=True), 0x04000000
    if libc.unshare(clone_newuts) != 0 or libc.sethostname(name.encode(), len(name)) != 0:
        raise OSError(ctypes.get_errno(), "another machine's name; be root")


def train(out: Path, options: dict[str, Any]) -> dict[str, Any]:
    rank = dist.get_rank() if dist.is_initialized() else -1
    if "machines" in options:
        name_machine(options["machines"][rank])
    trained: Any = Pipeline(options, options.get("pipeline", 2)) if rank >= 0 else Whole(options, options["replicas"])
    weights = {name: weight for model in trained.models for name, weight in model.weights().items()}
    watches, updates = options.get("watches_optimizer", False), []
    kind: Any = torch.optim.AdamW if watches else torch.optim.SGD
    optimizer = kind(weights.values(), lr=0.01 if watches else 0.05, foreach=False)
    witnesses = [Witness(model, options.get("scale")) for model in trained.models]
    run = None
    if options.get("attach") is not None:
        import tensor_tracer as tt

        groups = len(dist.distributed_c10d._world.pg_map)
        run = tt.attach(trained.stages, **options["attach"])
        if watches:
            run.watch_optimizer(optimizer)
    of_steps: list[list[float]] = []
    if (fault := options.get("fault")) is not None and fault["rank"] == rank:
        break_at(fault, trained, witnesses[0], run, of_steps)
    for step in range(1, options["steps"] + 1):
        if run is not None and (program := options.get("program")) and step == 3:
            (out / f"refused{rank}.txt").write_text(intervene(run, program))
        for witness in witnesses:
            witness.step, witness.forwards = step, 0
        losses: list[Tensor] = []
        tokens = batch_of(step, trained.replica, trained.replicas) if options.get("gives_tokens") else None
        with run.step(tokens) if run is not None else contextlib.nullcontext():
            trained.run(step, losses)
            updates.append(step_with_rows(optimizer, weights))
            optimizer.zero_grad()
        of_steps.append([float(loss.detach()) for loss in losses])
        if run is not None:
            run.log(loss=sum(of_steps[-1]) / MICRO_BATCHES if losses else None, lr=step / 100)
        if step == options.get("cuts_link_after"):
            if rank == 1:
                cut_link(options["attach"]["port"])
            time.sleep(2)
            dist.barrier()
    if run is not None:
        (out / f"points{rank}.json").write_text(json.dumps(run.points()))
        if not options.get("ends"):
            run.detach()
            assert len(dist.distributed_c10d._world.pg_map) == groups, "a process group is left"
            assert not any("forward_one_chunk" in vars(stage) for stage in trained.stages), "a method is replaced"
    found = {"losses": of_steps, "values": {}, "gradients": {}, "updates": updates}
    for witness in witnesses:
        found["values"] |= witness.values
        found["gradients"] |= witness.gradients
    return found


def main() -> None:
    out, rank = Path(sys.argv[1]), int(os.environ.get("RANK", "-1"))
    torch.set_num_threads(1)
    if rank >= 0:
        dist.init_process_group("gloo")
    options = json.loads(sys.argv[2])
    torch.save(train(out, options), out / f"rank{max(rank, 0)}.pt")
    if rank >= 0 and options.get("ends") != "exit":
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
