"""A training with tensor_tracer.attach, which test_attach_sinks.py starts. Its losses are its output's last line.

    python attached_run.py FOLDER '{"steps": 20, "sinks": ["wandb", {"kind": "TensorBoard", "folder": "logs"}]}'

Without "steps", it ends when FOLDER/stop exists.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import tensor_tracer as tt
import torch
from tensor_tracer import sinks
from torch import nn

SIZE, TOKENS, VOCABULARY = 16, 8, 32


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, SIZE)
        self.layers = nn.ModuleList(nn.Linear(SIZE, SIZE) for _ in range(2))
        self.head = nn.Linear(SIZE, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(ids)
        for layer in self.layers:
            hidden = hidden + torch.tanh(layer(hidden))
        return self.head(hidden)


PLAN = {
    "entries": [
        {"point": "HiddenStates", "compressor": {"kind": "stats", "range": [-2, 2], "bins": 4}},
        {"point": "HiddenStates", "direction": "gradient", "compressor": {"kind": "stats"}},
    ]
}


def sink_of(given: Any) -> Any:
    if isinstance(given, str):
        return given
    return getattr(sinks, given["kind"])(**{name: value for name, value in given.items() if name != "kind"})


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, run: Any, seed: int) -> float:
    ids = torch.randint(0, VOCABULARY, (2, TOKENS), generator=torch.Generator().manual_seed(seed))
    with run.step():
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    run.log(loss=loss)
    return loss.item()


def main() -> None:
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.manual_seed(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    given = [sink_of(one) for one in options["sinks"]]
    run = tt.attach(model, None, plan=PLAN, run_dir=folder / "run", record=folder / "record", sinks=given)
    losses: list[float] = []
    while len(losses) < options["steps"] if "steps" in options else not (folder / "stop").exists():
        losses.append(train_step(model, optimizer, run, len(losses)))
        time.sleep(0.01)
    run.detach()
    print(json.dumps(losses))


if __name__ == "__main__":
    main()
