"""`vector info`, `compare` and `merge`, and runs that take vectors from one file, against torch, NumPy and safetensors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from program import refused as refused_run
from program import train
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from test_convert import refused, run
from test_tracing_input import LAYERS, HIDDEN, NotATensor, refusal

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def rows(seed: int, dtype: torch.dtype = torch.float32, count: int = LAYERS + 1) -> torch.Tensor:
    return torch.randn(count, HIDDEN, generator=torch.Generator().manual_seed(seed)).to(dtype)


def answer(*words: object) -> Any:
    done = run("vector", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    torch.save(rows(1), folder / "evil.pt")
    np.save(folder / "kind.npy", rows(2).numpy())
    save_file({"any name": rows(3, torch.bfloat16)}, folder / "vain.safetensors")
    save_file({"a": rows(4), "b": rows(5, torch.float64)}, folder / "two.safetensors", {"format": "pt"})
    return folder


def test_info_is_what_torch_reads(files: Path) -> None:
    told = answer("info", *(files / name for name in ("evil.pt", "kind.npy", "vain.safetensors", "two.safetensors")))
    expected = [rows(1), rows(2), rows(3, torch.bfloat16), rows(4), rows(5, torch.float64)]
    assert [one["name"] for one in told] == ["evil", "kind", "vain", "a", "b"]
    assert [one["vector"].split("/")[-1] for one in told[2:]] == ["vain.safetensors", "two.safetensors:a", "two.safetensors:b"]
    for one, tensor in zip(told, expected, strict=True):
        assert one["shape"] == list(tensor.shape) and f"torch.{one['dtype']}" == str(tensor.dtype)
        assert one["norms"] == pytest.approx(tensor.double().norm(dim=-1).tolist(), rel=1e-12)
        assert one["provenance"] is None
    text = run("vector", "info", files / "two.safetensors").stdout
    assert text.count("does not say how the vector was made") == 2 and f"[{LAYERS + 1},{HIDDEN}] float64" in text


def test_cosines_are_those_of_torch(files: Path, tmp_path: Path) -> None:
    opposite = rows(1) * -3
    opposite[1] = 0
    torch.save(opposite, tmp_path / "opposite.pt")
    told = answer("compare", files / "evil.pt", files / "two.safetensors", tmp_path / "opposite.pt")
    tensors = [rows(1), rows(4), rows(5, torch.float64), opposite]
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    assert [[name.split("/")[-1] for name in one["vectors"]] for one in told][2] == ["evil.pt", "opposite.pt"]
    for one, (i, j) in zip(told, pairs, strict=True):
        expected = torch.cosine_similarity(tensors[i].double(), tensors[j].double(), dim=-1).tolist()
        for row, (found, wanted) in enumerate(zip(one["cosines"], expected, strict=True)):
            assert found is None if 3 in (i, j) and row == 1 else found == pytest.approx(wanted, abs=1e-12)
    text = run("vector", "compare", files / "evil.pt", tmp_path / "opposite.pt").stdout.splitlines()
    assert [line.split() for line in text[1:]] == [["row", "1"], ["0", "-1.0000"], ["1", "-"], ["2", "-1.0000"]]


def test_merged_vectors_are_those_of_the_files(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "traits.safetensors"
    words = ("merge", files / "evil.pt", f"modest={files / 'vain.safetensors'}", files / "two.safetensors", "--out", out)
    done = run("vector", *words)
    assert done.returncode == 0 and "4 vectors" in done.stdout, done.stderr
    expected = {"evil": rows(1), "modest": rows(3, torch.bfloat16), "a": rows(4), "b": rows(5, torch.float64)}
    found = load_file(out)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in expected.items())
    assert "exists; --force replaces it" in refused(2, "vector", *words)
    assert run("vector", *words, "--force").returncode == 0
    assert [path.name for path in out.parent.iterdir()] == ["traits.safetensors"]


def test_provenance_goes_along(files: Path, tmp_path: Path) -> None:
    """Of a file with one vector by the new name; of another program's metadata nothing is said."""
    about = {"tensor_tracer.vectors": json.dumps({"x": {"layer_base": 0, "deep": {"a": [1]}}})}
    save_file({"x": rows(6)}, tmp_path / "known.safetensors", about)
    save_file({"x": rows(6)}, tmp_path / "odd.safetensors", {"tensor_tracer.vectors": "[" * 100_000})
    out = tmp_path / "out.safetensors"
    known = tmp_path / "known.safetensors"
    assert run("vector", "merge", f"new={known}", tmp_path / "odd.safetensors", "--out", out).returncode == 0
    assert [one["provenance"] for one in answer("info", out)] == [{"layer_base": 0, "deep": {"a": [1]}}, None]
    with safe_open(out, "pt") as file:
        assert json.loads(file.metadata()["tensor_tracer.vectors"])["new"]["layer_base"] == 0
    assert "layer_base       0" in run("vector", "info", known).stdout


