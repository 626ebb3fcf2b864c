"""What the tracer knows of torchtitan's sharding configuration, with modules that only have its attributes, and how the
ranks find out whose gradient is a sum. test_attach_torchtitan.py has the real ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensor_tracer.attaching import torchtitan
from tensor_tracer.attaching.facts import known_of
from tensor_tracer.attaching.layouts import Layout, kUnknown
from tensor_tracer.attaching.learning import Seen
from tensor_tracer.attaching.plans import expand
from tensor_tracer.attaching.table import Batch, Learned, make_sites, settle_layouts, share_gradient_problems
from tensor_tracer.errors import TensorTracerError
from tensor_tracer.torchtitan import attach
from torch import nn

SUM = "each rank has a part of the sum that is the gradient"
UNSEEN = "the first step did not show whether all ranks have the whole gradient"


def placed(kind: str | int) -> Any:
    """A placement: sharded in this dim, or a kind of spmd_types."""
    on_axis = SimpleNamespace(dim=kind) if isinstance(kind, int) else SimpleNamespace(value=kind)
    return SimpleNamespace(per_axis_spmd_types=lambda: {"dp": SimpleNamespace(dim=0), "tp": on_axis})


def shared(module: nn.Module, weight: Any = None, taken: Any = None, **given: Any) -> nn.Module:
    """A module that torchtitan has parallelised."""
    module._sharding_config = SimpleNamespace(  # type: ignore[assignment]
        state_shardings={} if weight is None else {"weight": placed(weight)}, in_src_shardings=taken,
        out_src_shardings=given.get("source"), out_dst_shardings=given.get("target"),
    )  # fmt: skip
    module._parallelized = True  # type: ignore[assignment]
    return module


class Attention(nn.Module):
    def forward(self, hidden: Any, mask: Any) -> None: ...


# The module, the layout of its input and of its output, and what is the matter with the gradient of its output.
RULES = [
    (shared(nn.Linear(4, 8), weight=0, source=placed(-1)), None, "shard(-1)", ""),
    (shared(nn.Linear(4, 8), weight=1, source=placed("P"), target=placed(1)), "shard(-1)", "shard(1)", ""),
    (shared(nn.Linear(4, 8), weight=1, source=placed("P"), target=placed("I")), "shard(-1)", "replicate", ""),
    (shared(nn.RMSNorm(4), "I", {"input": placed(1)}, source=placed(1), target=placed("R")), "shard(1)", "replicate", SUM),
    (shared(Attention(), None, {"hidden": placed(1)}), "shard(1)", None, ""),
    (shared(Attention(), None, {"mask": placed("I")}, source=(placed(1), placed(1))), None, None, ""),
    (shared(nn.Identity(), None, {"input": placed("V")}, source=placed("V")), None, None, ""),
    (nn.Linear(4, 8), None, None, ""),
]  # fmt: skip


@pytest.mark.parametrize(("module", "taken", "returned", "problem"), RULES)
def test_rules(module: nn.Module, taken: str | None, returned: str | None, problem: str) -> None:
    for is_output, expected in ((False, taken), (True, returned)):
        found = torchtitan.rule_for("layers.0.x", module, is_output)
        assert (None if found is None else str(found)) == expected
        assert found is None or found.source == "the sharding configuration of layers.0.x"
    assert found is None or found.gradient_problem == problem


def test_sums_that_a_module_leaves_are_refused() -> None:
    found = torchtitan.rule_for("w", shared(nn.Linear(4, 8), weight=1, source=placed("P")), True)
    assert found is not None and found.problem == "the ranks hold partial sums, which this module does not reduce"


def test_the_group_is_that_of_an_embedding() -> None:
    half = nn.Linear(4, 8)
    half.out_features = 16
    model = nn.ModuleList([shared(half, weight=0)])
    assert [tuple(part.shape) for part in torchtitan.parts_of(model)] == [(8, 4)]
    assert known_of(model, ranks=2).parameters == 2 * 8 * 4 + 8  # the bias is on every rank
    with pytest.raises(TensorTracerError) as refused:
        torchtitan.tensor_group(model)
    assert refused.value.where == "tensor_parallel_group"
    embedding = nn.Embedding(2, 2)
    embedding.tp_group = "the group"
    assert torchtitan.tensor_group(model.append(embedding)) == "the group"
    assert torchtitan.tensor_group(nn.ModuleList([shared(nn.Linear(4, 8), weight=0)])) is None


@pytest.mark.parametrize(("name", "message"), [
    ("pp_enabled", "the trainer has pipeline stages"),
    ("cp_enabled", "with the load balancer 'ptrr', the tokens of a rank depend on the mask"),
    ("CUDA graphs", "the trainer replays CUDA graphs"),
])  # fmt: skip
def test_a_trainer_that_cannot_be_traced_is_refused(name: str, message: str) -> None:
    dims = SimpleNamespace(**dict.fromkeys(["pp_enabled", "cp_enabled"], False) | {name: True})
    config = SimpleNamespace(
        training=SimpleNamespace(disable_cuda_graphs=name != "CUDA graphs"),
        parallelism=SimpleNamespace(context_parallel_load_balancer="ptrr"),
    )
    with pytest.raises(TensorTracerError, match=message) as refused:
        attach(SimpleNamespace(parallel_dims=dims, config=config))
    assert refused.value.code == ("compiled" if name == "CUDA graphs" else "invalid_argument")


WHOLE = Layout(source="a class")
# The layout that a source says, the hashes of the gradient on the ranks, and the problem with it.
GRADIENTS = [
    (WHOLE, [5, 5], ""),
    (WHOLE, [None, None], ""),
    (WHOLE, [5, 6], SUM),
    (WHOLE, [5, None], SUM),
    (kUnknown, [5, 5], ""),
    (kUnknown, [5, 6], SUM),
    (kUnknown, [None, None], UNSEEN),
    (Layout(source="a class", gradient_problem=SUM), [5, 5], SUM),
    (Layout(-1, source="a class"), [5, 6], ""),
]


@pytest.mark.parametrize(("layout", "hashes", "problem"), GRADIENTS)
def test_gradients_that_are_sums_are_found_in_the_first_step(layout: Layout, hashes: list[int | None], problem: str) -> None:
    def learned(bits: int | None) -> Learned:
        return Learned((2, 8, 4), 1, False, bits)

    def of(layer: int, said: Layout) -> Seen:
        return Seen(f"layers.{layer}.x", nn.Identity(), "output", None, (2, 8, 4), torch.float32, said, 1, False)

    layers = {"layers.0": 1, "layers.1": 2}
    sites = make_sites([of(0, WHOLE), of(1, layout)], layers, Batch(2, 8), 2)
    if layout.is_known and layout.dim is None:
        assert settle_layouts(sites, [[learned(7), learned(bits)] for bits in hashes], 2) == []
        share_gradient_problems(sites)
        assert [site.layout.gradient_problem for site in sites] == [problem, problem]  # a place is the same in all layers
    single = make_sites([of(0, layout)], layers, Batch(2, 8), 2)
    assert settle_layouts(single, [[learned(bits)] for bits in hashes], 2) == []
    assert [site.layout.gradient_problem for site in single] == [problem]


def test_a_pattern_of_gradients_leaves_out_those_that_are_not_traced() -> None:
    names = [("A", "layers[n].a", True), ("B", "layers[n].b", False)]
    entries = [{"point": "*"}, {"point": "*", "direction": "gradient"}]
    plan, messages = expand({"entries": entries}, names, {})
    assert plan["entries"] == [{"point": "A"}, {"point": "B"}, {"point": "A", "direction": "gradient"}]
    assert messages == []
