"""`tensor_tracer.attach`: the tracer inside somebody else's PyTorch training. docs/attach.md describes its use."""

from __future__ import annotations

import atexit
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tensor_tracer.attaching import facts as about
from tensor_tracer.attaching import megatron
from tensor_tracer.attaching.extension import Extension, called, check_device, load_extension
from tensor_tracer.attaching.groups import Groups, make_groups
from tensor_tracer.attaching.layouts import Layouts, TensorAxis, check_overrides
from tensor_tracer.attaching.learning import is_compiled
from tensor_tracer.attaching.names import Names
from tensor_tracer.attaching.run import AttachedRun, RunStopped, is_attached, remember
from tensor_tracer.errors import TensorTracerError

__all__ = ["AttachedRun", "RunStopped", "attach"]


def attach(
    model: nn.Module | Sequence[nn.Module], port: int | None = 8765, *, plan: str | Path | Mapping[str, Any] | None = None,
    names: str | Mapping[str, str] | None = None, placements: Mapping[str, Any] | None = None,
    tensor_parallel_group: Any = None, tensor_parallel_axis: Sequence[str] = ("tp", "tensor", "tensor_parallel"),
    record: str | Path | None = None, vectors: str | Path | None = None, first_step: int = 1, run_name: str = "",
    run_dir: str | Path = "", auth: str = "token", tokenizer: str = "ids", trainer: str = "PyTorch",
) -> AttachedRun:  # fmt: skip
    """Attaches the tracer to a model and serves its page on `port` (0: the next free one; None: no page).

    `model`: the model that the trainer calls, also inside DistributedDataParallel. `plan`: what is traced from
    step first_step + 1 on, a JSON file or its content; without it, the default plan. `names`: whose module paths
    get the standard names of docs/attach.md, "hf", "megatron" or "torchtitan" (default: all), or names of your own,
    by path: {"layers[n].mlp.gate_proj.output": "Gate"}. `placements`: how tensor-parallel ranks share
    tensors that the tracer does not understand, by a pattern of the module's path and `.output` or `.input`:
    {"model.layers.*.mlp.act.output": Shard(-1)}. `tensor_parallel_group`: the group, if the model's weights are no
    DTensors. `record`: keep all traced data in this folder. `vectors`: the folder of direction vectors.
    `tokenizer`: "byte" if ids are bytes; the page then shows text, else numbers.
    Raises TensorTracerError. Call it after init_process_group and after the model was parallelised, on every rank.
    """
    root = _check_model(model)
    axis = TensorAxis.of(root, tensor_parallel_axis)
    overrides = check_overrides(placements or {})
    text = _read_plan(plan)
    extension = load_extension()
    check_device(root)
    groups = make_groups(root, axis, tensor_parallel_group)
    settings = groups.settings() | {"first_step": first_step}
    if groups.rank == 0:
        settings |= {"vectors": str(vectors or "")}
        if port is not None or record is not None:
            settings["hub"] = _hub_settings(extension, port, record, run_name, run_dir, auth)
    native = _start(torch.classes.tensor_tracer.Run, settings, groups)
    layouts = Layouts(len(groups.tensor_ranks), overrides, axis, megatron.rule_for)
    told = {"trainer": trainer, "tokenizer": tokenizer}
    run = AttachedRun(root, native, groups, layouts, text, Names(names), first_step, told)
    remember(root, run)
    atexit.register(_finish, run)
    _print_address(run)
    return run


def _start(make: Any, settings: dict[str, Any], groups: Groups) -> Any:
    try:
        return called(make, json.dumps(settings))
    except BaseException:
        groups.destroy()
        raise


def _check_model(model: nn.Module | Sequence[nn.Module]) -> nn.Module:
    if isinstance(model, (list, tuple)) and len(model) == 1:
        model = model[0]  # as Megatron-LM passes its model
    if not isinstance(model, nn.Module):
        message = f"{type(model).__name__} is not a torch.nn.Module"
        raise TensorTracerError("invalid_argument", message, "model", "give the model that the trainer calls")
    root = about.unwrapped(model)
    if is_compiled(root):
        raise TensorTracerError(
            "compiled", "the whole model is compiled, and compiled code calls no hooks of modules", "model",
            "compile its layers instead, or do not compile it while you watch",
        )  # fmt: skip
    if is_attached(root):
        raise TensorTracerError("already_attached", "the model has a tracer", "model", "detach the earlier run first")
    if any(parameter.is_meta for parameter in root.parameters()):
        message = "the model is on the meta device: it has no numbers yet"
        raise TensorTracerError("invalid_argument", message, "model", "attach after the weights were made")
    return root


def _read_plan(plan: str | Path | Mapping[str, Any] | None) -> Any:
    if plan is None or isinstance(plan, Mapping):
        return plan
    try:
        return json.loads(Path(plan).read_text())
    except (OSError, ValueError) as error:
        raise TensorTracerError("invalid_argument", str(error), f"plan {plan}", "give a JSON file") from error


def _hub_settings(
    extension: Extension, port: int | None, record: str | Path | None, run_name: str, run_dir: str | Path, auth: str
) -> dict[str, Any]:
    return {
        "port": port or 0, "program": str(extension.hub), "run_name": run_name, "run_dir": str(run_dir),
        "auth": auth, "record": str(record or ""),
    }  # fmt: skip


def _print_address(run: AttachedRun) -> None:
    """In a notebook the token stays out of the output, which may be published."""
    hub = run.addresses
    if not hub:
        return
    is_private = not sys.stdout.isatty()
    print(f"page   {hub['url']} (token in {hub['token_path']})" if is_private else f"page   {hub['page_url']}")


def _finish(run: AttachedRun) -> None:
    """At the end of the process the queued messages are sent. The groups may be gone."""
    run.finish_sending()
