"""What torch.distributed.checkpoint writes: safetensors files are read as weights, .distcp files are refused."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from forked_ranks import run_ranks
from hf_models import random_model, save
from program import Flags, binary, environment, refused, train
from safetensors import safe_open
from safetensors.torch import load_file
from test_convert import convert, inspect
from test_convert import refused as refused_by
from test_hf_models import STILL, assert_same_bits, flags_for
from torch_writers import FORMS, RANKS, write_all
from transformers import PreTrainedModel

NAMES = ["gpt2", "qwen2"]  # matrices that are stored transposed; tied weights and biases
Written = tuple[PreTrainedModel, Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Written]:
    """The model, and a folder with one folder of each form; each has the config.json of the model."""
    done: dict[str, Written] = {}

    def write(name: str) -> Written:
        if name not in done:
            folder, model = tmp_path_factory.mktemp(name), random_model(name, torch.float32)
            save(model, folder / "plain")
            weights = load_file(folder / "plain" / "model.safetensors")  # without copies of tied ones
            run_ranks(write_all, RANKS, folder / "ranks", weights, folder, env={})
            for form in FORMS:
                shutil.copy(folder / "plain" / "config.json", folder / form)
            done[name] = model, folder
        return done[name]

    return write


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_what_the_writer_writes_is_a_model(
    name: str, form: str, written: Callable[[str], Written], data: Path, tmp_path: Path
) -> None:
    """A run of two ranks that changes no bit, `convert` and `inspect`."""
    model, folder = written(name)
    train(flags_for(data, folder / form, save_hf=tmp_path / "out", tensor_model_parallel_size=2, **STILL), tmp_path / "run", 2)
    assert_same_bits(tmp_path / "out", model)
    convert(folder / form, tmp_path / "again")
    assert_same_bits(tmp_path / "again", model)
    facts, plain = inspect(folder / form), inspect(folder / "plain")
    assert facts["parameters"] == plain["parameters"] and facts["family"] == plain["family"]
    assert [file["name"] for file in facts["files"]] == [path.name for path in shards(folder / form)]


def test_the_shards_are_parts(written: Callable[[str], Written]) -> None:
    """Otherwise the test above would say nothing about them."""
    _, folder = written("gpt2")
    assert not (folder / "shards" / "model.safetensors.index.json").exists()
    assert len(shards(folder / "shards")) == RANKS
    assert len(shards(folder / "shards of two files")) == 2 * RANKS
    cut = set()
    for path in shards(folder / "shards"):
        with safe_open(path, "pt") as file:
            info = json.loads(file.metadata()["DCP_SHARDING_INFO"])
        cut |= {at for one in info.values() for at, offset in enumerate(one["saved_offsets"]) if offset > 0}
    assert cut == {0, 1}, "rows and columns are cut"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lost", range(RANKS))
def test_a_shard_that_is_missing(
    lost: int, name: str, written: Callable[[str], Written], data: Path, tmp_path: Path
) -> None:
    """No index says how many there were, so the last one is found by the shapes of config.json."""
    folder = Path(shutil.copytree(written(name)[1] / "shards", tmp_path / "model"))
    shards(folder)[lost].unlink()
    wanted = r"parts of \S+ are missing|has the shape .*, and its configuration needs|has no tensor"
    assert re.search(wanted, refused(flags_for(data, folder, run_dir=tmp_path / "run")))
    done = subprocess.run([str(binary()), "convert", str(folder), str(tmp_path / "out")], capture_output=True, text=True)
    assert done.returncode != 0 and re.search(wanted, done.stderr), done
    assert not (tmp_path / "out").exists()


def test_weights_alone_are_refused_by_name(written: Callable[[str], Written], data: Path, flags: Flags, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(written("gpt2")[1] / "shards", tmp_path / "model"))
    (folder / "config.json").unlink()
    error = f"{folder}/config.json: is missing; copy it from the folder of the model"
    assert error in refused(flags_for(data, folder, run_dir=tmp_path / "run"))
    for words in (["inspect", folder], ["convert", folder, tmp_path / "out"]):
        assert "config.json" in refused_by(2, *words)
    told = refused(flags | {"load": str(folder), "run_dir": str(tmp_path / "run")})
    assert f'--load: there is no checkpoint in "{folder}"' in told and "--hf-model" in told


@pytest.fixture
def distcp(tmp_path: Path) -> Written:
    model = random_model("qwen2", torch.float32)
    dcp.save(model.state_dict(), checkpoint_id=tmp_path / "saved", no_dist=True)
    assert list((tmp_path / "saved").glob("*.distcp"))
    return model, tmp_path / "saved"


def errors_about(folder: Path, flags: Flags, data: Path, tmp_path: Path) -> dict[str, str]:
    own: dict[str, Any] = {"run_dir": tmp_path / "run"}
    both = refused(dict(flags) | own | {"load": folder, "tensor_model_parallel_size": 2}, 2).splitlines(keepends=True)
    return {
        "--load": refused(dict(flags) | own | {"load": folder}),
        "--load on two ranks": "".join(line for line in both if line.startswith("tensor-tracer:")),
        "--hf-model": refused(flags_for(data, folder, **own)),
        "inspect": refused_by(2, "inspect", folder),
        "convert": refused_by(2, "convert", folder, tmp_path / "out"),
        "generate": refused_by(2, "generate", "--hf-model", folder, "--prompts", data),
    }


@pytest.mark.parametrize("has_config", [False, True])
def test_distcp_is_refused_with_the_command_that_converts_it(
    has_config: bool, distcp: Written, flags: Flags, data: Path, tmp_path: Path
) -> None:
    """The same message everywhere; then the command is run as it is printed."""
    model, folder = distcp
    save(model, tmp_path / "plain")
    if has_config:
        shutil.copy(tmp_path / "plain" / "config.json", folder)
    errors = errors_about(folder, flags, data, tmp_path)
    assert set(errors.values()) == {errors["inspect"]}, errors
    found = re.search(r"convert: (python .*), then in Python (safetensors.*\)), and copy", errors["inspect"])
    assert found is not None, errors["inspect"]
    line = [sys.executable, *shlex.split(found[1])[1:]]
    subprocess.run(line, cwd=tmp_path, env=environment(), check=True, capture_output=True)
    new = tmp_path / "new"
    new.mkdir()
    code = found[2].replace("weights.pt", f"{tmp_path}/weights.pt").replace("NEW_FOLDER", str(new))
    eval(code, {"safetensors": safetensors, "torch": torch})  # the line of the message
    shutil.copy(tmp_path / "plain" / "config.json", new)
    convert(new, tmp_path / "out")
    assert_same_bits(tmp_path / "out", model)


def test_safetensors_beside_distcp_are_read(distcp: Written, tmp_path: Path) -> None:
    model, folder = distcp
    save(model, folder)
    convert(folder, tmp_path / "out")
    assert_same_bits(tmp_path / "out", model)
