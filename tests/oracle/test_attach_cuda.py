"""Attach and models on CUDA, without a CUDA device: what is refused, what the script of the checks says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from program import REPOSITORY
from test_attach import WANTED, attach_environment, compare, train

IS_CUDA_BUILD = Path(attach_environment()["TENSOR_TRACER_BUILD"]).name == "cuda"

ON_CUDA = """
import json, torch
from types import SimpleNamespace
import tensor_tracer as tt

class Model(torch.nn.Linear):
    def parameters(self, recurse=True):
        yield SimpleNamespace(is_meta=False, is_cuda=True, device=torch.device(DEVICE))

try:
    tt.attach(Model(2, 2), port=None)
except tt.TensorTracerError as error:
    print(json.dumps([error.code, str(error)]))
else:
    print(json.dumps(["attached", ""]))
"""

IN_GRAPH = """
import torch
import tensor_tracer as tt

torch.cuda.is_available = lambda: True
torch.cuda.is_current_stream_capturing = lambda: True
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
run = tt.attach(model, port=None)
with run.step():
    model(torch.ones(1, 2)).sum().backward()
print(len(run.points()))
run.detach()
"""


def run_script(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text], env=attach_environment(), capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize(("device", "remedy"), [("cuda:0", "cmake --preset cuda"), ("xpu:0", "cpu or cuda")])
def test_a_model_on_a_device_without_kernels_is_refused(device: str, remedy: str) -> None:
    done = run_script(ON_CUDA.replace("DEVICE", repr(device)))
    assert done.returncode == 0, done.stderr
    code, text = json.loads(done.stdout)
    if IS_CUDA_BUILD and device.startswith("cuda"):
        assert code == "attached"
    else:
        assert code == "no_kernels" and device.partition(":")[0] in text and remedy in text


def test_a_cuda_graph_that_is_recorded_is_not_traced_and_said() -> None:
    done = run_script(IN_GRAPH)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "0" and "CUDA graph" in done.stderr


def test_records_have_the_bits_of_the_modules(tmp_path: Path) -> None:
    watched = train(tmp_path)
    compare(watched, WANTED["plain"])


def gpu_check(*flags: str) -> subprocess.CompletedProcess[str]:
    environment = attach_environment() | {"TT_PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    line = [str(REPOSITORY / "scripts/gpu_check.sh"), *flags]
    return subprocess.run(line, env=os.environ | environment, capture_output=True, text=True, timeout=500, check=False)


def test_without_a_device_the_checks_say_that_they_were_not_run() -> None:
    done = gpu_check()
    assert done.returncode == 77, done.stdout + done.stderr
    assert "not run" in done.stdout and "no CUDA device" in done.stdout
    assert "passed" not in done.stdout


@pytest.mark.nightly(suite="attach")
def test_the_checks_of_a_device_pass_on_the_cpu() -> None:
    done = gpu_check("--rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed, 0 failed" in done.stdout
