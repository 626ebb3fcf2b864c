"""Runs of the program that save and resume, and the tensors that a checkpoint holds."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch
from program import Flags, command, environment, step_log
from reference_gpt import Export
from safetensors import safe_open
from torch import Tensor

STEPS, HALF = 12, 6
DROPOUT = {"hidden_dropout": 0.1, "attention_dropout": 0.1}
LLAMA = {
    "normalization": "RMSNorm", "position_embedding_type": "rope", "swiglu": True, "disable_bias_linear": True,
    "untie_embeddings_and_output_weights": True, "ffn_hidden_size": 88, "num_query_groups": 2,
}  # fmt: skip
FILE_NAME = re.compile(r"(model|optimizer)-\d{5}-\d+\.safetensors|manifest\.json|manifest\.crc32c")
ENDS = 60.0  # seconds
Mesh = tuple[int, int]  # tensor, data
Bits = tuple[float, float]  # loss and gradient norm; JSON keeps every bit of a double


@dataclasses.dataclass(frozen=True)
class Done:
    """A run that has ended."""

    code: int
    output: str
    errors: str

    def steps(self) -> dict[int, Bits]:
        return steps_of(self.output)

    def good(self) -> Done:
        assert self.code == 0, f"exit code {self.code}\n{self.output[-2000:]}\n{self.errors[-4000:]}"
        return self

    def resumed_after(self) -> int:
        """The step of the checkpoint that was loaded."""
        found = re.findall(r"^load   .*: the run goes on after step (\d+)$", self.errors, re.M)
        assert len(found) == 1, self.errors
        return int(found[0])


def steps_of(output: str) -> dict[int, Bits]:
    """Loss and gradient norm by step. The last line of a run that was killed may be cut off."""
    whole = "\n".join(line for line in output.splitlines() if line.endswith("}"))
    return {step["step"]: (step["loss"], step["grad_norm"]) for step in step_log(whole)}


def line_of(flags: Flags, folder: Path, mesh: Mesh, changes: dict[str, Any]) -> list[str]:
    """The command line; the run's own folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    mine = {"run_dir": str(folder / "run"), "log_format": "json", "tensor_model_parallel_size": mesh[0]}
    both: dict[str, Any] = dict(flags) | DROPOUT | mine | changes
    return command(both, mesh[0] * mesh[1])


def run(flags: Flags, folder: Path, mesh: Mesh = (1, 1), **changes: Any) -> Done:
    """Trains with dropout until the run ends. `changes`: more flags."""
    line = line_of(flags, folder, mesh, {"train_iters": STEPS} | changes)
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=2 * ENDS, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


