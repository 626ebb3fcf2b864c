"""Names of places that our own trainer's models have too, so that one plan, one program and one page fit all.

A module of a known class passes on a value that our models name: `mlp.down_proj.input` of a Llama layer is
MLPActivation, and programs may write `layers[3].mlp.activation`. The module's path stays another name of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tensor_tracer.errors import TensorTracerError


@dataclass(frozen=True)
class Standard:
    """A place of our own models: its name, its path, its flag in Tensor Tracer's numbering (0: none)."""

    name: str
    path: str
    flag: int = 0
    has_heads: bool = False


_HIDDEN = Standard("HiddenStates", "output", 7)
_EMBEDDING = Standard("Embedding", "embedding.output")
_LOGITS = Standard("Logits", "logits")
_QKV = Standard("QKV", "attention.qkv", 1)
SCORES = Standard("RawAttentionScore", "attention.scores", 2)
_VALUE = Standard("Value", "attention.value", has_heads=True)
_CONTEXT = Standard("ContextLayer", "attention.context", 3, has_heads=True)
_ATTENTION_INPUT = Standard("attention.input", "attention.input")
_ATTENTION = Standard("AttentionOutput", "attention.output", 6)
_MID = Standard("ResidualMid", "mid")
_MLP_INPUT = Standard("mlp.input", "mlp.input")
_FC1 = Standard("MLP1", "mlp.fc1", 4)
_ACTIVATION = Standard("MLPActivation", "mlp.activation")
_MLP = Standard("MLP2", "mlp.output", 5)
FINAL_NORM = Standard("FinalNorm", "final_norm.output")

# In a layer by the path after the layer, outside by the whole path.
_TABLES: dict[str, dict[str, Standard]] = {
    "hf": {
        "input_layernorm.output": _ATTENTION_INPUT, "ln_1.output": _ATTENTION_INPUT,
        "attn.c_attn.output": _QKV, "self_attn.v_proj.output": _VALUE,
        "self_attn.o_proj.input": _CONTEXT, "attn.c_proj.input": _CONTEXT,
        "self_attn.output": _ATTENTION, "attn.output": _ATTENTION,
        "post_attention_layernorm.input": _MID, "ln_2.input": _MID,
        "post_attention_layernorm.output": _MLP_INPUT, "ln_2.output": _MLP_INPUT,
        "mlp.c_fc.output": _FC1, "mlp.down_proj.input": _ACTIVATION, "mlp.c_proj.input": _ACTIVATION,
        "mlp.output": _MLP, "model.norm.output": FINAL_NORM, "transformer.ln_f.output": FINAL_NORM,
    },
    "megatron": {
        "input_layernorm.output": _ATTENTION_INPUT, "self_attention.linear_qkv.output": _QKV,
        "self_attention.core_attention.scale_mask_softmax.output": SCORES,
        "self_attention.linear_proj.input": _CONTEXT, "self_attention.output": _ATTENTION,
        "pre_mlp_layernorm.input": _MID, "pre_mlp_layernorm.output": _MLP_INPUT,
        "mlp.linear_fc1.output": _FC1, "mlp.linear_fc2.input": _ACTIVATION, "mlp.output": _MLP,
        "decoder.final_layernorm.output": FINAL_NORM,
    },
    "torchtitan": {
        "attention_norm.output": _ATTENTION_INPUT, "attention.qkv_linear.wqkv.output": _QKV,
        "attention.qkv_linear.wv.output": _VALUE, "attention.wo.input": _CONTEXT, "attention.output": _ATTENTION,
        "ffn_norm.input": _MID, "ffn_norm.output": _MLP_INPUT,
        "feed_forward.w2.input": _ACTIVATION, "feed_forward.output": _MLP, "norm.output": FINAL_NORM,
    },
}  # fmt: skip


# Modules of a layer, with the names that our own models have for them. Their weights and biases are places.
_MODULES: dict[str, dict[str, str]] = {
    "hf": {
        "input_layernorm": "input_norm", "ln_1": "input_norm", "attn.c_attn": "attention.qkv",
        "self_attn.o_proj": "attention.proj", "attn.c_proj": "attention.proj",
        "post_attention_layernorm": "mlp_norm", "ln_2": "mlp_norm",
        "mlp.c_fc": "mlp.fc1", "mlp.down_proj": "mlp.fc2", "mlp.c_proj": "mlp.fc2",
    },
    "megatron": {
        "input_layernorm": "input_norm", "self_attention.linear_qkv": "attention.qkv",
        "self_attention.linear_proj": "attention.proj", "pre_mlp_layernorm": "mlp_norm",
        "mlp.linear_fc1": "mlp.fc1", "mlp.linear_fc2": "mlp.fc2",
    },
    "torchtitan": {
        "attention_norm": "input_norm", "attention.qkv_linear.wqkv": "attention.qkv", "attention.wo": "attention.proj",
        "ffn_norm": "mlp_norm", "feed_forward.w2": "mlp.fc2",
    },
}  # fmt: skip
# Linear layers that are one matrix in our own models, from top to bottom.
_JOINED: dict[str, dict[str, tuple[str, ...]]] = {
    "hf": {
        "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "mlp.fc1": ("mlp.gate_proj", "mlp.up_proj"),
    }
}
WEIGHTS = ("weight", "bias")  # the parameters of a module that are places


class Names:
    """Names of the places of a model. `given`: the name of a framework, or the user's own names by path."""

    def __init__(self, given: str | Mapping[str, str] | None) -> None:
        self._own: dict[str, str] = {}
        if isinstance(given, str):
            if given not in _TABLES:
                known = ", ".join(_TABLES)
                raise TensorTracerError("invalid_argument", f"{given!r} is not known", "names", f"give {known} or a mapping")
            frameworks = [given]
        else:
            frameworks = list(_TABLES)
            self._own = dict(given or {})
        self._standard = {path: standard for one in frameworks for path, standard in _TABLES[one].items()}
        for one in frameworks:
            for module, own in _MODULES[one].items():
                for kind in WEIGHTS:
                    self._standard[f"{module}.{kind}"] = Standard(f"{own}.{kind}", f"{own}.{kind}")
        self.joined = {  # paths of weights that are one matrix in our own models, by the path of the matrix
            f"{own}.{kind}": tuple(f"{module}.{kind}" for module in modules)
            for one in frameworks for own, modules in _JOINED.get(one, {}).items() for kind in WEIGHTS
        }  # fmt: skip

    def own(self, path: str) -> str | None:
        """The user's name for a place with this full path."""
        return self._own.get(path)

    def unknown(self, paths: Collection[str]) -> list[str]:
        """The paths of the user's names that no tensor has. `paths`: those of all tensors."""
        return [path for path in self._own if path not in paths]

    def standard(self, paths: Iterable[str], is_in_layer: bool) -> Standard | None:
        """`paths`: all names of one tensor."""
        found = (self._standard[path] for path in paths if path in self._standard)
        return next((one for one in found if (one is not FINAL_NORM) == is_in_layer), None)


def of_model(layer: int, path: str, is_first_input: bool, is_logits: bool) -> Standard | None:
    """The places that every model has, whatever its modules are called."""
    if layer and path == "output":
        return _HIDDEN
    if is_first_input:
        return _EMBEDDING
    return _LOGITS if is_logits else None
