"""The ready-made programs against the demo's model, and `tensor-tracer check` and `--interventions`
on the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from program import REPOSITORY, binary, command, environment
from ready_made import FOLDER
from safetensors.torch import save_file

PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.tti"))
WRONG = "# a slip\nh = layers[1].output\nlayers[1].output = h.maen(dim=-1)\n"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A folder with the programs, demo.json, and the vectors and the file that programs name."""
    folder = tmp_path_factory.mktemp("demo")
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    text = (REPOSITORY / "configs/runs/demo.json").read_text()
    config = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    save_file({"resid": torch.ones(config["hidden_size"])}, folder / "clean.safetensors")
    (folder / "vectors").mkdir()
    torch.save(torch.ones(config["num_layers"] + 1, config["hidden_size"]), folder / "vectors" / "evil.pt")
    (folder / "probes.txt").write_text("def f(x):\n")
    config |= {
        "tensor_tracer_vectors": str(folder / "vectors"), "data_path": str(data),
        "monitor_prompts": str(folder / "probes.txt"), "intervention_files": str(folder),
    }  # fmt: skip
    (folder / "demo.json").write_text(json.dumps(config))
    return folder


def check(program: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    line = [str(binary()), "check", str(program), "--config", str(folder / "demo.json")]
    return subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=60, check=False)


def head(name: str) -> list[str]:
    """The comment at the top, without its marks."""
    lines = (FOLDER / f"{name}.tti").read_text().split("\n\n")[0].splitlines()
    assert all(line.startswith("#") for line in lines)
    return [line.removeprefix("#").strip() for line in lines]


@pytest.mark.parametrize("name", PROGRAMS)
def test_ready_made_programs_fit_the_demo(name: str, demo: Path) -> None:
    done = check(demo / f"{name}.tti", demo)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_ready_made_programs_say_what_they_are(name: str) -> None:
    """A title, an empty line, what it does, and what to edit; and a row of the table."""
    title, empty, *rest = head(name)
    assert title and not title.endswith(".") and empty == "" and rest
    assert "Edit: " in " ".join(rest)
    assert f"`{name}`" in (FOLDER / "README.md").read_text()
    assert all(len(line) <= 120 for line in (FOLDER / f"{name}.tti").read_text().splitlines())


def blocks(page: str) -> list[str]:
    """What a page of the repository tells to type: fenced as sh, or indented."""
    text = (REPOSITORY / page).read_text()
    fenced = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    return fenced + [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in indented]


@pytest.mark.parametrize("page", ["README.md", "docs/intervention_graph.md", "configs/interventions/README.md"])
def test_the_commands_of_the_pages(page: str, data: Path, tmp_path: Path) -> None:
    """As typed in the repository's folder, but for a short end of the training."""
    [typed] = [block for block in blocks(page) if "tensor-tracer check" in block]
    if "cat > steer.tti" not in typed and "steer.tti" in typed:
        [program] = [block for block in blocks(page) if block.startswith("# Add a persona vector")]
        (tmp_path / "steer.tti").write_text(program)
    (tmp_path / "configs").symlink_to(REPOSITORY / "configs")
    (tmp_path / "my_texts").mkdir()
    shutil.copy(data, tmp_path / "my_texts/text.txt")
    (tmp_path / "vectors").mkdir()
    torch.save(torch.ones(5, 256), tmp_path / "vectors" / "evil.pt")
    short = " --train-iters 2 --eval-iters 1 --seq-length 64 --hidden-size 256 --run-dir run\n"
    env = environment() | {"PATH": f"{binary().parent}:{os.environ['PATH']}", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    done = subprocess.run(["bash", "-e", "-c", typed.rstrip("\n") + short], cwd=tmp_path, env=env, capture_output=True,
                          text=True, timeout=120, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "step      2/2  loss" in done.stdout, done.stdout


def test_check_shows_where_a_program_is_wrong(demo: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.tti").write_text(WRONG)
    done = check(tmp_path / "wrong.tti", demo)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    for part in ("wrong.tti", "line 3", "did you mean", "^~~~"):
        assert part in output, output


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_does_not_start_with_a_wrong_program(ranks: int, flags: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "wrong.tti").write_text(WRONG)
    changes = {"tensor_model_parallel_size": ranks, "run_dir": str(tmp_path / "run"),
               "interventions": str(tmp_path / "wrong.tti")}  # fmt: skip
    done = subprocess.run(command(flags | changes, ranks), env=environment(), capture_output=True,
                          text=True, timeout=60, check=False)  # fmt: skip
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "line 3" in output and "^~~~" in output, output
    assert '"loss"' not in output and "step 1 " not in output
