"""Runs `tensor-tracer generate`, and compares its responses with a model of `transformers`."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from program import binary, command, environment, to_arguments
from torch import Tensor

Ids = list[int]
CLOSE = 1e-3  # the two best logits: then either token is right


@dataclasses.dataclass(frozen=True)
class Generated:
    """What the program wrote: an object for each prompt; and its lines on the terminal."""

    responses: list[dict[str, Any]]
    told: str

    def ids(self) -> list[Ids]:
        return [response["token_ids"] for response in self.responses]

    def positions(self) -> dict[str, int]:
        """The positions that each program changed, as it counts them."""
        return {name: int(count) for name, count in re.findall(r'program "([^"]+)" changed (\d+) positions', self.told)}


def line_of(flags: dict[str, Any], ranks: int = 1) -> list[str]:
    train = command({}, ranks)
    return [*train[: train.index(str(binary()))], str(binary()), "generate", *to_arguments(flags)]


def generate(
    model: Path, prompts: Sequence[str | Ids], folder: Path, ranks: int = 1, timeout: float = 120, **flags: Any
) -> Generated:
    folder.mkdir(parents=True, exist_ok=True)
    keys = ({"prompt": one} if isinstance(one, str) else {"prompt_token_ids": one} for one in prompts)
    (folder / "prompts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in keys))
    output = folder / "responses.jsonl"
    given = {"hf_model": model, "prompts": folder / "prompts.jsonl", "output": output, "threads": 1,
             "tensor_model_parallel_size": ranks} | flags  # fmt: skip
    done = subprocess.run(line_of(given, ranks), env=environment(), capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return Generated([json.loads(line) for line in output.read_text().splitlines()], done.stderr)


def refused(flags: dict[str, Any], ranks: int = 1) -> str:
    done = subprocess.run(line_of(flags, ranks), env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == "", (done.returncode, done.stdout, done.stderr)
    return done.stderr


def all_logits(response: dict[str, Any]) -> Tensor:
    """[tokens, vocabulary], of a response with all logits: `top_logits` was the size of the vocabulary."""
    ids = torch.tensor(response["top_ids"])
    return torch.zeros(ids.shape).scatter_(1, ids, torch.tensor(response["top_logits"]))


def logits_of(model: Any, prompt: Ids, response: Ids) -> Tensor:
    """The logits of every token of the response, by one forward without a cache."""
    with torch.no_grad():
        return model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]


def edited_logits(
    model: Any, prompt: Ids, response: Ids, edit: Callable[[Tensor], Tensor], positions: str
) -> tuple[Tensor, int]:
    """As logits_of(), with a hook that changes the output of layer 1 at the tokens that a program counts. And the number
    of tokens that differ; a generation does not read the last one of the response, which is not counted."""
    length, changed = len(prompt), 0
    at = {"all": slice(0, None), "prompt": slice(0, length), "response": slice(length, None),
          "published": slice(length - 1, None)}[positions]  # fmt: skip

    def change(_module: Any, _inputs: Any, output: Any) -> Any:
        nonlocal changed
        before = output[0] if isinstance(output, tuple) else output
        after = before.clone()
        after[:, at] = edit(before[:, at])
        changed = int((after != before)[:, :-1].any(dim=-1).sum())
        return (after, *output[1:]) if isinstance(output, tuple) else after

    hook = model.model.layers[0].register_forward_hook(change)
    try:
        return logits_of(model, prompt, response), changed
    finally:
        hook.remove()


def assert_best_tokens(response: dict[str, Any], logits: Tensor, error: float) -> int:
    """Returns the number of tokens that were compared: the two best logits are not close."""
    ours = torch.tensor(response["top_logits"], dtype=logits.dtype)
    theirs = logits.gather(1, torch.tensor(response["top_ids"]))
    assert (ours - theirs).abs().max() <= error
    logprobs = logits.double().log_softmax(-1).gather(1, torch.tensor(response["token_ids"])[:, None])[:, 0]
    assert (torch.tensor(response["logprobs"], dtype=torch.float64) - logprobs).abs().max() <= 2 * error
    best = logits.topk(2)
    apart = best.values[:, 0] - best.values[:, 1] > CLOSE
    assert torch.equal(torch.tensor(response["token_ids"])[apart], best.indices[apart, 0])
    return int(apart.sum())


def assert_follows(
    continued: Callable[[list[Ids]], list[Ids]], model: Any, prompts: list[Ids], wanted: list[Ids]
) -> int:
    """Along the continuations `wanted`: our greedy token is theirs, or the two best logits are close. After such a
    token, ours continues from theirs. Returns the number of tokens that are the same."""
    same, open_ends = 0, [(prompt, ids) for prompt, ids in zip(prompts, wanted, strict=True) if ids]
    while open_ends:
        found = continued([prompt for prompt, _ in open_ends])
        again = []
        for (prompt, ids), ours in zip(open_ends, found, strict=True):
            agree = next((i for i, (a, b) in enumerate(zip(ours, ids, strict=False)) if a != b), len(ids))
            same += agree
            if agree == len(ids):
                continue
            best = logits_of(model, prompt, ids[: agree + 1])[-1].topk(2).values
            assert best[0] - best[1] <= CLOSE, (prompt, ids[:agree], ours[agree], ids[agree])
            if agree + 1 < len(ids):
                again.append((prompt + ids[: agree + 1], ids[agree + 1 :]))
        open_ends = again
    return same
