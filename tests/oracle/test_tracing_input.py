"""Wrong prompts and vectors are refused before any rank trains; new files are found while it runs."""

from __future__ import annotations

import io
import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from program import binary, command, environment, train
from safetensors.torch import save_file
from viewer import RequestError, live_run

HIDDEN, LAYERS = 32, 2


class NotATensor:
    """Unpickling it would run code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("executed",)


def refusal(flags: dict[str, Any], ranks: int = 1) -> str:
    """What a run that must not begin says; exit code 2."""
    done = subprocess.run(
        command(flags, ranks), env=environment(), capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert "executed" not in done.stdout
    [line] = [line for line in done.stderr.splitlines() if line.startswith("tensor-tracer:")]
    return line


PROMPTS = [
    ("empty.txt", b"\n\n", "holds no prompt"),
    ("long.txt", b"short\n" + b"x" * 33, "line 2 of"),
    ("latin1.txt", b"caf\xe9", "is not UTF-8"),
    ("broken.jsonl", b'{"prompt": "a"}\n{"prompt": 3}', "line 2 of"),
    ("chat.jsonl", b'{"messages": []}', "has messages of a chat; render them with the chat template"),
    ("ids.jsonl", b'{"prompt_token_ids": [1]}', 'has no text under "prompt"'),
    ("many.txt", b"x\n" * 257, "holds 257 prompts, more than 256"),
    ("missing.txt", None, "cannot be read"),
]


@pytest.mark.parametrize(("name", "content", "message"), PROMPTS, ids=[p[0] for p in PROMPTS])
def test_wrong_prompts(name: str, content: bytes | None, message: str, flags, tmp_path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    line = refusal(flags | {"tensor_tracer_port": 0, "monitor_prompts": str(path)})
    assert message in line
    assert "--monitor-prompts" in line


def save(path: Path, value: Any) -> None:
    if isinstance(value, bytes):
        path.write_bytes(value)
    elif path.suffix == ".npy":
        np.save(path, value)
    elif path.suffix == ".pt":
        torch.save(value, path)
    else:
        save_file(value, path)


LIES = b"\x40" + bytes(7)
LIES += b'{"a": {"dtype": "F32", "shape": [9, 9], "data_offsets": [0, 4]}}'.ljust(64) + bytes(4)
NPY_HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2, 3), }\n"
NPY_WITH_BLANK = b"\x93NUMPY\x01\0" + len(NPY_HEADER).to_bytes(2, "little") + NPY_HEADER + bytes(4 * 36)
FLOATS = torch.zeros(LAYERS + 1, HIDDEN)


def archive(pickle: bytes, storage: bytes = b"", compression: int = zipfile.ZIP_STORED) -> bytes:
    """A .pt file of these records."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression, compresslevel=1) as file:
        file.writestr("x/data.pkl", pickle)
        file.writestr("x/data/0", storage)
        file.writestr("x/version", "3\n")
    return packed.getvalue()


def old_format(value: Any) -> bytes:
    saved = io.BytesIO()
    torch.save(value, saved, _use_new_zipfile_serialization=False)
    return saved.getvalue()


DEEP_LISTS = archive(b"\x80\x02" + b"]" * 500_000 + b"a" * 499_999 + b".")
DEEP_TUPLES = archive(b"\x80\x02)" + b"\x85" * 500_000 + b".")
BOMB = archive(b"\x80\x02.", bytes(300 << 20), zipfile.ZIP_DEFLATED)
VECTORS = [
    ("rows.pt", torch.zeros(LAYERS + 2, HIDDEN), "has shape [4, 32], this model needs [3, 32]"),
    ("columns.npy", np.zeros((LAYERS, HIDDEN + 1), np.float32), "has shape [2, 33]"),
    ("flat.npy", np.zeros(HIDDEN, np.float32), "has shape [32]"),
    ("whole.npy", np.zeros((LAYERS, HIDDEN), np.int64), "it is of dtype <i8"),
    ("fortran.npy", np.asfortranarray(np.zeros((LAYERS, HIDDEN), np.float32)), "in Fortran order"),
    ("dict.pt", {"vector": FLOATS}, "not a tensor"),
    ("code.pt", NotATensor(), "it is not a tensor that torch.save wrote"),
    ("deep.pt", DEEP_LISTS, "it holds a list, not a tensor"),
    ("tuples.pt", DEEP_TUPLES, "it is not a tensor that torch.save wrote"),
    ("bomb.pt", BOMB, "it holds 314572805 bytes, more than 256 MiB"),
    ("deflated.pt", archive(b"\x80\x02.", bytes(100), zipfile.ZIP_DEFLATED), "its records are compressed"),
    ("parameter.pt", torch.nn.Parameter(FLOATS), "it is a torch.nn.Parameter, not a tensor"),
    ("whole.pt", FLOATS.long(), "it holds a LongStorage; save one tensor of float numbers"),
    ("complex.pt", FLOATS.to(torch.complex64), "it holds a ComplexFloatStorage"),
    ("old.pt", old_format(FLOATS), "it has the format of torch.save before PyTorch 1.6"),
    ("blank.npy", NPY_WITH_BLANK, "its header cannot be read"),
    ("header.npy", b"\x93NUMPY\x02\0" + (10**6).to_bytes(4, "little") + b"{'descr': '" + b"<" * 10**6, "header is longer than"),
    ("two.safetensors", {"a": FLOATS, "b": FLOATS + 1}, "it holds several tensors"),
    ("cut.safetensors", b"\x10\x00\x00\x00\x00\x00\x00\x00{}", "it is not a safetensors file"),
    ("lies.safetensors", LIES, "its shape does not fit its size"),
]


