"""One library's forwards without and with an intervention, timed at interventions.py's word.

Standard input and output are those of tests/bench/intervention_cost.cpp. A library that is not
there ends the worker with the exit code MISSING.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from pytorch_model import Gpt
from shapes import Shape
from torch import Tensor

MISSING = 3
KINDS = ("bare", "steer", "patch", "save")
LAYER = 6  # from 1
TO, FROM = 5, 9  # positions of row 0


def direction(shape: Shape) -> Tensor:
    """The vector that is steered by, as the C++ program has it."""
    return (torch.arange(shape.hidden) % 7 - 3).float() / 64


class Hooks:
    """Raw forward hooks, registered once for many forwards."""

    def __init__(self, model: Gpt, shape: Shape) -> None:
        self.model, self.vector = model, direction(shape)
        self.saved: dict[int, Tensor] = {}

    @contextlib.contextmanager
    def ready(self, kind: str) -> Iterator[None]:
        """Hooks of this kind while it lasts."""
        layer = self.model.layers[LAYER - 1]
        handles = []
        if kind == "steer":
            handles.append(layer.register_forward_hook(self._steer))
        elif kind == "patch":
            handles.append(layer.register_forward_hook(self._patch))
        elif kind == "save":
            for number, part in enumerate(self.model.layers):
                handles.append(part.register_forward_hook(self._saver(number)))
        yield
        for handle in handles:
            handle.remove()

    def _steer(self, module: Any, inputs: Any, output: Tensor) -> Tensor:
        return output + 4.0 * self.vector

    def _patch(self, module: Any, inputs: Any, output: Tensor) -> None:
        output[0, TO] = output[0, FROM]

    def _saver(self, number: int) -> Callable[[Any, Any, Tensor], None]:
        def save(module: Any, inputs: Any, output: Tensor) -> None:
            self.saved[number] = output

        return save

    def forward(self, kind: str, tokens: Tensor) -> Tensor:
        """Whatever the kind, hooks do it."""
        return self.model(tokens)


class NNsight:
    """A trace for each forward; bare is the wrapped module without one."""

    def __init__(self, model: Gpt, shape: Shape) -> None:
        import nnsight

        self.plain, self.model, self.vector = model, nnsight.NNsight(model), direction(shape)

    def ready(self, kind: str) -> contextlib.AbstractContextManager[None]:
        """Nothing is kept between forwards."""
        return contextlib.nullcontext()

    def forward(self, kind: str, tokens: Tensor) -> Tensor:
        """As its documentation does it."""
        return self.plain(tokens) if kind == "bare" else getattr(self, f"_{kind}")(tokens)

    def _steer(self, tokens: Tensor) -> Tensor:
        model, vector = self.model, self.vector
        with model.trace(tokens):
            model.layers[LAYER - 1].output = model.layers[LAYER - 1].output + 4.0 * vector
            logits = model.output.save()
        return logits

    def _patch(self, tokens: Tensor) -> Tensor:
        model = self.model
        with model.trace(tokens):
            hidden = model.layers[LAYER - 1].output
            hidden[0, TO] = hidden[0, FROM]
            logits = model.output.save()
        return logits

    def _save(self, tokens: Tensor) -> Tensor:
        model = self.model
        with model.trace(tokens):
            saved = list().save()
            for layer in model.layers:
                saved.append(layer.output)
            logits = model.output.save()
        return logits


class TransformerLens:
    """TransformerBridge over a GPT-2 of Hugging Face with the weights of the plain model."""

    def __init__(self, model: Gpt, shape: Shape) -> None:
        from transformer_lens.model_bridge.sources import build_bridge_from_module

        wrapped = gpt2(model, shape)
        kind = "GPT2LMHeadModel"
        self.model = build_bridge_from_module(wrapped, kind, hf_config=wrapped.config).eval()
        self.vector = direction(shape)
        self.points = [f"blocks.{number}.hook_resid_post" for number in range(shape.layers)]

    def ready(self, kind: str) -> contextlib.AbstractContextManager[None]:
        """Nothing is kept between forwards."""
        return contextlib.nullcontext()

    def forward(self, kind: str, tokens: Tensor) -> Tensor:
        """As its documentation does it."""
        if kind == "bare":
            return self.model(tokens)
        if kind == "save":
            return self.model.run_with_cache(tokens, names_filter=self.points)[0]
        hook = self._steer if kind == "steer" else self._patch
        return self.model.run_with_hooks(tokens, fwd_hooks=[(self.points[LAYER - 1], hook)])

    def _steer(self, value: Tensor, hook: Any) -> Tensor:
        return value + 4.0 * self.vector

    def _patch(self, value: Tensor, hook: Any) -> Tensor:
        value[0, TO] = value[0, FROM]
        return value


def gpt2(model: Gpt, shape: Shape) -> Any:
    """The same model as Hugging Face has it; its parameters stand in the same order."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=shape.vocab, n_positions=shape.sequence, n_embd=shape.hidden,
        n_layer=shape.layers, n_head=shape.heads, activation_function="gelu_new", use_cache=False,
    )  # fmt: skip
    made = GPT2LMHeadModel(config).eval()
    for (name, to), parameter in zip(made.named_parameters(), model.parameters(), strict=True):
        is_transposed = ".c_" in name and parameter.ndim == 2
        to.copy_(parameter.T if is_transposed else parameter)
    return made


