"""What the tracer knows about the classes of Megatron-Core, with modules that only have their names and attributes.
test_attach_megatron.py has the real ones."""

from __future__ import annotations

import sys
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensor_tracer.attaching import RunStopped, megatron
from tensor_tracer.attaching.layouts import Layout, Layouts, TensorAxis
from tensor_tracer.attaching.learning import Learner, Seen
from tensor_tracer.attaching.names import Names
from tensor_tracer.attaching.table import Batch, Learned, find_layers, make_sites, name_sites, settle_layouts
from tensor_tracer.errors import TensorTracerError
from tensor_tracer.megatron import wrap_train_step
from torch import Tensor, nn

BATCH, TOKENS = 2, 8
COLUMN = {
    "output_size": 96, "output_size_per_partition": 48, "gather_output": False, "is_expert": False,
    "explicit_expert_comm": False, "sequence_parallel": False,
}  # fmt: skip
ROW = {
    "input_size": 64, "input_is_parallel": True, "is_expert": False, "explicit_expert_comm": False,
    "sequence_parallel": False,
}  # fmt: skip
TE = {"in_features": 32, "out_features": 48, "tp_size": 2, "sequence_parallel": False}
PART = {"sequence_parallel": True}
GPT = {"post_process": True, "parallel_output": True}
EMBEDDING = {"reduce_scatter_embeddings": False, "scatter_to_sequence_parallel": True}


def config(**given: Any) -> SimpleNamespace:
    defaults = {"tensor_model_parallel_size": 2, "sequence_parallel": False, "gated_linear_unit": False}
    return SimpleNamespace(**defaults | given)


@cache
def class_named(name: str, base: type[nn.Module] = nn.Module) -> type[nn.Module]:
    return type(name, (base,), {})


def module(kind: str, **attributes: Any) -> nn.Module:
    """A module of a class with this name. `config`: of Megatron, unless it is given."""
    return filled(class_named(kind)(), attributes)


def filled(made: nn.Module, attributes: dict[str, Any]) -> nn.Module:
    for name, value in ({"config": config()} | attributes).items():
        setattr(made, name, value)
    return made


def part(kind: str, **attributes: Any) -> nn.Module:
    """A module of a model with sequence parallelism."""
    return module(kind, config=config(sequence_parallel=True), **attributes)


def gated(kind: str, **attributes: Any) -> nn.Module:
    return module(kind, config=config(gated_linear_unit=True), **attributes)


