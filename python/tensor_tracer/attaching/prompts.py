"""Prompts: texts that a viewer types, or that attach() was given. They run through the model between two steps."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from tensor_tracer.attaching.chunks import Chunk
from tensor_tracer.errors import TensorTracerError

kInterval = 50  # steps, as --monitor-interval of our own trainer
kMaxTextBytes = 2 << 20  # of the texts of all ids in the run's facts, of which a hub takes 4 MiB


@dataclass(frozen=True)
class PromptOptions:
    """What attach() was given. `texts`, or a `file`, are the prompts from the first step on. `tokenizer`: "ids": none;
    "byte": the ids are bytes; else an object with `encode`, or one that is called."""

    texts: tuple[str, ...] = ()
    file: str = ""
    interval: int = kInterval
    tokenizer: Any = "ids"

    @classmethod
    def of(cls, prompts: str | Path | Sequence[str] | None, interval: int, tokenizer: Any) -> PromptOptions:
        """Raises TensorTracerError."""
        if isinstance(tokenizer, str) and tokenizer not in ("ids", "byte"):
            message = f"{tokenizer!r} is neither 'ids' nor 'byte'"
            raise TensorTracerError("invalid_argument", message, "tokenizer", "give one of them, or the tokenizer itself")
        is_one = isinstance(tokenizer, str) or hasattr(tokenizer, "encode") or callable(tokenizer)
        if not is_one:
            message = f"{tokenizer!r} neither has encode() nor can be called"
            raise TensorTracerError("invalid_argument", message, "tokenizer", "give the tokenizer itself, 'ids' or 'byte'")
        if isinstance(interval, bool) or not isinstance(interval, int) or interval < 1:
            message = f"{interval!r} is not a number of steps"
            raise TensorTracerError("invalid_argument", message, "prompt_interval", "give a positive integer")
        if prompts is None:
            return cls((), "", interval, tokenizer)
        if isinstance(prompts, (str, Path)):
            return cls((), str(prompts), interval, tokenizer)
        if not all(isinstance(text, str) for text in prompts):
            remedy = "give a list of texts, or the path of a file"
            raise TensorTracerError("invalid_argument", "not every prompt is a text", "prompts", remedy)
        return cls(tuple(prompts), "", interval, tokenizer)

    @property
    def kind(self) -> str:
        """Of the tokens, for the facts of the run."""
        return "byte" if self.tokenizer == "byte" else "ids"


class PromptModel:
    """The model as prompts run through it. `vocabulary`: the number of ids that the model knows; 0: not known.
    `filled_to`: the tokens of every pass, if ranks share tensors by their tokens; 0: those of its prompts. Then the
    model gets positions if the trainer gives them. Thread: the thread that runs the step."""

    def __init__(self, chunk: Chunk, options: PromptOptions, vocabulary: int, filled_to: int) -> None:
        self._chunk, self._options, self._vocabulary = chunk, options, vocabulary
        self.filled_to = filled_to
        self.number = next(_numbers)
        _models[self.number] = self

    @property
    def root(self) -> nn.Module:
        return self._chunk.root

    @property
    def reads_bytes(self) -> bool:
        return self._options.kind == "byte"

    def settings(self, has_stages: bool, has_contexts: bool) -> dict[str, Any]:
        """For the library (src/attach/prompts.h)."""
        one = self._options
        problem = problem_of(one) or self.problem_of_forwards(has_stages, has_contexts)
        return {
            "model": self.number, "interval": one.interval, "texts": list(one.texts), "file": one.file,
            "problem": None if problem is None else _told(problem), "fills_up": self.filled_to > 0,
        }  # fmt: skip

    def problem_of_forwards(self, has_stages: bool, has_contexts: bool) -> TensorTracerError | None:
        """Why the model cannot run between two steps."""
        if has_stages:
            message = "prompts do not run through pipeline stages"
            return TensorTracerError("not_allowed", message, "prompts", "run without pipeline parallelism")
        if has_contexts:
            message = "prompts are not divided among context-parallel ranks"
            return TensorTracerError("not_allowed", message, "prompts", "run without context parallelism")
        if name := self._shared_positions():
            message = f"the trainer gives `{name}` of the model the positions of one rank's tokens"
            return TensorTracerError("not_allowed", message, "prompts", "give the positions of all tokens, or none")
        return None

    def _shared_positions(self) -> str:
        """The parameter that gets the positions of this rank's tokens alone; empty: no parameter does."""
        given = self._chunk.positions.items() if self.filled_to else ()
        return next((name for name, shape in given if shape[-1:] != (self.filled_to,)), "")

    def withdraw(self) -> None:
        _models.pop(self.number, None)

    def tokenize(self, text: str, adds_special: bool = True) -> list[int]:
        """`adds_special`: with the tokens that the tokenizer adds by itself. Raises TensorTracerError, or what the
        tokenizer raises."""
        if problem := problem_of(self._options):
            raise problem
        ids = _encoded(text, self._options.tokenizer, adds_special)
        if (unknown := self.unknown_id(ids)) is not None:
            message = f"the tokenizer gives the id {unknown}, and the model knows {self._vocabulary} ids"
            raise TensorTracerError("invalid_argument", message, "tokenizer", "attach with the model's own tokenizer")
        return ids

    def unknown_id(self, ids: Sequence[int]) -> int | None:
        """The first id that the model does not know."""
        return next((one for one in ids if one < 0 or (self._vocabulary and one >= self._vocabulary)), None)

    def run(self, forward: Any, tokens: Tensor) -> None:
        """Runs the model with the hooks of torch.classes.tensor_tracer.Forward. Weights, modes, random numbers and what
        FSDP holds are afterwards as before."""
        root = self.root
        modes = [(module, module.training) for module in root.modules()]
        devices = [tokens.device] if tokens.is_cuda else []
        try:
            for module, _ in modes:
                module.training = False
            with torch.no_grad(), torch.random.fork_rng(devices), self._chunk.autocast():
                args, kwargs = _arguments(root, tokens)
                if self.filled_to:
                    kwargs |= {name: _positions(tokens, len(shape)) for name, shape in self._chunk.positions.items()}
                self._chunk.run_apart(forward, args, kwargs)
        finally:
            for module, mode in modes:
                module.training = mode
            _reshard(root)