def test_a_run_takes_its_vectors_from_one_file(files: Path, flags, tmp_path: Path) -> None:
    """With the same losses as from a folder of files."""
    out, folder = tmp_path / "traits.safetensors", tmp_path / "folder"
    folder.mkdir()
    shutil.copy(files / "evil.pt", folder)
    shutil.copy(files / "kind.npy", folder)
    assert run("vector", "merge", files / "kind.npy", files / "evil.pt", "--out", out).returncode == 0
    (tmp_path / "add.tti").write_text('layers[1].output += vector("evil")[1] - vector("kind")[2]\n')
    both = flags | {"interventions": str(tmp_path / "add.tti")}
    losses = [train(both | {"tensor_tracer_vectors": str(path)}, tmp_path / path.stem / "run").losses() for path in (out, folder)]
    assert losses[0] == losses[1] != train(flags, tmp_path / "plain").losses()
    page = flags | {"tensor_tracer_port": 0}
    (tmp_path / "typo.tti").write_text('layers[1].output += vector("evli")[1]\n')
    assert "did you mean evil?" in refused_run(page | {"tensor_tracer_vectors": str(out), "interventions": str(tmp_path / "typo.tti")})
    (tmp_path / "cut.safetensors").write_bytes(out.read_bytes()[:20])
    assert "cut.safetensors: it is not a safetensors file" in refusal(page | {"tensor_tracer_vectors": str(tmp_path / "cut.safetensors")})


def test_wrong_words_are_refused(files: Path, tmp_path: Path) -> None:
    torch.save(rows(1, count=LAYERS), tmp_path / "short.pt")
    torch.save(torch.zeros(3), tmp_path / "flat.pt")
    torch.save(NotATensor(), tmp_path / "code.pt")
    torch.save({"a": rows(1)}, tmp_path / "dict.pt")
    save_file({}, tmp_path / "empty.safetensors")
    (tmp_path / "text.txt").write_text("a")
    evil, out = files / "evil.pt", tmp_path / "out.safetensors"
    for words, message in [
        (("info", tmp_path / "none.pt"), "none.pt: "),
        (("info", tmp_path / "text.txt"), "is of no known format"),
        (("info", tmp_path / "flat.pt"), 'flat.pt: "flat" has the shape [3]'),
        (("info", tmp_path / "code.pt"), "it is not a tensor that torch.save wrote"),
        (("info", tmp_path / "dict.pt"), "it holds a dictionary, not a tensor"),
        (("info", tmp_path / "empty.safetensors"), "it holds no tensor"),
        (("compare", evil), "there is one vector; give two or more"),
        (("compare", evil, tmp_path / "short.pt"), f"has the shape [2, 32], and {evil} has [3, 32]"),
        (("merge", evil, tmp_path / "short.pt", "--out", out), f"has the shape [2, 32], and {evil} has [3, 32]"),
        (("merge", evil, "--out", tmp_path / "out.pt"), "give a name that ends with .safetensors"),
        (("merge", evil, evil, "--out", out), f'is named "evil", as is {evil}'),
        (("merge", f"x={files / 'two.safetensors'}", "--out", out), 'leave "x=" out'),
        (("merge", f"__metadata__={evil}", "--out", out), "cannot hold"),
        (("forget", evil), 'unknown command "vector forget"'),
    ]:
        assert message in refused(2, "vector", *words), words
    assert "vector info FILE" in run("vector").stdout and not out.exists()
