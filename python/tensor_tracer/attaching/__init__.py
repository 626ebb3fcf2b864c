"""`tensor_tracer.attach`: the tracer inside somebody else's PyTorch training. docs/attach.md describes its use."""

from __future__ import annotations

import atexit
import json
import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.placement_types import Placement

from tensor_tracer.attaching import megatron, torchtitan, tp_plan
from tensor_tracer.attaching.agreement import agree
from tensor_tracer.attaching.contexts import check_order
from tensor_tracer.attaching.extension import Extension, called, check_device, load_extension
from tensor_tracer.attaching.groups import Groups, check_group, make_groups, world
from tensor_tracer.attaching.layouts import Layouts, TensorAxis, check_overrides
from tensor_tracer.attaching.names import Names
from tensor_tracer.attaching.parts import Part, find_parts, number_parts, pipeline_group
from tensor_tracer.attaching.points import point
from tensor_tracer.attaching.prompts import PromptOptions, kInterval
from tensor_tracer.attaching.run import AttachedRun, RunStopped, attached_to
from tensor_tracer.errors import TensorTracerError
from tensor_tracer.sinks.settings import Settings, check_sinks

__all__ = ["AttachedRun", "Replicate", "RunStopped", "Shard", "attach", "point"]

_kRules = [megatron.rule_for, torchtitan.rule_for, tp_plan.rule_for]


def attach(
    model: Any, port: int | None = 8765, *, plan: str | Path | Mapping[str, Any] | None = None,
    names: str | Mapping[str, str] | None = None, placements: Mapping[str, Any] | None = None,
    tensor_parallel_group: Any = None, tensor_parallel_axis: Sequence[str] = ("tp", "tensor", "tensor_parallel"),
    pipeline_parallel_group: Any = None, context_parallel_group: Any = None, context_parallel_order: str | None = None,
    record: str | Path | None = None, vectors: str | Path | None = None, files: str | Path | None = None,
    first_step: int = 1, run_name: str = "", run_dir: str | Path = "", bind: str = "", auth: str = "token",
    tokenizer: Any = "ids", prompts: str | Path | Sequence[str] | None = None, prompt_interval: int = kInterval,
    trainer: str = "PyTorch", sinks: Sequence[str | Settings] = (),
) -> AttachedRun:  # fmt: skip
    """Attaches the tracer to a model and serves its page on `port` (0: the next free one; None: no page).

    `model`: the model that the trainer calls. With pipeline parallelism, this rank's stages: PipelineStage objects of
    torch.distributed.pipelining, or modules, in a list if there are several; then `pipeline_parallel_group` is the
    group. `plan`: what is traced from step first_step + 1 on, a JSON file or its content. `names`: whose module paths
    get standard names, "hf", "megatron" or "torchtitan" (default: all), or names by path: {"layers[n].mlp.gate.output":
    "Gate"}. `placements`: how tensor-parallel ranks share tensors, by a pattern such as "model.layers.*.mlp.act.output".
    `tensor_parallel_group`: the group, if the model's weights are no DTensors. `context_parallel_group`: that whose
    ranks share sequences, in the `context_parallel_order` of Contexts. `record`: the folder for all traced data.
    `vectors`, `files`: the folders of direction vectors and of safetensors files that programs name. `bind`: where the
    hub listens besides loopback. `tokenizer`: turns prompts into ids: "byte", or an object with `encode`; "ids": no
    prompts. `prompts`: texts, or a file of them, that run every `prompt_interval` steps. `sinks`: other tools that take
    its numbers, "wandb", "tensorboard", "otlp", or settings of tensor_tracer.sinks.
    Raises TensorTracerError. Call it after init_process_group and after the model was parallelised, on every rank.
    """
    check_sinks(sinks)
    axes = {"tensor": tensor_parallel_group, "pipeline": pipeline_parallel_group, "context": context_parallel_group}
    texts = prompts, prompt_interval, tokenizer
    order = context_parallel_order
    prepared = _prepare(model, plan, names, placements, tensor_parallel_axis, first_step, texts, axes, order, port)
    groups = _groups_of(prepared, axes, order)
    settings = groups.settings() | {"first_step": first_step}
    if groups.rank == 0:
        settings |= {"vectors": str(vectors or ""), "files": str(files or "")}
        if port is not None or record is not None or sinks:
            settings["hub"] = _hub_settings(prepared.extension, port, record, run_name, run_dir, bind, auth)
    native, stages = _start(settings, groups, prepared.parts)
    layouts = Layouts(len(groups.tensor_ranks), prepared.overrides, prepared.axis, _kRules, groups.contexts.ranks)
    asked = prepared.plan, prepared.names, first_step, trainer, prepared.prompts
    return _begun(AttachedRun(stages, native, groups, layouts, *asked), sinks, has_page=port is not None)


def abandon(model: Any, trainer: str) -> None:
    """Ends the run of an earlier training by the same trainer, whose callback an exception has kept from its end.
    Collective over all ranks."""
    for part in find_parts(model):
        run = attached_to(part.root)
        if run is not None and run.trainer == trainer:
            run.abandon()


@dataclass(frozen=True)
class _Prepared:
    """What this rank alone has checked."""

    parts: list[Part]
    axis: TensorAxis
    overrides: dict[str, Placement]
    plan: Any
    names: Names
    extension: Extension
    prompts: PromptOptions


