"""What `attach` is given: the whole model, or the parts of it that are the pipeline stages of this rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.distributed import GroupMember

from tensor_tracer.attaching import facts as about
from tensor_tracer.attaching.groups import Groups
from tensor_tracer.attaching.learning import is_compiled
from tensor_tracer.errors import TensorTracerError


@dataclass(frozen=True)
class Part:
    """A module that the trainer calls. `stage`: the PipelineStage of torch.distributed.pipelining that calls it, or
    None."""

    root: nn.Module
    stage: Any = None


def find_parts(model: Any) -> list[Part]:
    """`model`: a module, a PipelineStage, or a list of such. Raises TensorTracerError."""
    parts = [_part_of(one) for one in (model if isinstance(model, (list, tuple)) else [model])]
    if not parts:
        raise TensorTracerError("invalid_argument", "the list is empty", "model", "give the model that the trainer calls")
    if len({part.stage is None for part in parts}) > 1:
        message = "some parts are pipeline stages and others are modules"
        raise TensorTracerError("invalid_argument", message, "model", "give the stages alone")
    return parts


def pipeline_group(parts: Sequence[Part], given: Any) -> Any:
    """The group that the user gave, or that of the stages of torch.distributed.pipelining; None: the parts are modules."""
    stage = parts[0].stage
    if stage is None or given is not None:
        return given
    return GroupMember.WORLD if stage.group is None else stage.group


def number_parts(parts: Sequence[Part], groups: Groups) -> dict[int, Part]:
    """The parts by the number of their virtual pipeline stage, from 0. A stage says its number. A list of modules holds
    every P-th stage of P pipeline-parallel ranks, as with Megatron-Core. Collective over the pipeline-parallel ranks.
    Raises TensorTracerError."""
    ranks = len(groups.pipeline_ranks)
    numbers = [
        groups.pipeline_index + ranks * index if part.stage is None else int(part.stage.stage_index)
        for index, part in enumerate(parts)
    ]
    found = sorted(number for own in groups.gather_stages({groups.pipeline_index: numbers}) for number in own)
    if found != list(range(len(found))):
        message = f"the ranks of a pipeline gave the stages {found}"
        raise TensorTracerError("invalid_argument", message, "model", "give every stage once, on the rank that has it")
    return dict(zip(numbers, parts, strict=True))


def _part_of(one: Any) -> Part:
    stage = one if hasattr(one, "submod") and hasattr(one, "stage_index") else None
    model = one if stage is None else stage.submod
    if not isinstance(model, nn.Module):
        message = f"{type(model).__name__} is neither a torch.nn.Module nor a PipelineStage"
        raise TensorTracerError("invalid_argument", message, "model", "give the model, or its stages, not the schedule")
    *wrappers, root = about.wrappers_and_model(model)
    if any(is_compiled(one) for one in (*wrappers, root)):
        raise TensorTracerError(
            "compiled", "the whole model is compiled, and compiled code calls no hooks of modules", "model",
            "compile its layers instead, or do not compile it while you watch",
        )  # fmt: skip
    if any(parameter.is_meta for parameter in root.parameters()):
        message = "the model is on the meta device: it has no numbers yet"
        raise TensorTracerError("invalid_argument", message, "model", "attach after the weights were made")
    return Part(root, stage)
