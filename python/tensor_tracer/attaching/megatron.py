"""What Megatron-Core says about its models: how ranks share the tensors of its modules, and the order of their dims.

Megatron-Core is not imported. Its classes are known by their names, also as bases of the user's classes, and its
groups by the module that the trainer has imported. Written for megatron-core 0.16.1; the layers of Transformer
Engine are known by their attributes.

Tensors are [sequence, batch, features], except for what embeddings and the whole model return. The logical tensor
is that of one process: the columns of `linear_qkv` are queries, keys and values of one query group after another,
so that the columns of the ranks follow one another; those of a gated `linear_fc1` are first all gates, then all
values, and each rank holds a part of both.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from tensor_tracer.attaching.layouts import Layout

_kLayers = {"TransformerLayer", "MambaLayer"}
_kBlocks = _kLayers | {"TransformerBlock", "Attention", "MLP", "MoELayer", "LanguageModelEmbedding"}
_kModels = {"GPTModel", "MambaModel"}
_kNorms = {"LayerNorm", "RMSNorm", "FusedLayerNorm"}
_kExperts = {"experts", "local_experts"}

_kSorted = Layout(problem="its tokens are sorted by expert")
_kPartial = Layout(problem="the ranks hold partial sums, which this module does not reduce")


def tensor_group(model: nn.Module) -> Any:
    """The tensor-parallel group of the model's modules (`tp_group`); if they know none, that of this process; None:
    Megatron-Core is not imported or not initialised."""
    own = (getattr(one, "tp_group", None) for one in model.modules() if _is_shared_by_all(one))
    if (group := next((one for one in own if one is not None), None)) is not None:
        return group
    state = _state()
    return None if state is None else state.get_tensor_model_parallel_group()


def pipeline_group() -> Any:
    """The pipeline-parallel group of this process, in the order of the stages; None as for tensor_group()."""
    state = _state()
    return None if state is None else state.get_pipeline_model_parallel_group()


def context_group() -> Any:
    """The context-parallel group of this process; None as for tensor_group()."""
    state = _state()
    return None if state is None else state.get_context_parallel_group(check_initialized=False)


def _is_shared_by_all(module: Any) -> bool:
    """True for a layer of Megatron or Transformer Engine that is no expert: experts have another group."""
    is_layer = _config_of(module) is not None or hasattr(module, "parallel_mode")
    return is_layer and not getattr(module, "is_expert", False)


def _state() -> Any:
    state: Any = sys.modules.get("megatron.core.parallel_state")
    return state if state is not None and state.model_parallel_is_initialized() else None


def layer_number(module: nn.Module) -> int | None:
    """The number of a layer in the whole model, from 1; None: the module is no layer of Megatron."""
    number = getattr(module, "layer_number", None)
    return number if isinstance(number, int) and number > 0 and _is_layer(module) else None


def is_sequence_first(layers: Sequence[nn.Module]) -> bool:
    """True if the tensors of a model with these layers are [sequence, batch, features]."""
    return bool(layers) and all(_is_layer(layer) for layer in layers)


def is_batch_first(module: nn.Module) -> bool:
    """True if the module's output is [batch, sequence, features] although the model is_sequence_first()."""
    kinds = _kinds_of(module)
    if "VocabParallelEmbedding" in kinds:
        return not getattr(module, "reduce_scatter_embeddings", False)
    return isinstance(module, nn.Embedding) or (bool(kinds & _kModels) and getattr(module, "post_process", True))


def is_output_layer(path: str, module: nn.Module) -> bool:
    """True if the module's output is the logits: with labels, the model itself returns the loss."""
    return path.rpartition(".")[2] == "output_layer" and "ColumnParallelLinear" in _kinds_of(module)


def text_size(model: nn.Module) -> int:
    """The number of tokens that the model knows, with those that fill it up; 0: it is no model of Megatron."""
    sizes = [getattr(one, "num_embeddings", 0) for one in model.modules() if "VocabParallelEmbedding" in _kinds_of(one)]
    return max(sizes, default=0)


def is_sharded(parameter: Tensor) -> bool:
    """True if each tensor-parallel rank has a part of the weight."""
    return bool(getattr(parameter, "tensor_model_parallel", False))


def whole_size(parameter: Tensor, ranks: int) -> int:
    """The number of elements of a weight on all tensor-parallel ranks."""
    return parameter.numel() * (ranks if is_sharded(parameter) else 1)


def fuses_gradients(module: nn.Module) -> bool:
    """True if a linear layer adds the gradient of its weight to `main_grad` by itself: it needs the parameter."""
    return bool(getattr(module, "gradient_accumulation_fusion", False) or getattr(module, "fuse_wgrad_accumulation", False))