def _prepare(
    model: Any, plan: Any, names: Any, placements: Any, axis: Sequence[str], first_step: int, prompts: tuple[Any, int, Any],
    axes: Mapping[str, Any], order: str | None, port: int | None,
) -> _Prepared:  # fmt: skip
    """Raises on every rank if one of them has a problem or other arguments. Collective over all ranks."""
    every_rank = world()
    prepared, problem = None, None
    try:
        _check_numbers(port, first_step)
        check_order(axes["context"], order)
        for axis_name, group in axes.items():
            check_group(f"{axis_name}_parallel_group", group)
        prepared = _check(model, plan, names, placements, axis, PromptOptions.of(*prompts))
    except Exception as error:  # the other ranks must not wait for this one
        problem = error
    agree(problem, every_rank, {
        "first_step": str(first_step), "names": repr(names), "placements": repr(placements),
        "tensor_parallel_axis": repr(tuple(axis)), "context_parallel_order": repr(order),
    })  # fmt: skip
    assert prepared is not None
    return prepared


def _check(
    model: Any, plan: Any, names: Any, placements: Any, axis: Sequence[str], prompts: PromptOptions
) -> _Prepared:  # fmt: skip
    parts = _find_parts(model)
    # Rank 0 alone reads plans: the others may have no such file.
    text = _read_plan(plan) if world() is None or dist.get_rank() == 0 else None
    overrides = check_overrides(placements or {})
    extension = load_extension()
    for part in parts:
        check_device(part.root)
    whole = nn.ModuleList(part.root for part in parts)
    return _Prepared(parts, TensorAxis.of(whole, axis), overrides, text, Names(names), extension, prompts)


def _start(settings: dict[str, Any], groups: Groups, parts: Sequence[Part]) -> tuple[Any, dict[int, Part]]:
    """The library's run, and the parts by their stage. A failure of one rank, such as a port in use, is the error of
    every rank. Collective over all ranks."""
    native, stages, problem = None, {}, None
    try:
        _check_folders(settings)
        stages = number_parts(parts, groups)
        native = called(torch.classes.tensor_tracer.Run, json.dumps(settings))
    except Exception as error:
        problem = error
    try:
        agree(problem, groups.control)
    except BaseException:
        native = None
        groups.destroy()
        raise
    return native, stages


def _check_folders(settings: Mapping[str, Any]) -> None:
    """Of global rank 0."""
    for name in ("vectors", "files"):
        folder = settings.get(name)
        if folder and not Path(folder).is_dir() and (name == "files" or not Path(folder).is_file()):
            message = f"there is no folder {folder!r}"
            raise TensorTracerError("invalid_argument", message, name, "give the folder that holds the files")


def _check_numbers(port: Any, first_step: Any) -> None:
    is_port = port is None or (isinstance(port, int) and not isinstance(port, bool) and 0 <= port <= 65535)
    if not is_port:
        message = f"{port!r} is no port"
        raise TensorTracerError("invalid_argument", message, "port", "give 0 to 65535, 0 for the next free one, or None")
    if isinstance(first_step, bool) or not isinstance(first_step, int) or first_step < 1:
        message = f"{first_step!r} is not the number of a step"
        raise TensorTracerError("invalid_argument", message, "first_step", "steps count from 1")


def _find_parts(model: Any) -> list[Part]:
    parts = find_parts(model)
    if any(attached_to(part.root) is not None for part in parts):
        raise TensorTracerError("already_attached", "the model has a tracer", "model", "detach the earlier run first")
    return parts


def _read_plan(plan: str | Path | Mapping[str, Any] | None) -> Any:
    if plan is None or isinstance(plan, Mapping):
        return plan
    if not isinstance(plan, (str, Path)):
        message = f"{type(plan).__name__} is no plan"
        raise TensorTracerError("invalid_argument", message, "plan", 'give {"entries": [...]}, or a JSON file with it')
    try:
        return json.loads(Path(plan).read_text())
    except (OSError, ValueError) as error:
        raise TensorTracerError("invalid_argument", str(error), f"plan {plan}", "give a JSON file") from error


def _hub_settings(
    extension: Extension, port: int | None, record: Any, run_name: str, run_dir: str | Path, bind: str, auth: str
) -> dict[str, Any]:
    return {
        "port": port or 0, "program": str(extension.hub), "run_name": run_name, "run_dir": str(run_dir),
        "bind": bind, "auth": auth, "record": str(record or ""),
    }  # fmt: skip


def _groups_of(prepared: _Prepared, axes: Mapping[str, Any], order: str | None) -> Groups:
    """Collective over all ranks."""
    whole = nn.ModuleList(part.root for part in prepared.parts)
    pipeline = pipeline_group(prepared.parts, axes["pipeline"])
    return make_groups(whole, prepared.axis, axes["tensor"], pipeline, axes["context"], order)


def _begun(run: AttachedRun, sinks: Sequence[str | Settings], *, has_page: bool) -> AttachedRun:
    run.follow(sinks)
    atexit.register(_finish, weakref.ref(run), os.getpid())  # a detached run is not kept
    if has_page:
        _print_address(run)
    return run


def _print_address(run: AttachedRun) -> None:
    """In a notebook the token stays out of the output, which may be published."""
    hub = run.addresses
    if not hub:
        return
    is_private = not sys.stdout.isatty()
    print(f"page   {hub['url']} (token in {hub['token_path']})" if is_private else f"page   {hub['page_url']}")


def _finish(kept: weakref.ref[AttachedRun], process: int) -> None:
    """At the end of the process the queued messages are sent. The groups may be gone. A forked child has no threads
    of the run, which would have to end."""
    run = kept()
    if run is None:
        return
    if os.getpid() == process:
        run.finish_sending()
    else:
        run.leak()