class Started:
    """A run that goes on while the test does something else."""

    def __init__(self, flags: Flags, folder: Path, mesh: Mesh, changes: dict[str, Any]) -> None:
        self._folder = folder
        line = line_of(flags, folder, mesh, changes)
        with open(folder / "output.txt", "wb") as output, open(folder / "errors.txt", "wb") as errors:
            # Python ignores SIGXFSZ; so does the run: a write past RLIMIT_FSIZE is an error to it.
            self.process = subprocess.Popen(line, env=environment(), stdout=output, stderr=errors,
                                            restore_signals=False)  # fmt: skip

    def done(self) -> Done:
        """What it has printed so far; the code is -1 until it has ended."""
        code = self.process.poll()
        output, errors = ((self._folder / name).read_text(errors="replace") for name in ("output.txt", "errors.txt"))
        return Done(-1 if code is None else code, output, errors)

    def wait_for(self, condition: Callable[[Done], bool], what: str) -> Done:
        end = time.monotonic() + ENDS
        while True:
            has_ended = self.process.poll() is not None
            if condition(now := self.done()):
                return now
            assert not has_ended and time.monotonic() < end, f"no {what}\n{now.errors[-4000:]}"
            time.sleep(0.01)

    def has_ended_within(self, seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.poll() is not None

    def ask_to_stop(self) -> Done:
        self.process.send_signal(signal.SIGUSR1)
        self.process.wait(ENDS)
        return self.done()

    def kill(self) -> None:
        """SIGKILL to every rank and the hub. The launcher ends then, and removes what MPI left."""
        patience = time.monotonic() + 20
        while (found := self._ranks_and_hub()) or self.process.poll() is None:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > patience:
                self.process.kill()
            assert time.monotonic() < patience + 20, found
            time.sleep(0.01)

    def _ranks_and_hub(self) -> list[int]:
        run_dir, found = str(self._folder / "run").encode(), []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if run_dir in words and b"tensor-tracer" in words[0]:
                    found.append(int(folder.name))
        return found


@contextlib.contextmanager
def started(flags: Flags, folder: Path, mesh: Mesh = (1, 1), **changes: Any) -> Iterator[Started]:
    """A run that does not outlive the test."""
    one = Started(flags, folder, mesh, changes)
    try:
        yield one
    finally:
        one.kill()


def checkpoint(step: int) -> str:
    return f"step_{step:08d}"


def checkpoints(folder: Path) -> list[str]:
    """The names of the checkpoints, which hold the files of a checkpoint and no others."""
    found = sorted(path.name for path in folder.glob("step_*"))
    for name in found:
        names = [path.name for path in (folder / name).iterdir()]
        assert {"manifest.json", "manifest.crc32c"} < set(names), names
        assert all(FILE_NAME.fullmatch(one) for one in names), names
    return found


def hidden(folder: Path) -> list[str]:
    """The names of what a save has not completed."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def assert_goes_on(flags: Flags, folder: Path, mesh: Mesh, saved: Path, step: int) -> None:
    """The newest checkpoint is that of this step, and a run goes on from it."""
    assert checkpoints(saved)[-1] == checkpoint(step) and hidden(saved) == []
    assert step_of(saved / checkpoint(step)) == step
    more = run(flags, folder, mesh, load=saved, train_iters=step + 1).good()
    assert list(more.steps()) == [step + 1]


def step_of(folder: Path) -> int:
    """The step that the manifest of a checkpoint names."""
    return int(json.loads((folder / "manifest.json").read_text())["step"])


def state_of(folder: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint, put together from their parts; no element is there twice or missing."""
    parts: dict[str, list[tuple[list[int], Tensor]]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            sharding = json.loads(file.metadata()["DCP_SHARDING_INFO"])
            assert set(sharding) == set(file.keys()), path
            for name in file.keys():
                parts.setdefault(name, []).append((sharding[name]["saved_offsets"], file.get_tensor(name)))
    return {name: joined(name, found) for name, found in parts.items()}


def joined(name: str, parts: list[tuple[list[int], Tensor]]) -> Tensor:
    first = parts[0][1]
    shape = [max(offsets[dim] + part.shape[dim] for offsets, part in parts) for dim in range(first.ndim)]
    whole, times = torch.zeros(shape, dtype=first.dtype), torch.zeros(shape, dtype=torch.int64)
    for offsets, part in parts:
        box = tuple(slice(begin, begin + size) for begin, size in zip(offsets, part.shape, strict=True))
        whole[box] = part
        times[box] += 1
    assert (times == 1).all(), f"{name} has elements that are missing or there twice"
    return whole


def weights_of(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in state.items() if not name.startswith("optimizer.")}


def assert_same_bits(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        assert torch.equal(bytes_of(found[name]), bytes_of(tensor)), name


def bytes_of(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


@dataclasses.dataclass(frozen=True)
class Case:
    """A kind of model and a mesh."""

    mesh: Mesh = (1, 1)
    flags: dict[str, Any] = dataclasses.field(default_factory=dict)


CASES = {
    "one rank": Case(),
    "TP 2": Case((2, 1)),
    "DP 2": Case((1, 2)),
    "TP 2 x DP 2": Case((2, 2)),
    "TP 4": Case((4, 1)),
    "one query group": Case((2, 1), {"num_query_groups": 1}),
    "llama": Case((2, 1), LLAMA),
    "llama, copied groups": Case((4, 1), LLAMA),
    "float64": Case((2, 1), {"params_dtype": "float64"}),
    "bf16": Case((2, 1), {"bf16": True}),
    "bfloat16": Case((2, 1), LLAMA | {"params_dtype": "bfloat16"}),
}


class Trainings:
    """The runs that tests share: of every case an uninterrupted one that saves after half of its steps
    and at its end. Nobody changes their checkpoints."""

    def __init__(self, flags: Flags, folder: Path) -> None:
        self.flags, self._folder = dict(flags), folder
        self._done: dict[str, Done | BaseException] = {}

    def folder(self, name: str) -> Path:
        """The checkpoints of a case."""
        self.of(name)
        return self._folder / name / "saved"

    def of(self, name: str) -> Done:
        if name not in self._done:
            try:
                self._done[name] = self._train(name)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                self._done[name] = error
        found = self._done[name]
        if isinstance(found, BaseException):
            raise AssertionError(f"the uninterrupted run of {name}") from found
        return found

    def _train(self, name: str) -> Done:
        """It exports the weights before step HALF + 1, which are those of the first checkpoint."""
        folder = self._folder / name
        done = run(self.flags, folder, CASES[name].mesh, **CASES[name].flags, save=folder / "saved", save_interval=HALF,
                   export_tensors=folder / "exports", export_at=HALF + 1)  # fmt: skip
        assert list(done.good().steps()) == list(range(1, STEPS + 1))
        assert checkpoints(folder / "saved") == [checkpoint(HALF), checkpoint(STEPS)]
        return done

    def exported(self, name: str) -> dict[str, Tensor]:
        """The whole weights after step HALF, as the ranks gathered them."""
        self.of(name)
        return Export.read(self._folder / name / "exports" / f"step_{HALF + 1:06d}.safetensors").weights

    def rest(self, name: str) -> dict[int, Bits]:
        """The steps after the first checkpoint."""
        return {step: bits for step, bits in self.of(name).steps().items() if step > HALF}


@dataclasses.dataclass(frozen=True)
class Damage:
    """A checkpoint with one damaged file."""

    folder: Path
    file: str


def linked_copy(source: Path, target: Path, without: str = "") -> None:
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.name != without:
            os.link(path, target / path.name)


def damaged_copy(source: Path, target: Path, file: str, change: Callable[[bytes], bytes | None]) -> Damage:
    """Links all files but one. `change` returns the damaged contents, or None for a file that is missing."""
    linked_copy(source, target, without=file)
    contents = change((source / file).read_bytes())
    if contents is not None:
        (target / file).write_bytes(contents)
        shutil.copystat(source / file, target / file)  # the times of the manifests put checkpoints in order
    return Damage(target, file)


def flip(contents: bytes, random: Random) -> bytes:
    """Changes one byte; now and then the first or the last."""
    at = random.choice([0, len(contents) - 1, *[random.randrange(len(contents)) for _ in range(8)]])
    changed = bytearray(contents)
    changed[at] ^= random.randrange(1, 256)
    return bytes(changed)


def not_told(damages: list[Damage], errors: str) -> list[Damage]:
    """The damaged files that no notice names. A notice of either file of the manifest is good for both."""
    notices = "\n".join(re.findall(r"^note   a damaged checkpoint is passed over: (.*)$", errors, re.M))

    def named(one: Damage) -> str:
        return str(one.folder / ("manifest." if one.file.startswith("manifest.") else one.file))

    return [one for one in damages if named(one) not in notices]