def rule_for(path: str, module: nn.Module, is_output: bool) -> Layout | None:
    """How the ranks share the output or input of a module; None: the class does not say it."""
    found = _find(path, module, is_output)
    if found is None or found.problem:
        return found
    return Layout(found.dim, found.sizes, source=f"the class {type(module).__name__} of {path or 'the model'}")


def _find(path: str, module: Any, is_output: bool) -> Layout | None:
    kinds, has_config = _kinds_of(module), _config_of(module) is not None
    if "ColumnParallelLinear" in kinds and has_config:
        return _of_column(path, module, is_output)
    if "RowParallelLinear" in kinds and has_config:
        return _of_row(module, is_output)
    if hasattr(module, "parallel_mode") and hasattr(module, "tp_size"):
        return _of_transformer_engine(path, module, is_output)
    if "VocabParallelEmbedding" in kinds:
        return _whole_or_part(getattr(module, "reduce_scatter_embeddings", False))
    if "FusedScaleMaskSoftmax" in kinds:
        return Layout(1)
    if kinds & _kNorms:
        return Layout(0) if _norms_a_part(module) else None
    if path.endswith("activation_func") and type(module).__module__.startswith("transformer_engine"):
        return Layout(-1) if is_output else None
    return _of_block(path, module, is_output) if has_config else None


def _of_column(path: str, module: Any, is_output: bool) -> Layout | None:
    if module.is_expert:
        return _kSorted
    if not is_output:
        return _whole_or_part(module.sequence_parallel and not module.explicit_expert_comm)
    if module.gather_output or module.output_size_per_partition == module.output_size:
        return Layout()
    return _columns(path, module, module.output_size)


def _of_row(module: Any, is_output: bool) -> Layout:
    if module.is_expert:
        return _kSorted
    if not is_output:
        return Layout(-1, (module.input_size,)) if module.input_is_parallel else Layout()
    return _kPartial if module.explicit_expert_comm else _whole_or_part(module.sequence_parallel)


def _of_transformer_engine(path: str, module: Any, is_output: bool) -> Layout | None:
    """A linear layer. Its in_features and out_features are those of this rank."""
    if _kExperts & set(path.split(".")):
        return _kSorted
    if module.parallel_mode == "column":
        if not is_output:
            return _whole_or_part(module.sequence_parallel)
        return _columns(path, module, module.out_features * module.tp_size)
    if module.parallel_mode == "row":
        if not is_output:
            return Layout(-1, (module.in_features * module.tp_size,))
        return _whole_or_part(module.sequence_parallel)
    config = _config_of(module)
    if config is None or "shared_experts" in path.split("."):  # their sums may be left to the other experts
        return None
    return _whole_or_part(config.sequence_parallel)


def _of_block(path: str, module: Any, is_output: bool) -> Layout | None:
    """A module of Megatron that is no linear layer."""
    kinds, config = _kinds_of(module), module.config
    if _kExperts & set(path.split(".")):
        return _kSorted
    if path.endswith("core_attention"):
        return Layout(-1) if is_output else None
    if kinds & _kModels and is_output and module.post_process:
        return Layout(-1) if module.parallel_output else Layout()
    if "LanguageModelEmbedding" in kinds and config.sequence_parallel:
        return _whole_or_part(module.reduce_scatter_embeddings or module.scatter_to_sequence_parallel)
    return _whole_or_part(config.sequence_parallel) if kinds & (_kBlocks | _kModels) else None


def _columns(path: str, module: Any, size: int) -> Layout | None:
    """The output of a layer whose ranks hold columns. None: the parts of a state-space layer are in another order."""
    name = path.rpartition(".")[2]
    if name == "in_proj":
        return None
    is_gated = name == "linear_fc1" and getattr(_config_of(module), "gated_linear_unit", False)
    return Layout(-1, (size // 2, size // 2) if is_gated else (size,))


def _whole_or_part(is_part: bool) -> Layout:
    """The whole, or with sequence parallelism a part of the sequence."""
    return Layout(0) if is_part else Layout()


def _norms_a_part(module: Any) -> bool:
    weight = getattr(module, "weight", None)
    return bool(getattr(module, "sequence_parallel", False) or getattr(weight, "sequence_parallel", False))


def _config_of(module: Any) -> Any:
    """The configuration, if it is one of Megatron."""
    config = getattr(module, "config", None)
    return config if hasattr(config, "tensor_model_parallel_size") else None


def _is_layer(module: nn.Module) -> bool:
    return bool(_kinds_of(module) & _kLayers) and _config_of(module) is not None


def _kinds_of(module: nn.Module) -> set[str]:
    return {kind.__name__ for kind in type(module).__mro__}
