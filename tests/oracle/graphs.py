"""All programs that the oracles know, and what they need of a run."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import graphs_more
import graphs_values
import torch
from hooked_gpt import Graph, World
from ready_made import READY_MADE
from safetensors.torch import save_file

LAYERS, HIDDEN, SEQUENCE = 4, 32, 16

GRAPHS = [
    *graphs_values.PLACES, *graphs_values.WEIGHTS, *graphs_values.LAYERS, *graphs_more.COMPUTED,
    *graphs_more.CONDITIONS, *graphs_more.SKIPS, *graphs_more.GRADIENTS, *graphs_more.KEPT,
    *graphs_more.TOGETHER,
]  # fmt: skip
EVERYTHING = {graph.name: graph for graph in [*READY_MADE, *GRAPHS]}

LLAMA = {
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "swiglu": True,
    "disable_bias_linear": True,
    "untie_embeddings_and_output_weights": True,
    "ffn_hidden_size": 88,
    "num_query_groups": 2,  # fewer than four ranks: two hold copies of one group
}
SHAPES = {"gpt2": {}, "llama": LLAMA}

# One step of training moves every weight, biases too; then the learning rate is 0, so that every
# program meets the same weights, and the same on every mesh to the last bits.
TINY = {
    "num_layers": LAYERS,
    "hidden_size": HIDDEN,
    "num_attention_heads": 4,
    "seq_length": SEQUENCE,
    "params_dtype": "float64",
    "micro_batch_size": 2,
    "global_batch_size": 4,
    "init_method_std": 0.1,
    "lr": 1.0,
    "min_lr": 0.0,
    "lr_warmup_iters": 0,
    "lr_decay_iters": 2,
    "weight_decay": 0.0,
    "adam_eps": 0.1,
}


def write_world(folder: Path, layers: int = LAYERS, hidden: int = HIDDEN) -> World:
    """The direction vectors, in `folder`/vectors, and clean.safetensors beside the programs."""
    random = torch.Generator().manual_seed(5)
    evil = torch.randn(layers + 1, hidden, generator=random)
    files = {
        "resid": torch.randn(hidden, generator=random).double(),
        "rows": torch.randn(SEQUENCE, hidden, generator=random).double(),
    }
    (folder / "vectors").mkdir(parents=True, exist_ok=True)
    torch.save(evil, folder / "vectors" / "evil.pt")
    (folder / "programs").mkdir(exist_ok=True)
    save_file(files, folder / "programs" / "clean.safetensors")
    return World({"evil": evil.double()}, files)


def at_steps(text: str, first: int, last: int) -> str:
    """The program, acting in these steps only."""
    steps = f'steps="{first}-{last}"'
    found = re.search(r"^when\(", text, re.MULTILINE)
    if found is None:
        return f"when({steps})\n{text}\n"
    return f"{text[: found.end()]}{steps}, {text[found.end() :]}\n"


@dataclasses.dataclass(frozen=True)
class Scheduled:
    """A program and its first step."""

    graph: Graph
    first: int

    @property
    def steps(self) -> range:
        return range(self.first, self.first + self.graph.steps)

    def text(self) -> str:
        return at_steps(self.graph.text, self.steps[0], self.steps[-1])


def schedule(graphs: list[Graph], first: int = 2) -> list[Scheduled]:
    """One after the other."""
    placed = []
    for graph in graphs:
        placed.append(Scheduled(graph, first))
        first += graph.steps
    return placed
