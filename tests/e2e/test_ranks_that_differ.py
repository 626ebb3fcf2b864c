"""Ranks on machines that hold other files, or that somebody started with other options."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hf_models import LENGTH, random_model, save
from program import Flags, command, environment, step_log, tiny_flags, write_text
from safetensors.torch import save_file
from viewer import LiveRun, Viewer, live_run

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from tensor_tracer import open_recording  # noqa: E402

HIDDEN, LAYERS = 32, 2


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    return tiny_flags(write_text(tmp_path_factory.mktemp("data") / "text.txt")) | {"train_iters": 2}


def run(flags: Flags, of_rank_1: dict[str, Any]) -> tuple[int, list[str]]:
    """Exit code, and what our two ranks print to standard error."""
    line = ["mpirun", "--oversubscribe", "-np", "1", *command(flags), ":", "-np", "1", *command({**flags, **of_rank_1})]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, [text for text in done.stderr.splitlines() if text.startswith("tensor-tracer:")]


@pytest.mark.parametrize("what", ["more text", "other text", "steps", "rate", "waiting", "nothing"])
def test_ranks_that_were_given_different_things_do_not_train(what: str, flags: Flags, tmp_path: Path) -> None:
    text = Path(flags["data_path"]).read_bytes()
    (tmp_path / "more text").write_bytes(text + b".")
    (tmp_path / "other text").write_bytes(text.swapcase())
    served = {"tensor_tracer_port": 0, "run_dir": tmp_path / "run"}
    changes, flag, differs = {
        "more text": ({"data_path": tmp_path / what}, "--data-path", f"{len(text) + 1} bytes in 1 files"),
        "other text": ({"data_path": tmp_path / what}, "--data-path", f"{len(text)} bytes in 1 files"),
        "steps": ({"train_iters": 3}, "--train-iters", "3, rank 0 has 2; give all ranks the same"),
        "rate": ({"lr": 2e-3}, "--lr", "0.002, rank 0 has 0.001; give all ranks the same"),
        "waiting": ({"tensor_tracer_wait": True}, "--tensor-tracer-wait", "true, rank 0 has false"),
        "nothing": ({"threads": 1, "run_name": "of another name"}, "", ""),
    }[what]
    code, ours = run(flags | served, changes)
    if what == "nothing":
        assert (code, ours) == (0, [])
        return
    [line] = ours
    assert code == 2
    assert line.startswith(f"tensor-tracer: {flag}: rank 1 has {differs}")


def test_what_one_rank_alone_finds_is_told_by_it(flags: Flags) -> None:
    code, ours = run(flags, {"data_path": "no/such/file"})
    assert code == 2
    assert len(ours) == 1 and re.match(r'tensor-tracer: rank 1: --data-path: "no/such/file" does not exist', ours[0])


READ_BY_RANK_0 = {
    "tensor_tracer_plan": "plan.json",
    "tensor_tracer_vectors": "vectors",
    "monitor_prompts": "prompts.txt",
    "interventions": "steer.tti",
    "intervention_files": "files",
}
PLAN = """{"entries": [{"point": "QKV", "compressor": {"kind": "tile", "tiles": TILES}},
                       {"point": "HiddenStates", "compressor": {"kind": "projection", "vectors": ["evil"]}},
                       {"point": "MLP1", "prompts": "prompts", "rows": 0}]}"""
PROGRAM = 'h = layers[1].output\nlayers[1].output = h + SCALE * vector("evil")[1] + file("a.safetensors")["b"]\n'
NUMBERS = torch.linspace(-0.1, 0.1, (LAYERS + 1) * HIDDEN).view(LAYERS + 1, HIDDEN)


def write_files(folder: Path, differs: str = "") -> Path:
    """All that rank 0 reads; with a flag's name, other content of the files of that flag."""
    (folder / "vectors").mkdir(parents=True)
    (folder / "files").mkdir()
    (folder / "plan.json").write_text(PLAN.replace("TILES", "32" if differs == "tensor_tracer_plan" else "8"))
    (folder / "steer.tti").write_text(PROGRAM.replace("SCALE", "4" if differs == "interventions" else "2"))
    (folder / "prompts.txt").write_text("one\ntwo\nthree\n" if differs == "monitor_prompts" else "one\ntwo\n")
    torch.save(NUMBERS * (3 if differs == "tensor_tracer_vectors" else 1), folder / "vectors" / "evil.pt")
    save_file({"b": NUMBERS[1] * (3 if differs == "intervention_files" else 1)}, folder / "files" / "a.safetensors")
    return folder