# The module, its path, the layout of its input and of its output.
RULES = [
    (module("ColumnParallelLinear", **COLUMN), "linear_qkv", "replicate", "shard(-1)"),
    (module("ColumnParallelLinear", **COLUMN | {"gather_output": True}), "linear_qkv", "replicate", "replicate"),
    (module("ColumnParallelLinear", **COLUMN | {"output_size_per_partition": 96}), "x", "replicate", "replicate"),
    (module("ColumnParallelLinear", **COLUMN | PART), "linear_qkv", "shard(0)", "shard(-1)"),
    (gated("ColumnParallelLinear", **COLUMN), "mlp.linear_fc1", "replicate", "shard(-1) of segments [48, 48]"),
    (gated("ColumnParallelLinear", **COLUMN), "attention.linear_qkv", "replicate", "shard(-1)"),
    (gated("ColumnParallelLinear", **COLUMN), "output_layer", "replicate", "shard(-1)"),
    (module("ColumnParallelLinear", **COLUMN), "mixer.in_proj", "replicate", None),
    (module("RowParallelLinear", **ROW), "linear_proj", "shard(-1)", "replicate"),
    (module("RowParallelLinear", **ROW | {"input_is_parallel": False}), "linear_proj", "replicate", "replicate"),
    (module("RowParallelLinear", **ROW | PART), "linear_fc2", "shard(-1)", "shard(0)"),
    (module("TEColumnParallelLinear", **TE, parallel_mode="column"), "linear_qkv", "replicate", "shard(-1)"),
    (module("TELayerNormColumnParallelLinear", **TE | PART, parallel_mode="column"), "x", "shard(0)", "shard(-1)"),
    (gated("TELayerNormColumnParallelLinear", **TE, parallel_mode="column"), "mlp.linear_fc1", "replicate",
     "shard(-1) of segments [48, 48]"),
    (module("TERowParallelLinear", **TE, parallel_mode="row"), "linear_fc2", "shard(-1)", "replicate"),
    (module("TERowParallelLinear", **TE | PART, parallel_mode="row"), "linear_fc2", "shard(-1)", "shard(0)"),
    (part("TELinear", **TE, parallel_mode=None), "linear_q_down_proj", "shard(0)", "shard(0)"),
    (module("TELinear", **TE, parallel_mode=None), "mlp.shared_experts.linear_fc2", None, None),
    (module("VocabParallelEmbedding"), "word_embeddings", "replicate", "replicate"),
    (module("VocabParallelEmbedding", reduce_scatter_embeddings=True), "word_embeddings", "shard(0)", "shard(0)"),
    (part("LanguageModelEmbedding", **EMBEDDING), "embedding", "shard(0)", "shard(0)"),
    (part("LanguageModelEmbedding", **EMBEDDING | {"scatter_to_sequence_parallel": False}), "embedding", "replicate",
     "replicate"),
    (module("DotProductAttention"), "self_attention.core_attention", None, "shard(-1)"),
    (module("TEDotProductAttention"), "self_attention.core_attention", None, "shard(-1)"),
    (module("FusedScaleMaskSoftmax"), "scale_mask_softmax", "shard(1)", "shard(1)"),
    (module("TransformerLayer"), "decoder.layers.0", "replicate", "replicate"),
    (part("TransformerLayer"), "decoder.layers.0", "shard(0)", "shard(0)"),
    (part("MLP"), "decoder.layers.0.mlp", "shard(0)", "shard(0)"),
    (part("RMSNorm", sequence_parallel=True), "input_layernorm", "shard(0)", "shard(0)"),
    (module("RMSNorm"), "input_layernorm", None, None),
    (module("GPTModel", **GPT), "", "replicate", "shard(-1)"),
    (module("GPTModel", **GPT | {"parallel_output": False}), "", "replicate", "replicate"),
    (nn.Linear(2, 2), "linear_fc1", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("one", "path", "taken", "returned"), RULES, ids=lambda value: type(value).__name__)
def test_rules(one: nn.Module, path: str, taken: str | None, returned: str | None) -> None:
    for is_output, expected in ((False, taken), (True, returned)):
        found = megatron.rule_for(path, one, is_output)
        assert (None if found is None else str(found)) == expected
        assert found is None or (not found.problem and type(one).__name__ in found.source)


def test_activation_of_transformer_engine() -> None:
    one = module("SwiGLU")
    type(one).__module__ = "transformer_engine.pytorch.ops"
    assert str(megatron.rule_for("mlp.activation_func", one, True)) == "shard(-1)"
    assert megatron.rule_for("mlp.activation_func", one, False) is None
    type(one).__module__ = "mine"
    assert megatron.rule_for("mlp.activation_func", one, True) is None


@pytest.mark.parametrize(("one", "path", "reason"), [
    (module("ColumnParallelLinear", **COLUMN | {"is_expert": True}), "linear_fc1", "sorted by expert"),
    (module("RowParallelLinear", **ROW | {"is_expert": True}), "linear_fc2", "sorted by expert"),
    (module("TERowParallelLinear", **TE, parallel_mode="row"), "mlp.experts.linear_fc2", "sorted by expert"),
    (module("MLP"), "mlp.experts.local_experts.3", "sorted by expert"),
    (module("RowParallelLinear", **ROW | {"explicit_expert_comm": True}), "shared_experts.linear_fc2", "partial sums"),
])  # fmt: skip
def test_what_is_not_traced(one: nn.Module, path: str, reason: str) -> None:
    found = megatron.rule_for(path, one, True)
    assert found is not None and reason in found.problem


def test_classes_of_the_user_and_of_others() -> None:
    mine = filled(class_named("MyLinear", class_named("ColumnParallelLinear"))(), COLUMN)
    assert str(megatron.rule_for("linear_qkv", mine, True)) == "shard(-1)"
    for kind in ("ColumnParallelLinear", "RowParallelLinear", "TransformerLayer", "MLP", "GPTModel"):
        assert megatron.rule_for("x", module(kind, config=SimpleNamespace(hidden_size=4)), True) is None


# --- rows of the place table ---


def seen(path: str, one: nn.Module, *shape: int, is_output: bool = True) -> Seen:
    layout = megatron.rule_for(path, one, is_output) or Layout(is_known=False)
    return Seen(path, one, "output" if is_output else "input", None, shape, torch.float32, layout, 0, False)


def row_of(one: Seen, rows: int = BATCH, ranks: int = 2) -> Any:
    """The row, or the reason why there is no row."""
    [site] = make_sites([one], {}, Batch(rows, TOKENS, is_sequence_first=True), ranks)
    return site.problem or (site.row["view"], site.row.get("dim"), site.row.get("segments"), site.row["features"])


SAME, SEQUENCE_FIRST = 0, 1
LAYER, PART_LAYER = module("TransformerLayer"), part("TransformerLayer")


def test_a_part_of_the_sequence_is_a_row() -> None:
    fc1, fc2 = gated("ColumnParallelLinear", **COLUMN | PART), part("RowParallelLinear", **ROW | PART)
    assert row_of(seen("decoder.layers.0", PART_LAYER, 4, 2, 32)) == (SEQUENCE_FIRST, 1, [[8, 2]], 32)
    assert row_of(seen("mlp.linear_fc2", fc2, 4, 2, 32)) == (SEQUENCE_FIRST, 1, [[8, 2]], 32)
    assert row_of(seen("mlp.linear_fc1", fc1, 8, 2, 48)) == (SEQUENCE_FIRST, 2, [[48, 2], [48, 2]], 96)
    assert row_of(seen("linear_fc2", fc2, 8, 2, 32, is_output=False)) == (SEQUENCE_FIRST, 2, [[64, 2]], 64)
    scattering = module("VocabParallelEmbedding", reduce_scatter_embeddings=True)
    assert row_of(seen("word_embeddings", scattering, 4, 2, 32)) == (SEQUENCE_FIRST, 1, [[8, 2]], 32)
    probabilities = module("FusedScaleMaskSoftmax")
    assert row_of(seen("softmax", probabilities, 2, 2, 8, 8)) == (SAME, 1, [[4, 2]], 8)


def test_a_claim_that_the_shape_contradicts() -> None:
    wrong = seen("decoder.layers.0", LAYER, 4, 2, 32)
    problem = "a rank has 4 of 8 tokens, but the layout is replicate by the class TransformerLayer of decoder.layers.0"
    assert row_of(wrong) == problem
    sites = make_sites([wrong, seen("x", nn.Identity(), 4, 2, 32)], {}, Batch(2, 8, True), 2)
    told = settle_layouts(sites, [[Learned(site.seen.shape, rank, False, None) for site in sites] for rank in (0, 1)], 2)
    assert told == [f"decoder.layers.0.output is not traced: {problem}"]
    assert "8 of 8 tokens" in row_of(seen("decoder.layers.0", PART_LAYER, 8, 2, 32))
    assert "known to no source" in row_of(seen("x", nn.Identity(), 4, 2, 32))
    gathered = module("ColumnParallelLinear", **COLUMN)
    assert "96 features, but 2 ranks have 96 each" in row_of(seen("output_layer", gathered, 8, 2, 96))


def test_the_shape_does_not_tell_the_order() -> None:
    words, positions = module("VocabParallelEmbedding"), nn.Embedding(8, 32)
    assert row_of(seen("decoder.layers.0", LAYER, 8, 8, 32), rows=8)[0] == SEQUENCE_FIRST
    assert row_of(seen("decoder.layers.0", PART_LAYER, 4, 4, 32), rows=4)[0] == SEQUENCE_FIRST
    assert row_of(seen("word_embeddings", words, 8, 8, 32), rows=8)[0] == SAME
    assert row_of(seen("position_embeddings", positions, 8, 8, 32), rows=8)[0] == SAME
    assert row_of(seen("", module("GPTModel", **GPT), 8, 8, 24), rows=8)[0] == SAME
    assert row_of(seen("", module("GPTModel", post_process=False), 8, 8, 32), rows=8)[0] == SEQUENCE_FIRST
    assert "is not [batch, sequence, features]" in row_of(seen("router", nn.Identity(), 16, 4))
    assert row_of(seen("router", nn.Identity(), 8, 4), rows=1)[3] == 4


def test_layers_have_the_numbers_of_the_whole_model() -> None:
    for kind, expected in (("TransformerLayer", [3, 4]), ("Block", [1, 2])):
        root = nn.Module()
        root.layers = nn.ModuleList(module(kind, layer_number=number) for number in (3, 4))
        for layer in root.layers:
            layer.weight = nn.Parameter(torch.zeros(1))
        ran = [seen(f"layers.{index}", layer, 8, 2, 32) for index, layer in enumerate(root.layers)]
        assert list(find_layers(root, ran).values()) == expected
        assert megatron.is_sequence_first(list(root.layers)) == (kind == "TransformerLayer")


def test_logits_are_what_the_output_layer_returns() -> None:
    """With labels, the model returns the loss; without, a copy of the logits."""
    layer, model = module("ColumnParallelLinear", **COLUMN), module("GPTModel", **GPT)
    sites = make_sites([seen("output_layer", layer, 8, 2, 48), seen("", model, 2, 8, 48)], {}, Batch(2, 8, True), 2)
    assert [site.name for site in name_sites(sites, Names(None), 96)] == ["Logits", "output"]
    assert not megatron.is_output_layer("output_layer", nn.Linear(2, 2))


def test_sizes_of_the_whole_model() -> None:
    root = nn.Module()
    root.words, root.positions = module("VocabParallelEmbedding", num_embeddings=128), nn.Embedding(4096, 2)
    assert megatron.text_size(root) == 128 and megatron.text_size(nn.Embedding(3, 2)) == 0
    weight = nn.Parameter(torch.zeros(6))
    assert megatron.whole_size(weight, 2) == 6
    weight.tensor_model_parallel = True  # type: ignore[attr-defined]
    assert megatron.whole_size(weight, 2) == 12


def test_the_module_that_passes_a_tensor_on_may_know_more() -> None:
    """A norm returns what the attention takes: the attention's class says how ranks share it."""

    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.attention = nn.Tanh(), module("Attention")
            self.attention.forward = lambda hidden: hidden + 1

        def forward(self, hidden: Tensor) -> Tensor:
            result: Tensor = self.attention(self.norm(hidden))
            return result

    root = Root()
    learner = Learner(root, Layouts(2, {}, TensorAxis.of(root, ["tp"]), [megatron.rule_for]), 0)
    learner.start(None, None)
    learner.finish(root(torch.rand(8, 2, 4)))
    layouts = {one.name: (str(one.layout), one.layout.source) for one in learner.seen}
    assert layouts["norm.output"] == ("replicate", "the class Attention of attention")
    assert layouts["norm.input"][0] == "rank-local"


# --- groups ---


class State:
    """megatron.core.parallel_state."""

    def __init__(self, is_initialized: bool = True) -> None:
        self.model_parallel_is_initialized = lambda: is_initialized
        self.get_tensor_model_parallel_group = lambda: "the group"
        self.get_pipeline_model_parallel_group = lambda: "the stages"
        self.get_context_parallel_group = lambda check_initialized: "the contexts"


@pytest.mark.parametrize(("state", "groups"), [
    (None, (None, None, None)), (State(is_initialized=False), (None, None, None)),
    (State(), ("the group", "the stages", "the contexts")),
])  # fmt: skip
def test_the_groups(state: State | None, groups: tuple[Any, Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if state is not None:
        monkeypatch.setitem(sys.modules, "megatron.core.parallel_state", state)
    assert (megatron.tensor_group(nn.Linear(2, 2)), megatron.pipeline_group(), megatron.context_group()) == groups


# --- the adapter ---


class Run:
    """An attached run that keeps what it is told."""

    def __init__(self, stops_after: int = 99) -> None:
        self.told: list[Any] = []
        self.stops_after = stops_after
        self.step_number = 40

    def step(self, number: int | None = None) -> Run:
        self.step_number = self.step_number + 1 if number is None else number
        if len([one for one in self.told if one == "begin"]) == self.stops_after:
            raise RunStopped("stopped")
        return self

    def __enter__(self) -> None:
        self.told.append("begin")

    def __exit__(self, *_: object) -> None:
        self.told.append("end")

    def log(self, **numbers: Any) -> None:
        self.told.append({name: float(number) for name, number in numbers.items()})


class Optimizer:
    def __init__(self) -> None:
        self.param_groups = [{"lr": 9.0, "is_decoupled_lr": True}, {"lr": 0.5}]


LOSS = torch.tensor([3.0, 2.0])  # a sum over tokens and their number
RESULTS = ({"lm loss": LOSS}, 0, False, False, 0, 0.25, None, 7)  # of Megatron-LM with megatron-core 0.16.1


def step_with(results: tuple[Any, ...]) -> Any:
    def train_step(
        forward_step_func: Any, data_iterator: Any, model: Any, optimizer: Any, iteration: Any = None
    ) -> Any:
        optimizer.param_groups[1]["lr"] = 0.1  # the scheduler prepares the next step
        return results

    return train_step


@pytest.mark.parametrize("results", [RESULTS, (RESULTS[0], 0, 0.25, None)], ids=["eight results", "four results"])
def test_a_step_is_surrounded_and_logged(results: tuple[Any, ...]) -> None:
    run: Any = Run()
    traced = wrap_train_step(step_with(results), run)
    assert traced(None, None, [nn.Linear(2, 2)], Optimizer()) is results
    assert run.told == ["begin", "end", {"loss": 1.5, "grad_norm": 0.25, "lr": 0.5}]
    assert traced.__name__ == "train_step"


def test_a_step_without_numbers() -> None:
    run: Any = Run()
    wrap_train_step(lambda model, optimizer: ({}, 1, False, False, 0, None, None, 0), run)([nn.Linear(2, 2)], None)
    assert run.told == ["begin", "end", {}]


def test_the_first_step_attaches(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensor_tracer as tt

    attached: list[Any] = []
    run = Run()

    def attach(model: nn.Module, **options: Any) -> Run:
        attached.append((model, options))
        return run

    monkeypatch.setattr("tensor_tracer.megatron.attach", attach)
    traced = tt.megatron.wrap_train_step(step_with(RESULTS), port=0)
    chunk = nn.Linear(2, 2)
    for iteration in (40, 41):
        traced(None, None, [chunk], Optimizer(), iteration=iteration)
    assert attached == [([chunk], {"trainer": "Megatron-LM", "first_step": 41, "port": 0})]
    assert run.told.count("begin") == 2


@pytest.mark.parametrize("first", [41, 1])
def test_steps_follow_the_iterations(first: int) -> None:
    """Megatron-LM leaves out the iterations 42 and 43, and goes back later. `first`: the run's number of iteration 40."""
    run: Any = Run()
    run.step_number, numbers = first - 1, []
    traced = wrap_train_step(step_with(RESULTS), run)
    for iteration in (40, 41, 44, 42):
        traced(None, None, [nn.Linear(2, 2)], Optimizer(), iteration=iteration)
        numbers.append(run.step_number - first)
    assert numbers == [0, 1, 4, 5]


def test_the_rate_is_that_of_the_default_weights() -> None:
    """As Megatron-Core 0.16 marks them."""
    run: Any = Run()
    optimizer = Optimizer()
    optimizer.param_groups = [{"lr": rate, "is_decoupled_lr": False, "default_config": rate == 0.5} for rate in (9.0, 0.5)]
    wrap_train_step(step_with(RESULTS), run)(None, None, [nn.Linear(2, 2)], optimizer)
    assert run.told[-1]["lr"] == 0.5


@pytest.mark.parametrize("save", [None, "checkpoints"])
def test_a_viewer_stops_the_run(save: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    training = SimpleNamespace(get_args=lambda: SimpleNamespace(save=save))
    monkeypatch.setitem(sys.modules, "megatron.training", training)
    run: Any = Run(stops_after=1)
    traced = wrap_train_step(step_with(RESULTS), run)
    traced(None, None, [nn.Linear(2, 2)], Optimizer())
    assert traced(None, None, [nn.Linear(2, 2)], Optimizer()) == ({}, 1, save is not None, True, 0, None, None, 7)
    short = wrap_train_step(step_with((RESULTS[0], 0, 0.25, None)), Run(stops_after=1))  # type: ignore[arg-type]
    short(None, None, [nn.Linear(2, 2)], Optimizer())
    with pytest.raises(RunStopped):
        short(None, None, [nn.Linear(2, 2)], Optimizer())
