"""--steer, --ablate, --cap and --steering-config in training against PyTorch, on data with a loss mask."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from data_files import questions, write_jsonl
from program import Flags, command, environment, refused, train
from reference_gpt import Export, ReferenceGpt
from tensor_tracer import open_recording
from torch import Tensor

NIGHTLY = pytest.mark.nightly(suite="meshes")
LAYER, SIZE = 1, 32
POSITIONS = ["all", "prompt", "response", "published"]


def unit(v: Tensor) -> Tensor:
    return v / v.norm()


def capped(h: Tensor, v: Tensor) -> Tensor:
    p = h @ unit(v)
    return h + (p.clamp(-0.02, 0.03) - p)[..., None] * unit(v)


# The flag, its value, and what the code of persona vectors does; the cap as in activation capping.
KINDS: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "steer": (f"evil@{LAYER}=2.5", lambda h, v: h + 2.5 * v),
    "ablate": (f"evil@{LAYER}", lambda h, v: h - (h @ unit(v)[:, None]) @ unit(v)[None]),
    "cap": (f"evil@{LAYER}=-0.02:0.03", capped),
}


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("chats") / "chats.jsonl", questions(300))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    torch.manual_seed(3)
    torch.save(torch.randn(3, SIZE), folder / "evil.pt")
    return folder


@pytest.fixture
def tiny(flags: Flags, chats: Path, vectors: Path) -> dict[str, Any]:
    return dict(flags) | {"data_path": chats, "params_dtype": "float64", "tensor_tracer_vectors": vectors}


def responses_of(export: Export) -> Tensor:
    """The tokens whose own loss counts, document by document."""
    assert export.mask is not None and export.starts is not None
    found = torch.zeros_like(export.mask)
    for row in range(found.shape[0]):
        for token in range(1, found.shape[1]):
            is_first = int(export.starts[row, token]) == token
            found[row, token] = not is_first and bool(export.mask[row, token - 1])
    return found


def selected(export: Export, positions: str) -> Tensor:
    response = responses_of(export)
    return {"all": response | True, "published": response | True, "response": response, "prompt": ~response}[positions]


def assert_equals(run: Any, kind: str, positions: str, vectors: Path, layers: tuple[int, ...] = (LAYER,)) -> None:
    rows = torch.load(vectors / "evil.pt", weights_only=True).double()
    export = run.export(1)
    where = selected(export, positions)[..., None]

    def edit(point: str, layer: int, value: Tensor) -> Tensor:
        acts = point == "HiddenStates" and layer in layers
        return torch.where(where, KINDS[kind][1](value, rows[layer]), value) if acts else value

    leaves = {name: weight.clone().requires_grad_() for name, weight in export.weights.items()}
    model = ReferenceGpt(export.config, leaves, edit=edit, starts=export.starts)
    loss = model.loss(export.tokens, export.labels, export.mask)
    gradients = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
    assert run.losses()[0] == pytest.approx(loss.item(), rel=1e-10)
    norm = torch.stack([g.norm() for g in gradients.values()]).norm().item()
    for name, gradient in gradients.items():
        error = (export.gradients[name] - gradient).abs().max().item()
        assert error <= 1e-9 * gradient.abs().max().item() + 1e-14 * norm, name


def applied(folder: Path) -> dict[str, Any]:
    """What the run told of its one program in step 1."""
    [file] = folder.rglob("*.ttrec")
    [one] = [event["detail"] for event in open_recording(file).events("applied") if event["step"] == 1]
    return one["programs"][0]


@pytest.mark.parametrize("mesh", [(1, 1), pytest.param((2, 1), marks=NIGHTLY), (1, 2)], ids=str)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_flag_equals_pytorch(
    kind: str, positions: str, mesh: tuple[int, int], tiny: dict[str, Any], vectors: Path, tmp_path: Path
) -> None:
    tensor, data = mesh
    given = {kind: KINDS[kind][0], "positions": positions, "tensor_model_parallel_size": tensor}
    run = train(tiny | given, tmp_path, tensor * data, export_at="1")
    assert_equals(run, kind, positions, vectors)
    told = applied(tmp_path)
    assert told["name"] == f"{kind}-evil-{LAYER}" and told["failed"] == 0
    if kind != "cap":
        assert told["positions"] == int(selected(run.export(1), positions).sum())


@pytest.mark.parametrize("layers", ["1-2", "1,2", pytest.param("2", marks=NIGHTLY)])
@pytest.mark.parametrize("kind", ["steer", pytest.param("ablate", marks=NIGHTLY), pytest.param("cap", marks=NIGHTLY)])
def test_a_flag_acts_in_all_its_layers(
    kind: str, layers: str, tiny: dict[str, Any], vectors: Path, tmp_path: Path
) -> None:
    run = train(tiny | {kind: KINDS[kind][0].replace(f"@{LAYER}", f"@{layers}")}, tmp_path, export_at="1")
    assert_equals(run, kind, "all", vectors, (2,) if layers == "2" else (1, 2))


@pytest.mark.parametrize("shape", ["alone", "published"])
@pytest.mark.parametrize("kind", ["steer", "ablate"])
def test_the_published_configuration_is_the_flag(
    kind: str, shape: str, tiny: dict[str, Any], vectors: Path, tmp_path: Path
) -> None:
    steering = {"steering_vector_path": str(vectors / "evil.pt"), "type": kind, "steering_coef": 2.5, "layers": [LAYER]}
    published = {"model": "x", "enable_steering_during_training": True, "steering_config": steering}
    (tmp_path / "steer.json").write_text(json.dumps(steering if shape == "alone" else published))
    del tiny["tensor_tracer_vectors"]  # the file is the run's one vector
    by_file = train(tiny | {"steering_config": tmp_path / "steer.json"}, tmp_path / "file", export_at="1")
    assert_equals(by_file, kind, "all", vectors)
    (tmp_path / "run.json").write_text(json.dumps({"steering_config": steering}))
    by_key = train(tiny | {"config": tmp_path / "run.json"}, tmp_path / "key")
    assert by_key.losses() == by_file.losses()


def test_steering_that_is_off_does_nothing(tiny: dict[str, Any], tmp_path: Path) -> None:
    off = {"enable_steering_during_training": False, "steering_config": {}}
    (tmp_path / "off.json").write_text(json.dumps(off))
    assert train(tiny | {"steering_config": tmp_path / "off.json"}, tmp_path / "off").losses() == train(
        tiny, tmp_path / "plain").losses()  # fmt: skip


def test_the_terminal_tells_that_a_program_was_removed(tiny: dict[str, Any], vectors: Path, tmp_path: Path) -> None:
    """A steering that is so strong that the loss is not finite."""
    line = command(tiny | {"steer": "evil@1=1e308", "run_dir": tmp_path, "log_format": "text"}, 1)
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = "of step 1 is not finite with programs in force: they are removed, and the step changes no weight"
    assert [one for one in done.stdout.splitlines() if one.startswith("note ")] == [f"note   the loss or a gradient {told}"]


def test_wrong_steering_is_named(tiny: dict[str, Any], vectors: Path, tmp_path: Path) -> None:
    def error(**given: Any) -> str:
        return refused(tiny | given)

    assert '--steer: "evil@1" has another form' in error(steer="evil@1")
    assert "write VECTOR@LAYERS=COEFFICIENT" in error(steer="evil=5")
    assert '--cap: "evil@1=4:-1" has a low limit above the high one' in error(cap="evil@1=4:-1")
    assert '--ablate: "evil@0" names layer 0, and layers count from 1' in error(ablate="evil@0")
    assert '--cap: "evil@1=:" has another form' in error(cap="evil@1=:")
    assert '--ablate: layer 3 of "evil": the model has the layers 1 to 2' in error(ablate="evil@1-3")
    assert "--steer: good: there is no such vector" in error(steer="good@1=1")
    assert "--positions: there is no --steer" in error(positions="response")
    (tmp_path / "steer-evil-1.tti").write_text("layers[1].output *= 2\n")
    clash = {"steer": "evil@1=1", "interventions": tmp_path / "steer-evil-1.tti"}
    assert 'two programs are named "steer-evil-1"' in error(**clash)
    torch.save(torch.zeros(3, SIZE), vectors / "none.pt")
    assert '--ablate: row 2 of "none" is zero' in error(ablate="none@2")
    torch.save(torch.full((3, SIZE), torch.nan), vectors / "none.pt")
    assert '--steer: row 1 of "none" has a number that is not finite' in error(steer="none@1=1")
    (vectors / "none.pt").unlink()
    torch.save(torch.ones(5, SIZE), tmp_path / "deep.pt")
    deep = tiny | {"tensor_tracer_vectors": tmp_path / "deep.pt", "steer": "deep@1=1"}
    assert "has shape [5, 32], this model needs [3, 32]" in refused(deep)
    no_vectors = {name: value for name, value in tiny.items() if name != "tensor_tracer_vectors"}
    assert "--steer: this run has no direction vectors" in refused(no_vectors | {"steer": "evil@1=1"})


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("[]", "is not a JSON object"),
        ('{"steering_vector_path": "PATH", "layers": []}', "layers is not a list of layers"),
        ('{"steering_vector_path": "PATH", "layers": [1]}', "steering_coef is not a number"),
        ('{"steering_vector_path": "PATH", "layers": [1], "type": "push"}', 'type is "push"'),
        ('{"steering_vector_path": "PATH", "layers": [1], "coef": 1}', 'has no member "coef"'),
        ('{"steering_vector_path": "PATH", "layers": [1], "type": "cap"}', "low and high are not a range"),
        ('{"layers": [1]}', "steering_vector_path is not a file"),
        ('{"steering_vector_path": "none.pt", "layers": [1], "steering_coef": 1}', "there is no file"),
    ],
)
def test_a_wrong_configuration_is_named(
    form: str, message: str, tiny: dict[str, Any], vectors: Path, tmp_path: Path
) -> None:
    (tmp_path / "steer.json").write_text(form.replace("PATH", str(vectors / "evil.pt")))
    error = refused(tiny | {"steering_config": tmp_path / "steer.json"})
    assert "--steering-config: " in error and message in error


def test_steering_is_checked_without_a_file(tiny: dict[str, Any], vectors: Path) -> None:
    def checked(**given: Any) -> subprocess.CompletedProcess[str]:
        line = command(tiny | given)
        line[line.index("train")] = "check"
        return subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=60, check=False)

    done = checked(steer="evil@1=2")
    assert done.returncode == 0 and done.stdout.startswith("steer-evil-1: right\n"), done.stderr
    assert "layer 3" in checked(steer="evil@3=2").stderr
    assert "files: there is no program to check; give files, --steer, --ablate or --cap" in checked().stderr