LIBRARIES: dict[str, Any] = {
    "hooks": Hooks,
    "nnsight": NNsight,
    "transformer-lens": TransformerLens,
}


def load(model: Gpt, path: Path) -> None:
    """The C++ program writes the parameters in the order of the modules."""
    numbers = torch.from_file(str(path), size=path.stat().st_size // 4, dtype=torch.float32)
    at = 0
    for parameter in model.parameters():
        parameter.copy_(numbers[at : at + parameter.numel()].view_as(parameter))
        at += parameter.numel()
    if at != numbers.numel():
        sys.exit(f"{path} holds {numbers.numel()} numbers, the model {at}")


def time_cycles(library: Any, tokens: Tensor, cycles: int) -> Iterator[float]:
    """Every cycle begins with another kind; what makes a library ready for it is not timed."""
    for cycle in range(cycles):
        wall, cpu = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0.0)
        for turn in range(len(KINDS)):
            kind = KINDS[(cycle + turn) % len(KINDS)]
            with library.ready(kind):
                begin, cpu_begin = time.perf_counter_ns(), time.process_time_ns()
                library.forward(kind, tokens)
                cpu[kind] = (time.process_time_ns() - cpu_begin) / 1e3
                wall[kind] = (time.perf_counter_ns() - begin) / 1e3
        yield from wall.values()
        yield from cpu.values()


def serve(library: Any, tokens: Tensor, lines: Iterator[str]) -> None:
    """Answers one line after the other."""
    for line in lines:
        what, *rest = line.split()
        if what == "time":
            print(*(f"{x:.1f}" for x in time_cycles(library, tokens, int(rest[0]))), flush=True)
        else:
            with library.ready(rest[0]):
                logits = library.forward(rest[0], tokens)
            Path(rest[1]).write_bytes(logits.contiguous().numpy().tobytes())
            print("done", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("weights", type=Path)
    for name in ("layers", "hidden", "heads", "vocab", "batch", "sequence"):
        parser.add_argument(name, type=int)
    chosen = vars(parser.parse_args())
    name, weights = chosen.pop("library"), chosen.pop("weights")
    shape = Shape(**chosen)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    model = Gpt(shape).eval()
    load(model, weights)
    try:
        library = LIBRARIES[name](model, shape)
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(MISSING)
    count = shape.batch * shape.sequence
    tokens = (torch.arange(count) * 7919 % shape.vocab).view(shape.batch, shape.sequence)
    serve(library, tokens, iter(sys.stdin.readline, ""))


if __name__ == "__main__":
    main()
