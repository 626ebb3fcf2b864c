"""The tracer where batches have other shapes than the first one, and its errors for wrong options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attached_batches as scenarios
import pytest
import torch
from attached_training import make_model
from forked_ranks import run_ranks
from tensor_tracer import TensorTracerError
from tensor_tracer.attaching.parts import find_parts
from test_attach_safety import EVERY, environment, options, records
from torch import nn

pytestmark = pytest.mark.nightly(suite="attach")

STATES = {"entries": [{"point": "HiddenStates", "layers": "1", **EVERY}]}


@pytest.mark.smoke
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize(
    ("rows", "tokens"), [([3, 3], [10, 11]), ([3, 1], [10, 10]), ([1, 1], [10, 11]), ([1, 3], [10, 9])], ids=str
)
def test_data_replicas_may_have_batches_of_other_shapes(
    kind: str, rows: list[int], tokens: list[int], tmp_path: Path
) -> None:
    attach = options(tmp_path, plan=STATES)
    kept = run_ranks(scenarios.replicas, 2, tmp_path, attach, kind, rows, tokens, env=environment(tmp_path))[0]
    found = {record.step: record.values for record in records(tmp_path)}
    assert found.keys() == {2, 3}
    assert all(torch.equal(torch.from_numpy(values.copy()), kept[step]) for step, values in found.items())


@pytest.mark.parametrize("rows", [[3, 3], [3, 1], [1, 3], [2, 1, 2]], ids=str)
def test_rows_count_over_micro_batches_of_other_sizes(rows: list[int], tmp_path: Path) -> None:
    (found,) = run_ranks(scenarios.uneven, 1, tmp_path, options(tmp_path), rows, env=environment(tmp_path))
    together = [is_zero for of_batch in found for is_zero in of_batch]
    assert [row for row, is_zero in enumerate(together) if is_zero] == [3]
    first = {(record.micro_batch, record.first_row) for record in records(tmp_path) if record.point == "HiddenStates"}
    assert first == {(0, 0)}


def test_a_program_reads_back_what_it_saved_in_the_same_micro_batch_of_another_size(tmp_path: Path) -> None:
    rows = [[2, 2], [2, 2], [3, 1], [1, 3]]
    (found,) = run_ranks(scenarios.reads_back, 1, tmp_path, options(tmp_path), rows, env=environment(tmp_path))
    assert found == [[False, False], [False, False], [True, True], [True, True]]


@pytest.mark.parametrize("rows", [[2, 2], [3, 1], [1, 3]], ids=str)
def test_a_step_may_get_the_tokens_of_its_micro_batches(rows: list[int], tmp_path: Path) -> None:
    every = {"micro_batches": "0-1", "phases": ["train", "eval"], "rows": 0}
    plan = {"entries": [{"point": "InputTokens", **every}, {"point": "HiddenStates", "layers": "1", **every}]}
    (ids,) = run_ranks(scenarios.told, 1, tmp_path, options(tmp_path, plan=plan), rows, env=environment(tmp_path))
    found = [record for record in records(tmp_path) if record.step > 1]
    in_training = [record for record in found if record.phase == "train"]
    assert {record.point for record in in_training} == {"InputTokens", "HiddenStates"}
    for record in in_training:
        own = ids.split(rows)[record.micro_batch]
        assert record.first_row == sum(rows[: record.micro_batch])
        if record.point == "InputTokens":  # and the next ones
            assert torch.equal(torch.from_numpy(record.values[0].copy()).long(), own)
    evaluated = [record for record in found if record.phase == "eval"]
    assert {record.point for record in evaluated} == {"HiddenStates"}, "its tokens are not known"


class Wrapper(nn.Module):
    """As DistributedDataParallel, which needs a group."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


def compiled_inside() -> nn.Module:
    return Wrapper(torch.compile(make_model("plain", "none"), backend="eager"))  # type: ignore[arg-type]


def compiled_outside() -> Any:
    return torch.compile(Wrapper(make_model("plain", "none")), backend="eager")


def compiled_in_place() -> nn.Module:
    model = Wrapper(make_model("plain", "none"))
    model.compile(backend="eager")
    return model


@pytest.mark.smoke
@pytest.mark.parametrize("make", [compiled_inside, compiled_outside, compiled_in_place])
def test_a_compiled_model_is_refused_with_wrappers_in_any_order(make: Any) -> None:
    with pytest.raises(TensorTracerError, match="the whole model is compiled") as refused:
        find_parts(make())
    assert refused.value.code == "compiled"
    assert find_parts(Wrapper(make_model("plain", "none")))[0].stage is None


def test_evaluations_count_their_forwards(tmp_path: Path) -> None:
    plan = {"entries": [{"point": "HiddenStates", "layers": "1", "phases": ["eval"], "eval_forwards": "all", **EVERY}]}
    run_ranks(scenarios.evaluated, 1, tmp_path, options(tmp_path, plan=plan), env=environment(tmp_path))
    assert [record.micro_batch for record in records(tmp_path) if record.step == 2] == [0, 1, 2, 3]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"first_step": 1.5}, "first_step: 1.5 is not the number of a step; steps count from 1"),
    ({"first_step": 0}, "first_step: 0 is not the number of a step"),
    ({"port": 99_999}, "port: 99999 is no port; give 0 to 65535"),
    ({"port": "8765"}, "port: '8765' is no port"),
    ({"port": True}, "port: True is no port"),
    ({"vectors": "/nowhere"}, "vectors: there is no folder '/nowhere'"),
    ({"tokenizer": 5}, "tokenizer: 5 neither has encode() nor can be called"),
    ({"tensor_parallel_group": "x"}, "tensor_parallel_group: a str is no group of ranks"),
]


@pytest.mark.parametrize(("more", "told"), REFUSED, ids=[told.partition(";")[0] for _, told in REFUSED])
def test_wrong_options_are_named(more: dict[str, Any], told: str, tmp_path: Path) -> None:
    (message,) = run_ranks(scenarios.refused, 1, tmp_path, options(tmp_path) | more, env=environment(tmp_path))
    assert told in message
