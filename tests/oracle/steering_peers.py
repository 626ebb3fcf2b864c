"""Steering as users of NNsight and of steering-vectors write it, on a model of Transformers.

    python steering_peers.py CASES OUT

test_steering_peers.py starts it with the interpreter that has both. CASES is a torch.save of {"model": folder, "vector":
[layers + 1, hidden], "cases": a list of ({layer from 1: coefficient}, sequences of token ids)}. OUT gets for each of
the PEERS, and for "plain", which does not steer, the logits [tokens, vocabulary] of each sequence of each case.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

PEERS = ("nnsight", "steering-vectors")
Coefficients = dict[int, float]


def by_nnsight(model: Any, vector: Tensor, coefficients: Coefficients, ids: Tensor) -> Tensor:
    import nnsight  # the test imports the names of the peers without them

    traced = nnsight.NNsight(model)
    with traced.trace(ids):
        for layer, coefficient in sorted(coefficients.items()):
            block = traced.model.layers[layer - 1]
            block.output = block.output + coefficient * vector[layer]
        logits = traced.output.logits.save()
    return logits


def by_steering_vectors(model: Any, vector: Tensor, coefficients: Coefficients, ids: Tensor) -> Tensor:
    from steering_vectors import SteeringVector

    handles = [SteeringVector({layer - 1: vector[layer]}).patch_activations(model, multiplier=coefficient)
               for layer, coefficient in coefficients.items()]  # fmt: skip
    logits = model(ids).logits
    for handle in handles:
        handle.remove()
    return logits


def plain(model: Any, _vector: Tensor, _coefficients: Coefficients, ids: Tensor) -> Tensor:
    return model(ids).logits


def main() -> None:
    torch.set_num_threads(1)
    asked = torch.load(sys.argv[1])
    model = AutoModelForCausalLM.from_pretrained(asked["model"], dtype=torch.float32)
    ways = dict(zip((*PEERS, "plain"), (by_nnsight, by_steering_vectors, plain), strict=True))
    with torch.no_grad():
        found = {
            name: [[way(model, asked["vector"], coefficients, torch.tensor([ids]))[0].clone() for ids in sequences]
                   for coefficients, sequences in asked["cases"]]
            for name, way in ways.items()
        }  # fmt: skip
    torch.save(found, sys.argv[2])


if __name__ == "__main__":
    main()
