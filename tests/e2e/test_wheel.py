"""The wheel of python/torch, where there is only Python, torch, and what pip installs with the two packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from hub_harness import REPOSITORY
from packaging.requirements import Requirement
from tensor_tracer import open_recording
from test_program import processes_naming, wait_until

PAGE = REPOSITORY / "frontend/dist"
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
OF_GLIBC = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
OF_TORCH = {"libtorch_cpu.so", "libc10.so", "libstdc++.so.6", "libgcc_s.so.1"}
# Python's own module sqlite3 loads libsqlite3.so.0: of SQLite, only the files of a developer are hidden.
HIDDEN = [f"lib{name}*" for name in ("boost_", "SQLiteCpp", "spdlog", "fmt", "mpi", "gloo")] + ["libsqlite3.a"]
# The flags of CI's build, so that the compiler cache has the objects.
AS_IN_CI = ("--config-settings=cmake.define.TT_WARNINGS_AS_ERRORS=ON",)

TRAINING = """
import json, sys, urllib.request
from pathlib import Path
import tensor_tracer, tensor_tracer_torch, torch

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8))
run = tensor_tracer.attach(model, port=0, run_dir="run")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(3):
    with run.step():
        loss = model(torch.ones(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    losses.append(loss.item())
    run.log(loss=losses[-1])
for name in sys.argv[1:]:
    target = Path("page", name)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(urllib.request.urlopen(run.addresses["url"] + name.removesuffix("index.html")).read())
try:
    run.intervene("nonsense(")
except tensor_tracer.TensorTracerError as error:
    code = error.code
run.detach()
files = [one.__file__ for one in (tensor_tracer, tensor_tracer_torch, torch)]
print(json.dumps({"built_for": tensor_tracer_torch.BUILT_FOR, "losses": losses, "code": code, "files": files}))
"""
REFUSED = """
import tensor_tracer, torch
try:
    tensor_tracer.attach(torch.nn.Linear(2, 2), port=0, run_dir="run")
except tensor_tracer.TensorTracerError as error:
    print(error.code, error.message, error.remedy)
"""
COMMAND = "pip install --no-build-isolation ./python/torch"


def run(*command: object, cwd: Path, **variables: str) -> str:
    """What the command prints; no module of this checkout is in its way."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TENSOR_TRACER_BUILD")}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=kept | variables, capture_output=True, text=True,
                          timeout=1200, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_wheel(source: Path, folder: Path, *more: str, python: Path | str = sys.executable) -> Path:
    options = ("--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, *more)
    run(python, "-m", "pip", "wheel", *options, source, cwd=folder, CMAKE_BUILD_PARALLEL_LEVEL="2", CXX="c++")
    return next(folder.glob("*.whl"))


def needed_by(*names: str) -> list[metadata.Distribution]:
    """These installed distributions, and all that they need."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = metadata.distribution(name)
            needs = map(Requirement, found[name].requires or [])
            waiting += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return list(found.values())


@dataclass(frozen=True)
class Bare:
    """A virtual environment whose other packages are links to those of this one, behind `packages`."""

    folder: Path
    packages: Path
    wheel: Path

    @property
    def site(self) -> Path:
        return next(self.folder.glob("lib/python3*/site-packages"))

    def python(self, program: str, *arguments: str, cwd: Path, **variables: str) -> str:
        """Runs it where nothing of this checkout and of the packages that built it is to be seen."""
        nothing = self.folder / "nothing"
        nothing.mkdir(exist_ok=True)
        covers = {self.packages: metadata.distribution("torch").locate_file("")}
        covers |= dict.fromkeys((REPOSITORY, Path("/usr/include"), LIBRARIES / "cmake"), nothing)
        covers |= {path.resolve(): Path("/dev/null") for name in HIDDEN for path in LIBRARIES.glob(name)}
        mounts = [f"mount --bind {cover} {place}" for place, cover in covers.items()]
        script = " && ".join([*mounts, 'exec "$@"'])
        line = ("unshare", "--mount", "sh", "-c", script, "sh", self.folder / "bin/python", "-c", program, *arguments)
        return run(*line, cwd=cwd, **variables)


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    if os.geteuid() != 0:
        pytest.skip("a mount namespace needs root")
    top = tmp_path_factory.mktemp("wheel")
    for name in ("torch", "client", "packages"):
        (top / name).mkdir()
    client = shutil.copytree(REPOSITORY / "python", top / "source", ignore=shutil.ignore_patterns("__pycache__"))
    made = Bare(top / "venv", top / "packages", make_wheel(REPOSITORY / "python/torch", top / "torch", *AS_IN_CI))
    venv.create(made.folder)
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", made.folder / "bin/python", "install", "--no-deps")
    run(*pip, made.wheel, make_wheel(client, top / "client"), cwd=top)
    for distribution in needed_by("torch", "numpy", "google-crc32c", "websockets"):
        for name in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
            (made.site / name).symlink_to(made.packages / name)
    return made


def needed_libraries(folder: Path) -> set[str]:
    """Those that the files of the folder need and that are not in it."""
    files = [path for path in folder.iterdir() if path.is_file()]
    lines = [line for file in files for line in run("readelf", "--dynamic", file, cwd=folder).splitlines()]
    return {line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line} - {file.name for file in files}


def test_the_wheel_is_of_any_python_and_needs_no_library_of_this_machine(bare: Bare) -> None:
    assert bare.wheel.name == "tensor_tracer_torch-0.1.0-py3-none-linux_x86_64.whl"
    package = bare.site / "tensor_tracer_torch"
    of_hub = {path.name for path in (package / "hub_lib").iterdir()}
    assert needed_libraries(package / "bin") - of_hub <= OF_GLIBC and needed_libraries(package / "hub_lib") <= OF_GLIBC
    assert needed_libraries(package / "lib") <= OF_GLIBC | OF_TORCH


def test_a_training_with_only_python_and_torch_is_traced(bare: Bare, tmp_path: Path) -> None:
    page = {str(path.relative_to(PAGE)): path.read_bytes() for path in PAGE.rglob("*") if path.is_file()}
    told = json.loads(bare.python(TRAINING, *page, cwd=tmp_path).splitlines()[-1])
    assert told["built_for"] == metadata.version("torch").partition("+")[0]
    assert all(file.startswith(str(bare.site)) for file in told["files"])
    assert told["code"] == "invalid_expression"  # an exception reaches PyTorch
    assert "index.html" in page and page == {name: (tmp_path / "page" / name).read_bytes() for name in page}
    with open_recording(tmp_path / "run/run.ttrec") as recording:
        steps, losses = recording.scalars("loss")
    assert list(steps) == [1, 2, 3] and list(losses) == pytest.approx(told["losses"])
    wait_until(lambda: processes_naming(str(bare.site)) == [], 30, "the end of the hub")


def test_a_wheel_of_another_torch_is_refused(bare: Bare, tmp_path: Path) -> None:
    version = metadata.version("torch")
    copy = shutil.copytree(bare.site / "tensor_tracer_torch", tmp_path / "tensor_tracer_torch")
    text = (copy / "__init__.py").read_text()
    (copy / "__init__.py").write_text(text.replace(version.partition("+")[0], "2.1.0"))
    told = bare.python(REFUSED, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert told.startswith("wrong_torch ") and "torch 2.1.0" in told and f"torch {version}" in told and COMMAND in told


def test_without_the_wheel_attach_says_so(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['tensor_tracer_torch'] = None\n"
    told = run(sys.executable, "-c", hidden + REFUSED, cwd=tmp_path, PYTHONPATH=str(REPOSITORY / "python"))
    assert told.startswith("no_extension ") and "tensor-tracer-torch" in told and COMMAND in told


def test_without_the_page_there_is_no_wheel(tmp_path: Path) -> None:
    copy = shutil.copytree(REPOSITORY / "python/torch", tmp_path / "python/torch")
    shutil.copytree(REPOSITORY / "cmake", tmp_path / "cmake")
    shutil.copy(REPOSITORY / "CMakeLists.txt", tmp_path)
    with pytest.raises(AssertionError, match=r"scripts/setup\.sh"):
        make_wheel(copy, tmp_path)


@pytest.mark.nightly(suite="wheel")
def test_an_older_torch_gets_its_own_wheel(tmp_path: Path) -> None:
    older = REPOSITORY / "build/torch-2.11"
    python = older / "bin/python"
    if not python.exists():
        venv.create(older, with_pip=True)
        run(python, "-m", "pip", "--quiet", "install", "torch==2.11.0", "scikit-build-core", "packaging", cwd=tmp_path)
    needs = tomllib.loads((REPOSITORY / "python/pyproject.toml").read_text())["project"]["dependencies"]
    run(python, "-m", "pip", "--quiet", "install", *needs, cwd=tmp_path)
    (tmp_path / "wheels").mkdir()
    elsewhere = f"--config-settings=build-dir={older}/build"
    wheel = make_wheel(REPOSITORY / "python/torch", tmp_path / "wheels", elsewhere, python=python)
    run(python, "-m", "pip", "--quiet", "install", "--force-reinstall", "--no-deps", wheel, cwd=tmp_path)
    told = json.loads(run(python, "-c", TRAINING, cwd=tmp_path, PYTHONPATH=str(REPOSITORY / "python")).splitlines()[-1])
    assert told["built_for"] == "2.11.0" and told["code"] == "invalid_expression"
    with open_recording(tmp_path / "run/run.ttrec") as recording:
        assert list(recording.scalars("loss")[1]) == pytest.approx(told["losses"])