def problem_of(options: PromptOptions) -> TensorTracerError | None:
    """Why no text becomes tokens."""
    if options.tokenizer == "ids":
        message = "attach() got no tokenizer, which turns a text into the ids of the model"
        return TensorTracerError("not_allowed", message, "tokenizer", "call attach(model, tokenizer=...)")
    return None


def texts_of(tokenizer: Any, vocabulary: int) -> list[str] | None:
    """The text of each id, "": the id has no text; None: not known, or more than the run's facts can hold."""
    if not hasattr(tokenizer, "decode"):
        return None
    texts = []
    for number in range(vocabulary):
        try:
            texts.append(str(tokenizer.decode([number])))
        except Exception:  # a model often has more ids than its tokenizer
            texts.append("")
    return texts if len(json.dumps(texts, ensure_ascii=False).encode(errors="replace")) <= kMaxTextBytes else None


def _encoded(text: str, tokenizer: Any, adds_special: bool) -> list[int]:
    if tokenizer == "byte":
        return list(text.encode())
    encode = tokenizer.encode if hasattr(tokenizer, "encode") else tokenizer
    leaves_out = not adds_special and _takes(encode, "add_special_tokens")
    found = encode(text, add_special_tokens=False) if leaves_out else encode(text)
    found = found["input_ids"] if isinstance(found, Mapping) else getattr(found, "ids", found)
    return [int(one) for one in found]


def _takes(function: Any, parameter: str) -> bool:
    try:
        return parameter in inspect.signature(function).parameters
    except ValueError:  # a builtin that does not say it
        return False


def _arguments(root: nn.Module, tokens: Tensor) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
    """`input_ids` by name, with the positions and the mask that Megatron-Core's models ask for; else the ids alone."""
    parameters = inspect.signature(root.forward).parameters
    if "input_ids" not in parameters:
        return (tokens,), {}
    needed = {name for name, one in parameters.items() if one.default is inspect.Parameter.empty}
    kwargs: dict[str, Any] = {"input_ids": tokens}
    if "position_ids" in needed:
        kwargs["position_ids"] = _positions(tokens)
    if "attention_mask" in needed:
        kwargs["attention_mask"] = None
    return (), kwargs


def _positions(tokens: Tensor, dims: int = 2) -> Tensor:
    """[rows, tokens], or with one dim [tokens]."""
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    return positions.expand_as(tokens) if dims > 1 else positions


def _reshard(root: nn.Module) -> None:
    """FSDP2 keeps the weights of the root after a forward, for a backward that does not come."""
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


_models: dict[int, PromptModel] = {}
_numbers = itertools.count(1)


def _told(error: Exception) -> dict[str, str]:
    """The error for the library. Only a tokenizer raises others than TensorTracerError."""
    if isinstance(error, TensorTracerError):
        return {"code": error.code, "message": error.message, "where": error.where, "remedy": error.remedy}
    return {
        "code": "failed", "message": f"the tokenizer failed: {error!r}", "where": "tokenizer",
        "remedy": "give attach() the model's own tokenizer",
    }  # fmt: skip


def register_prompts() -> None:
    """Defines the operators by which the library asks for tokens and runs the model. No error leaves them."""

    def tokenize(text: str, model: int) -> str:
        try:
            return json.dumps({"tokens": _models[model].tokenize(text)})
        except Exception as error:
            return json.dumps(_told(error))

    def run_model(forward: Any, tokens: Tensor, model: int) -> str:
        try:
            _models[model].run(forward, tokens)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    for name, function in (("tokenize", tokenize), ("run_model", run_model)):
        _library.impl(name, function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


_library = torch.library.Library("tensor_tracer", "FRAGMENT")  # type: ignore[no-untyped-call]
