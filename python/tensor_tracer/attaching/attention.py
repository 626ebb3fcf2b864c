"""Attention probabilities, which fused attention does not keep: recomputed from the queries and keys of the call."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tensor_tracer.attaching.names import SCORES, Standard
from tensor_tracer.attaching.wrappers import local_of


@dataclass(frozen=True)
class Part:
    """A place that a call has. `compute`: from the scores before the softmax and the probabilities, both [batch, heads,
    queries, keys]; it gives one number for each head and query, [batch, heads, queries], or with `has_keys` all dims.
    `formula`: the same for readers. `standard`: its name in our own models; None: attention.<name of the part>."""

    text: str
    formula: str
    compute: Callable[[Tensor, Tensor], Tensor]
    has_keys: bool = False
    standard: Standard | None = None


# The places of one call, by the name after the module's path. A new one needs an entry here and nothing else.
PARTS = {
    "scores": Part(
        "attention probabilities by head, recomputed from queries and keys, before dropout",
        "softmax(scale * queries @ keys.T + mask)",
        lambda _logits, probabilities: probabilities, has_keys=True, standard=SCORES,
    ),
    "entropy": Part(
        "entropy in nats of each query's attention, by head",
        "-(p * log(p)).sum(-1) of p = layers[n].attention.scores",
        lambda _logits, probabilities: torch.special.entr(probabilities).sum(-1),
    ),
    "largest_score": Part(
        "largest score of each query before the softmax, by head",
        "(scale * queries @ keys.T + mask).amax(-1)",
        lambda logits, _probabilities: logits.amax(-1),
    ),
    "first_token_share": Part(
        "attention of each query to the first token, by head",
        "layers[n].attention.scores[..., 0]",
        lambda _logits, probabilities: probabilities[..., 0],
    ),
}  # fmt: skip


def standard_of(layer: int, part: str) -> Standard | None:
    if part not in PARTS or not layer:
        return None
    return PARTS[part].standard or Standard(f"attention.{part}", f"attention.{part}")



_kPaths = {"attn", "attention", "self_attn", "self_attention"}  # as the models of docs/attach.md name the module


def is_attention(path: str, module: nn.Module) -> bool:
    return path.rpartition(".")[2] in _kPaths or _has_name_of_attention(module)


def why_unseen(module: nn.Module, is_compiled: bool) -> str:
    """Why an attention module has no probabilities, if none were seen. `is_compiled`: compiled code runs it."""
    what = "compiled code" if is_compiled else _kernel_of(module)
    return f"{what} keeps no probabilities, and no usable call of scaled_dot_product_attention was seen, from which they are recomputed"


def _kernel_of(module: nn.Module) -> str:
    inner = [one for one in module.modules() if _has_name_of_attention(one)]
    kind = type(inner[-1] if inner else module)
    if any(base.__module__.startswith("transformer_engine") for base in kind.__mro__):
        return f"Transformer Engine's {kind.__name__}"
    used = getattr(getattr(module, "config", None), "_attn_implementation", None)  # of Transformers
    return f"the attention implementation {used!r}" if isinstance(used, str) else f"the class {kind.__name__}"


def _has_name_of_attention(module: nn.Module) -> bool:
    return any(part in type(module).__name__.lower() for part in ("attention", "attn"))


@dataclass(frozen=True)
class AttentionCall:
    """A call of scaled_dot_product_attention on this rank: queries [batch, heads, sequence, head size], keys
    [batch, query groups, sequence, head size]. `mask`: added to the scores, or True where a key is seen."""

    query: Tensor
    key: Tensor
    mask: Tensor | None
    is_causal: bool
    scale: float

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AttentionCall:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = dict(zip(names, args, strict=False)) | kwargs
        query, key = (local_of(given[name]).detach() for name in ("query", "key"))
        mask = given.get("attn_mask")
        scale = given.get("scale")
        return cls(
            query, key, None if mask is None else local_of(mask).detach(), bool(given.get("is_causal", False)),
            1 / math.sqrt(query.shape[-1]) if scale is None else float(scale),
        )  # fmt: skip

    @property
    def dtype(self) -> torch.dtype:
        """Of the recomputed values."""
        return torch.float64 if self.query.dtype == torch.float64 else torch.float32

    def shape_of(self, part: str) -> tuple[int, ...]:
        batch, heads, queries, _ = self.query.shape
        return (batch, heads, queries, self.key.shape[2]) if PARTS[part].has_keys else (batch, queries, heads)

    def parts(self, wanted: dict[str, int]) -> dict[str, Tensor]:
        """The values of the wanted places for their first rows of the batch."""
        rows = max(wanted.values())
        logits = self._logits(rows)
        is_blind = logits.isneginf().all(-1, keepdim=True)  # fused attention gives such a query zeros
        probabilities = logits.softmax(-1).masked_fill(is_blind, 0.0)
        made = {part: PARTS[part].compute(logits, probabilities)[:count] for part, count in wanted.items()}
        return {part: one if PARTS[part].has_keys else one.transpose(1, 2) for part, one in made.items()}

    def _logits(self, rows: int) -> Tensor:
        query, key = self.query[:rows].to(self.dtype), self.key[:rows].to(self.dtype)
        if key.shape[1] != query.shape[1]:
            key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        logits = (query * self.scale) @ key.transpose(-2, -1)
        mask = self.mask
        if self.is_causal:
            mask = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).tril()
        if mask is None:
            return logits
        if mask.dim() == 4 and mask.shape[0] > 1:
            mask = mask[:rows]
        return logits.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else logits + mask


class AttentionWatch(TorchFunctionMode):
    """Shows the calls of scaled_dot_product_attention of this thread while it is entered."""

    def __init__(self, see: Callable[[tuple[Any, ...], dict[str, Any]], None]) -> None:
        super().__init__()
        self._see = see

    def start(self) -> None:
        self.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # While torch.compile traces a call, there are no values to see, and it cannot trace what sees them.
        if func is torch.nn.functional.scaled_dot_product_attention and not torch.compiler.is_compiling():
            self._see(args, kwargs or {})
        return func(*args, **(kwargs or {}))