def in_folders(flags: Flags, *folders: Path) -> list[str]:
    """One rank in each folder."""
    parts = (["-np", "1", "-wdir", str(folder), *command(flags)] for folder in folders)
    return ["mpirun", "--oversubscribe", "--bind-to", "none", *[word for part in parts for word in (":", *part)][1:]]


Told = tuple[list[float], dict[tuple[str, int, int], np.ndarray]]


def losses_and_records(flags: Flags, folder: Path, *of_ranks: Path) -> Told:
    """Of a run to its end, which says nothing to standard error."""
    own = {**flags, **READ_BY_RANK_0, "run_dir": folder / "run", "record": folder / "kept", "log_format": "json",
           "tensor_model_parallel_size": 2, "monitor_interval": 1}  # fmt: skip
    done = subprocess.run(in_folders(own, *of_ranks), env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "tensor-tracer:" not in done.stderr
    records = {(r.point, r.step, r.layer): r.values for r in open_recording(folder / "kept" / "run.ttrec").records()}
    return [step["loss"] for step in step_log(done.stdout)], records


@pytest.fixture(scope="module")
def of_rank_0(flags: Flags, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What a run is whose ranks see the files of rank 0."""
    folder = tmp_path_factory.mktemp("alike")
    files = write_files(folder / "files")
    told = losses_and_records(flags, folder, files, files)
    assert len(told[0]) == 2 and {point for point, _, _ in told[1]} == {"QKV", "HiddenStates", "MLP1"}
    return told


@pytest.mark.parametrize("differs", [*READ_BY_RANK_0, "all missing"])
def test_a_run_has_the_files_of_rank_0(differs: str, flags: Flags, of_rank_0: Told, tmp_path: Path) -> None:
    first = write_files(tmp_path / "first")
    second = tmp_path / "second"
    if differs == "all missing":
        second.mkdir()
    else:
        write_files(second, differs)
    losses, records = losses_and_records(flags, tmp_path, first, second)
    assert losses == of_rank_0[0]
    assert records.keys() == of_rank_0[1].keys()
    for place, values in records.items():
        assert np.array_equal(values, of_rank_0[1][place]), place


@pytest.mark.parametrize("flag", READ_BY_RANK_0)
def test_what_rank_0_cannot_read_ends_all_ranks_with_one_message(flag: str, flags: Flags, tmp_path: Path) -> None:
    first, second = write_files(tmp_path / "first"), write_files(tmp_path / "second")
    gone = first / READ_BY_RANK_0[flag]
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    own = {**flags, **READ_BY_RANK_0, "run_dir": tmp_path / "run", "tensor_tracer_port": 0}
    done = subprocess.run(in_folders(own, first, second), env=environment(), capture_output=True, text=True, timeout=60, check=False)
    [line] = [line for line in done.stderr.splitlines() if line.startswith("tensor-tracer:")]
    assert done.returncode == 2
    assert f"--{flag.replace('_', '-')}" in line and "rank" not in line


@pytest.fixture
def paused(flags: Flags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LiveRun, Viewer, Path]]:
    """A run whose rank 1 sees empty folders, a viewer with the lease, and the folder of rank 0."""
    first, second = write_files(tmp_path / "first"), tmp_path / "second"
    for name in ("vectors", "files"):
        (second / name).mkdir(parents=True)
    monkeypatch.setattr("viewer.command", lambda served, _: in_folders(served, first, second))
    own = {**flags, "tensor_tracer_vectors": "vectors", "intervention_files": "files", "train_iters": 1000,
           "tensor_model_parallel_size": 2}  # fmt: skip
    (first / "vectors" / "evil.pt").unlink()
    with live_run(own, tmp_path / "run", ranks=2) as live, live.viewer() as viewer:
        viewer.request("control.claim", {"name": "oracle"})
        viewer.request("control.pause")
        torch.save(NUMBERS, first / "vectors" / "late.pt")
        yield live, viewer, first


def test_files_that_a_request_names_while_the_run_goes_on(paused: tuple[LiveRun, Viewer, Path]) -> None:
    live, viewer, folder = paused
    program = 'layers[1].output += 2 * vector("late")[1] + file("a.safetensors")["b"]'
    plan = {"entries": [{"point": "HiddenStates", "compressor": {"kind": "projection", "vectors": ["late"]}},
                        {"point": "QKV", "compressor": {"kind": "tile", "tiles": 8}}]}  # fmt: skip
    watched = {"entries": [entry | {"phases": ["eval"]} for entry in plan["entries"]]}
    answer = viewer.request("intervention.preview", {"program": program, "plan": watched})
    assert answer["records"]["on"] != answer["records"]["off"]
    assert viewer.request("plan.set", {"plan": plan})["ranks"] == 2
    assert viewer.request("intervention.apply", {"name": "late", "program": program})["ranks"] == 2
    shutil.rmtree(folder / "vectors")
    shutil.rmtree(folder / "files")
    step = viewer.request("control.step")["step"]
    viewer.wait_for(lambda: any(told["step"] == step for told in viewer.named("applied")), "what was applied")
    [applied] = next(told for told in viewer.named("applied") if told["step"] == step)["programs"]
    assert applied["failed"] == 0 and applied["positions"] > 0
    viewer.wait_for(lambda: {r.entry for r in viewer.records if r.step == step} == {0, 1}, "both entries' records")
    assert not [told for told in viewer.named("log") if told["level"] in ("warning", "error")], live.output()


# --- Weights, which each rank reads itself -------------------------------------------------------


def grow(file: Path) -> None:
    """One byte more, which no tensor uses."""
    file.write_bytes(file.read_bytes() + b"\0")


def change_header(file: Path) -> None:
    """Other metadata; the size stays, and all tensors."""
    content = file.read_bytes()
    [length] = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"]["format"] = "p" + "x" * (len(header["__metadata__"]["format"]) - 1)
    changed = json.dumps(header, separators=(",", ":")).encode().ljust(length)
    assert len(changed) == length and changed != content[8 : 8 + length]
    file.write_bytes(content[:8] + changed + content[8 + length :])


def change_block(file: Path) -> None:
    """One byte of one of the 1,024 blocks that ranks compare, in the values."""
    content = bytearray(file.read_bytes())
    at = 700 * (len(content) // 1024) + 63
    assert at > 8 + struct.unpack_from("<Q", content)[0]
    content[at] ^= 1
    file.write_bytes(content)


CHANGES: dict[str, Callable[[Path], None]] = {
    "size": grow, "header": change_header, "block": change_block, "missing": Path.unlink}  # fmt: skip


def trained_in(flags: dict[str, Any], *folders: Path) -> tuple[int, list[str], list[float]]:
    """Exit code, what our ranks print to standard error, and the losses of one rank in each folder."""
    own = {**flags, "tensor_model_parallel_size": 2, "log_format": "json"}
    done = subprocess.run(in_folders(own, *folders), env=environment(), capture_output=True, text=True, timeout=60, check=False)
    ours = [line for line in done.stderr.splitlines() if line.startswith("tensor-tracer:")]
    return done.returncode, ours, [step["loss"] for step in step_log(done.stdout)]


def assert_names(file: str, change: str, told: tuple[int, list[str], list[float]]) -> None:
    code, ours, losses = told
    assert (code, losses, len(ours)) == (2, [], 1), told
    size = r"(\d+) bytes \(hash of samples [0-9a-f]+\)"
    differs = "rank 1: cannot be read" if change == "missing" else f"rank 1: has {size}, and rank 0 has {size};"
    found = re.match(rf"tensor-tracer: (\S*/)?{re.escape(file)}: {differs}", ours[0])
    assert found, ours[0]
    if change != "missing":
        assert (found[2] == found[3]) == (change != "size"), ours[0]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In several files."""
    folder = save(random_model("llama-2", torch.float32), tmp_path_factory.mktemp("model") / "model", max_shard_size="100KB")
    assert len(list(folder.glob("*.safetensors"))) >= 2
    return folder


@pytest.fixture
def from_model(flags: Flags, model: Path, tmp_path: Path) -> tuple[dict[str, Any], Path, Path]:
    """Flags with a path that is another folder on each rank, and these two folders."""
    own = ("num_layers", "hidden_size", "num_attention_heads")
    kept = {flag: value for flag, value in flags.items() if flag not in own}
    for rank in ("first", "second"):
        shutil.copytree(model, tmp_path / rank / "model")
    more = {"hf_model": "model", "seq_length": LENGTH, "run_dir": str(tmp_path / "run")}
    return kept | more, tmp_path / "first", tmp_path / "second"


@pytest.mark.parametrize("change", CHANGES)
def test_a_rank_with_other_weights_is_named(change: str, from_model: tuple[dict[str, Any], Path, Path]) -> None:
    flags, first, second = from_model
    file = sorted((second / "model").glob("*.safetensors"))[1]
    CHANGES[change](file)
    assert_names(file.name, change, trained_in(flags, first, second))


def test_a_folder_of_rank_0_alone_decides_the_model(from_model: tuple[dict[str, Any], Path, Path]) -> None:
    """Other ranks need the weights only."""
    flags, first, second = from_model
    alike = trained_in(flags, first, first)
    assert alike[:2] == (0, []) and len(alike[2]) == 2
    for file in (second / "model").glob("*.json"):
        file.unlink()
    assert trained_in(flags, first, second) == alike


@pytest.fixture(scope="module")
def saved(flags: Flags, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a run of two ranks, after steps 1 and 2."""
    folder = tmp_path_factory.mktemp("saved")
    own = dict(flags) | {"save": str(folder / "saved"), "save_interval": 1, "run_dir": str(folder / "run")}
    code, ours, losses = trained_in(own, folder, folder)
    assert (code, ours, len(losses)) == (0, [], 2)
    return folder / "saved"


@pytest.fixture
def from_checkpoint(flags: Flags, saved: Path, tmp_path: Path) -> tuple[dict[str, Any], Path, Path]:
    for rank in ("first", "second"):
        shutil.copytree(saved, tmp_path / rank / "saved")
    more = {"load": "saved", "train_iters": 4, "run_dir": str(tmp_path / "run")}
    return dict(flags) | more, tmp_path / "first", tmp_path / "second"


@pytest.mark.parametrize("kind", ["model", "optimizer"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_rank_with_another_checkpoint_is_named(
    change: str, kind: str, from_checkpoint: tuple[dict[str, Any], Path, Path]
) -> None:
    """Rank 0 alone compares checksums, so the damage is on rank 1's machine only."""
    flags, first, second = from_checkpoint
    file = second / "saved" / "step_00000002" / f"{kind}-00001-0.safetensors"
    CHANGES[change](file)
    assert_names(file.name, change, trained_in(flags, first, second))


def test_all_ranks_load_the_checkpoint_of_rank_0(from_checkpoint: tuple[dict[str, Any], Path, Path]) -> None:
    """Although rank 1 sees a later one."""
    flags, first, second = from_checkpoint
    shutil.rmtree(first / "saved" / "step_00000002")
    alike = trained_in(flags, first, first)
    assert alike[:2] == (0, []) and len(alike[2]) == 3
    assert trained_in(flags, first, second) == alike
