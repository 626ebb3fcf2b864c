"""Runs `tensor-tracer vector`, and makes the same vectors with `transformers`."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from data_files import text
from hf_models import random_model
from numpy.typing import NDArray
from program import binary, command, environment
from torch import Tensor
from transformers import PreTrainedModel

LAYERS, VOCABULARY, POSITIONS = 4, 260, 40
KINDS = ["response", "prompt", "last-prompt"]
Numbers = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Text:
    """Bytes as ids, and where the response is."""

    ids: list[int]
    response: list[bool]

    @classmethod
    def of(cls, response: str, prompt: str = "") -> Text:
        before, after = list(prompt.encode()), list(response.encode())
        return cls(before + after, [False] * len(before) + [True] * len(after))

    def tokens(self, kind: str, first: bool) -> list[int]:
        """The positions that count."""
        start = self.response.index(True) if any(self.response) else len(self.ids)
        of_kind = {"response": [at for at, is_response in enumerate(self.response) if is_response],
                   "prompt": list(range(start)), "last-prompt": list(range(start))[-1:]}  # fmt: skip
        return [at for at in of_kind[kind] if at > 0 or first]


def deep_model(name: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """As random_model(), with four layers."""
    shallow = random_model(name, torch.float32)
    layers = {"n_layer" if name == "gpt2" else "num_hidden_layers": LAYERS, "layer_types": None}
    made = type(shallow)(type(shallow.config)(**(shallow.config.to_dict() | layers))).eval()
    torch.manual_seed(6)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return made.to(dtype)


def states_of(model: PreTrainedModel, one: Text) -> Tensor:
    """float64 [layers + 1, tokens, hidden]."""
    with torch.no_grad():
        found = model(torch.tensor([one.ids]), output_hidden_states=True).hidden_states
    return torch.stack([state[0].double() for state in found])


def means_of(model: PreTrainedModel, texts: Sequence[Text], kind: str, first: bool) -> list[Tensor | None]:
    """The mean state of each text; None: no token counts."""
    return [states_of(model, one)[:, at].mean(dim=1) if (at := one.tokens(kind, first)) else None for one in texts]


def expected_vector(
    model: PreTrainedModel, positive: Sequence[Text], negative: Sequence[Text], kind: str, first: bool
) -> Tensor:
    sides = [[mean for mean in means_of(model, texts, kind, first) if mean is not None] for texts in (positive, negative)]
    return torch.stack(sides[0]).mean(dim=0) - torch.stack(sides[1]).mean(dim=0)


def contrast(count: int, seed: int = 0, more: int = 0) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Prompts with responses of two sides, which differ in their words; at most 40 bytes together. `more`: texts of
    the second side."""
    sides: list[list[dict[str, str]]] = [[], []]
    for i in range(count + more):
        first = seed + 4 * i
        if i < count:
            sides[0].append({"prompt": text(first, 1, 10), "response": text(first + 1, 1, 12).replace("e", "h")})
        sides[1].append({"prompt": text(first + 2, 1, 10).upper(), "response": text(first + 3, 1, 12).upper()})
    return sides[0], sides[1]


def texts_of(lines: Sequence[dict[str, str]]) -> list[Text]:
    return [Text.of(line.get("text") or line["response"], line.get("prompt", "")) for line in lines]


def vector(*words: object, ranks: int = 1, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    train = command({}, ranks)
    line = [*train[: train.index(str(binary()))], str(binary()), "vector", *map(str, words)]
    return subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=timeout, check=False)


def answer(*words: object, ranks: int = 1, timeout: float = 120) -> Any:
    """The JSON that the command prints."""
    done = vector(*words, "--json", ranks=ranks, timeout=timeout)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout)


def refusal(*words: object, ranks: int = 1) -> str:
    done = vector(*words, ranks=ranks)
    assert done.returncode == 2 and done.stdout == "", done
    [line] = [line for line in done.stderr.splitlines() if line.startswith("tensor-tracer:")]
    return line


def words_of(flags: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in flags.items():
        words += ["--" + name.replace("_", "-")] if value is True else ["--" + name.replace("_", "-"), str(value)]
    return words


def assert_rows_close(found: Tensor, expected: Tensor, share: float = 1e-5) -> None:
    """By the norm of each row."""
    assert found.shape == expected.shape and found.dtype == torch.float32
    error = (found.double() - expected).norm(dim=-1) / expected.norm(dim=-1)
    assert error.max() <= share, error


def area(positive: Numbers, negative: Numbers) -> float:
    """Of all combinations; equal numbers count one half."""
    above = positive[:, None] > negative[None]
    return float((above + 0.5 * (positive[:, None] == negative[None])).mean())


def effect(positive: Numbers, negative: Numbers) -> float:
    squares = ((positive - positive.mean()) ** 2).sum() + ((negative - negative.mean()) ** 2).sum()
    return float((positive.mean() - negative.mean()) / np.sqrt(squares / (len(positive) + len(negative) - 2)))