@pytest.mark.parametrize(("name", "value", "message"), VECTORS, ids=[v[0] for v in VECTORS])
def test_wrong_vectors(name: str, value: Any, message: str, flags, tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    folder.mkdir()
    save(folder / name, value)
    line = refusal(flags | {"tensor_tracer_port": 0, "tensor_tracer_vectors": str(folder)})
    assert message in line
    assert name in line


def test_a_vector_is_the_same_in_every_format(flags, tmp_path: Path) -> None:
    """Also as a view, of any float dtype; and vectors that nothing names are not looked at."""
    rows = (torch.arange((LAYERS + 1) * HIDDEN) % 17 - 8).view(LAYERS + 1, HIDDEN) / 64
    (tmp_path / "add.tti").write_text('layers[1].output += vector("v")[1]\n')
    losses = []
    for name, value in {
        "v.npy": rows.numpy(), "v.safetensors": {"v": rows.half()}, "v.pt": rows, "view/v.pt": rows.t().contiguous().t(),
        "part/v.pt": torch.cat([rows, rows]).double()[LAYERS + 1 :], "bf16/v.pt": rows.bfloat16().requires_grad_(),
    }.items():  # fmt: skip
        path = tmp_path / name.replace(".", "_") / Path(name).name
        path.parent.mkdir(parents=True)
        save(path, value)
        (path.parent / "broken.pt").write_bytes(b"broken")
        changes = {"interventions": str(tmp_path / "add.tti"), "tensor_tracer_vectors": str(path.parent)}
        losses.append(train(flags | changes, path.parent).losses())
    assert losses == [losses[0]] * 6 and losses[0] != train(flags, tmp_path / "without").losses()


ODD_FILES = {
    "plan is a folder": ("tensor_tracer_plan", "folder", "it is not a regular file"),
    "plan is a pipe": ("tensor_tracer_plan", "pipe", "it is not a regular file"),
    "program is a pipe": ("interventions", "pipe", "it is not a regular file"),
    "prompts are a pipe": ("monitor_prompts", "pipe", "it is not a regular file"),
    "text is a folder of the kernel": ("data_path", "/proc/self", ""),
    "text is a pipe": ("data_path", "pipe", "cannot be read"),
    "text is too long": ("data_path", "sparse", "make 34359738367 sequences of 32 tokens, more than 134217728"),
}


@pytest.mark.parametrize("case", ODD_FILES)
def test_what_is_no_file_of_its_kind_is_refused_at_once(case: str, flags, tmp_path: Path) -> None:
    flag, name, message = ODD_FILES[case]
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    line = refusal(flags | {"tensor_tracer_port": 0, flag: str(tmp_path / name)})
    assert f"--{flag.replace('_', '-')}" in line and message in line


def test_tracing_flags_are_read_with_and_without_a_port(flags, tmp_path: Path) -> None:
    for page in ({}, {"tensor_tracer_port": 0}):
        assert "--monitor-prompts" in refusal(flags | page | {"monitor_prompts": str(tmp_path)})
        assert "is not a folder or a file" in refusal(flags | page | {"tensor_tracer_vectors": str(tmp_path / "none")})


def test_what_is_recorded_is_a_trace_point(flags, tmp_path: Path) -> None:
    """A slip would record nothing of the run, and nobody would notice."""
    record = {"record": str(tmp_path / "kept"), "record_points": "HiddenState"}
    line = refusal(flags | record)
    assert 'no trace point "HiddenState"' in line and "did you mean HiddenStates?" in line
    assert not (tmp_path / "kept").exists()


def test_a_vector_that_comes_later_or_changes_is_read(flags, tmp_path: Path) -> None:
    """A plan names what lies in the folder now; never a path."""
    folder = tmp_path / "vectors"
    folder.mkdir()
    rows = torch.eye(HIDDEN)[: LAYERS + 1]
    torch.save(rows, tmp_path / "outside.pt")
    changes = {"tensor_tracer_vectors": str(folder), "train_iters": 1000}

    def plan(name: str) -> dict[str, Any]:
        projection = {"kind": "projection", "vectors": [name]}
        columns = {"point": "HiddenStates", "layers": "2", "compressor": {"kind": "none"}}
        return {"plan": {"entries": [columns, columns | {"compressor": projection}]}}

    with live_run(flags | changes, tmp_path / "run", ranks=2) as run, run.viewer() as viewer:
        viewer.request("control.claim", {"name": "oracle"})
        viewer.request("control.pause")
        for name in ("late", "../outside", "outside", str(tmp_path / "outside.pt")):
            with pytest.raises(RequestError, match="there is no such vector"):
                viewer.request("plan.set", plan(name))
        torch.save(rows, folder / "late.pt")
        for column in (2, 5):
            torch.save(torch.eye(HIDDEN)[[0, 1, column]], folder / "late.pt")
            viewer.request("plan.set", plan("late"))
            step = viewer.request("control.step")["step"]
            viewer.wait_for(lambda: len(of_step(viewer, step)) == 2, "both records")
            found = of_step(viewer, step)
            np.testing.assert_allclose(
                found[1].values[..., 0], found[0].values[..., column], rtol=1e-6
            )
        (folder / "late.pt").write_bytes(b"broken")
        with pytest.raises(RequestError, match="it is not an archive that torch.save wrote"):
            viewer.request("plan.set", plan("late"))
        for hostile, told in ((DEEP_LISTS, "it holds a list"), (BOMB, "more than 256 MiB")):
            (folder / "late.pt").write_bytes(hostile)
            for method in ("plan.check", "plan.set"):
                with pytest.raises(RequestError, match=told):
                    viewer.request(method, plan("late"))
        viewer.request("control.step")


def of_step(viewer: Any, step: int) -> dict[int, Any]:
    return {record.entry: record for record in viewer.records if record.step == step}


def test_points_are_listed_for_a_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"num_layers": 3, "swiglu": True, "ffn_hidden_size": 44}))
    line = [str(binary()), "points", "--config", str(config), "--tensor-model-parallel-size", "2"]
    table = subprocess.check_output(line, text=True, timeout=60)
    points = {p["name"]: p for p in json.loads(subprocess.check_output([*line, "--json"]))}
    assert points["MLP1"]["features"] == 88
    assert points["MLP1"]["last_layer"] == 3
    assert points["RawAttentionScore"]["dims"] == ["batch", "heads", "sequence", "keys"]
    assert "gradient_placement" not in points["InputTokens"]
    assert all(name in table for name in points)
    assert points["MLP1"]["shape"] == [8, 256, 88] and points["MLP1"]["dtype"] == "float32"
    assert points["InputTokens"]["dtype"] == "int64" and points["Logits"]["path"] == "logits"
    assert points["RawAttentionScore"]["shape"] == [8, 4, 256, 256]
    assert points["QKV"]["path"] == "layers[n].attention.qkv" and "layers[n].attention.qkv" in table
    assert points["QKV"]["placement"]["data"] == "shard(0)"
    assert points["InputTokens"]["placement"]["data"] == "shard(1)"
    halves = json.loads(subprocess.check_output([*line, "--json", "--bf16"]))
    assert json.loads(subprocess.check_output([*line, "--json", "--params-dtype", "bfloat16"])) == halves
    full = {"RawAttentionScore", *(f"attention.{name}" for name in ("logits", "entropy", "largest_score", "first_token_share")),
            *(f"{block}.{name}" for block in ("attention", "mlp") for name in ("contribution", "contribution_ratio"))}  # fmt: skip
    kinds = {"InputTokens": "int64", "Updates": "float64"} | dict.fromkeys(full, "float32")
    assert {p["name"]: p["dtype"] for p in halves} == {name: kinds.get(name, "bfloat16") for name in points}


def test_a_vectors_first_row_is_what_the_plan_says(flags, tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    folder.mkdir()
    np.save(folder / "all.npy", np.ones((LAYERS + 1, HIDDEN), np.float32))
    np.save(folder / "layers.npy", np.ones((LAYERS, HIDDEN), np.float32))
    with live_run(flags | {"tensor_tracer_vectors": str(folder)}, tmp_path / "run") as run:
        with run.viewer() as viewer:
            for name, base in (("all", 0), ("layers", 1)):
                for said in (0, 1, 2, "0", True):
                    projection = {"kind": "projection", "vectors": [name], "layer_base": said}
                    plan = {"entries": [{"point": "HiddenStates", "compressor": projection}]}
                    if said is base:
                        viewer.request("plan.check", {"plan": plan})
                        continue
                    told = f'"{name}" begins with' if said in (0, 1) and said is not True else "must be 0 or 1"
                    with pytest.raises(RequestError, match=told) as refused:
                        viewer.request("plan.check", {"plan": plan})
                    assert refused.value.code == "invalid_argument"
