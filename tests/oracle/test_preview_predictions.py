"""What a preview says of the model's predictions, without and with a program, against PyTorch: the evaluation batch and
the monitored prompts."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from decoder import Record, decode
from reference_gpt import Export, ReferenceGpt
from test_control import claim
from test_points import softmax_planes
from torch import Tensor
from viewer import live_run

NIGHTLY = pytest.mark.nightly(suite="meshes")
MESHES = [pytest.param((1, 1), marks=NIGHTLY), (2, 2), pytest.param((4, 1), marks=NIGHTLY)]
SEQUENCE, MICRO_BATCH, K = 16, 2, 6
PROMPTS = ["def f(x):", "a longer one, é", "é"]
# With a file's contents, which rank 0 alone has read, for passes of several shapes.
PROGRAM = 'when(phase="train")\nlayers[1].output *= 3\nlayers[2].mlp.output += 0.5 * vector("evil")[2]'
VECTOR = torch.randn(3, 32, generator=torch.Generator().manual_seed(3))
SETTINGS = {
    "num_layers": 2, "seq_length": SEQUENCE, "micro_batch_size": MICRO_BATCH, "global_batch_size": 4,
    "params_dtype": "float64", "train_iters": 400, "export_at": "1-400", "monitor_interval": 1000,
}  # fmt: skip
# Not the first set: a record states which one it is of.
OTHER = "unwatched"


def predictions(model: ReferenceGpt, tokens: Tensor, targets: Tensor) -> Tensor:
    """The planes of a topk record of Logits."""
    with torch.no_grad():
        logits = model.logits(tokens)
    best = torch.stack([numbers.double() for numbers in logits.topk(K)])
    return torch.cat([best, softmax_planes(logits, targets, K)])


def edited(point: str, layer: int, value: Tensor) -> Tensor:
    if (point, layer) == ("HiddenStates", 1):
        return 3 * value
    return value + 0.5 * VECTOR[2].double() if (point, layer) == ("MLP2", 2) else value


def prompts_as_tokens() -> tuple[Tensor, Tensor]:
    """Bytes and then zeros; targets are the next bytes, and -1 where the text has ended."""
    length = max(len(text.encode()) for text in PROMPTS)
    tokens = torch.zeros(len(PROMPTS), length, dtype=torch.long)
    targets = torch.full_like(tokens, -1)
    for row, text in enumerate(PROMPTS):
        data = torch.tensor(list(text.encode()))
        tokens[row, : len(data)] = data
        targets[row, : len(data) - 1] = data[1:]
    return tokens, targets


def preview(folder: Path, flags: Any, mesh: tuple[int, int]) -> tuple[dict[str, list[Record]], Export, int]:
    """The records of both sides, and the weights that it ran on."""
    for name, texts in ((OTHER, ["x"]), ("probes", PROMPTS)):
        (folder / f"{name}.txt").write_text("\n".join(texts) + "\n")
    (folder / "vectors").mkdir()
    torch.save(VECTOR, folder / "vectors" / "evil.pt")
    changes = SETTINGS | {
        "tensor_tracer_vectors": str(folder / "vectors"), "tensor_model_parallel_size": mesh[0], "export_tensors": str(folder / "exports"),
        "monitor_prompts": [str(folder / f"{name}.txt") for name in (OTHER, "probes")],
    }  # fmt: skip
    whole = {"rows": 0, "compressor": {"kind": "topk", "k": K}, "dtype": "f64"}
    tokens = {"point": "InputTokens", "rows": 0, "phases": ["eval"]}
    plan = [{"point": "Logits", "phases": ["eval"]} | whole, tokens, {"point": "Logits", "prompts": "probes"} | whole]
    with live_run(flags | changes, folder, mesh[0] * mesh[1]) as run, run.viewer() as viewer:
        claim(viewer)
        viewer.request("control.pause")
        answer = viewer.request("intervention.preview", {"program": PROGRAM, "plan": {"entries": plan}})
        viewer.request("control.step", {"count": 1})
        sides = {side: decode(base64.b64decode(answer["records"][side]), viewer.run) for side in ("off", "on")}
    # Exported before the update of the step.
    return sides, Export.read(folder / "exports" / f"step_{answer['step'] + 1:06d}.safetensors"), answer["step"]


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_predictions_of_a_preview_equal_pytorch(mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """The program acts in evaluation and on prompts too, whatever its `when`; prompts come once on every mesh."""
    sides, export, step = preview(tmp_path, flags, mesh)
    [evaluated] = [one for one in sides["off"] if one.point == "InputTokens"]
    batch = torch.tensor(evaluated.values[0]).long()
    of_prompts = prompts_as_tokens()
    for side, edit in (("off", None), ("on", edited)):
        model = ReferenceGpt(export.config, export.weights, edit=edit)
        records = [one for one in sides[side] if one.point == "Logits"]
        assert {one.step for one in records} == {max(step, 1)}
        # Prompts come in micro-batches.
        assert [(one.prompt_set, one.first_row) for one in records] == [(0, 0), (2, 0), (2, MICRO_BATCH)]
        close(np.concatenate([one.values for one in records[1:]], axis=1), predictions(model, *of_prompts))
        # Whether the target of the last token is right, the tests of records say.
        nexts = torch.cat([batch[:, 1:], torch.zeros(len(batch), 1, dtype=torch.long)], 1)
        close(records[0].values[:, :, :-1], predictions(model, batch, nexts)[:, :, :-1])


def close(found: Any, wanted: Tensor) -> None:
    torch.testing.assert_close(torch.from_numpy(found).double(), wanted, rtol=1e-9, atol=1e-9, equal_nan=True)
