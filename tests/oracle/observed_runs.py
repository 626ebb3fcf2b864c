"""Runs of the program with many interventions, each acting in different steps, and what they left."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from graphs import EVERYTHING, SHAPES, TINY, Scheduled, schedule, write_world
from hooked_gpt import Graph, World
from program import Flags, Run
from torch import Tensor
from viewer import RequestError, Viewer, live_run
from websockets.exceptions import ConnectionClosed

# At most 32 programs are in force at a time. With 1 each has a separate run.
PROGRAMS_PER_RUN = int(os.environ.get("TT_PROGRAMS_PER_RUN", "32"))
Mesh = tuple[int, int]  # tensor, data


def mesh_flags(mesh: Mesh) -> dict[str, Any]:
    return {"tensor_model_parallel_size": mesh[0]}


def number(value: float | str) -> float:
    """JSON writes NaN and infinities as strings."""
    return float(value)


def tensor_of(saved: dict[str, Any]) -> Tensor:
    values = torch.tensor([number(v) for v in saved["values"]], dtype=torch.float64)
    return values.reshape(saved["shape"])


SaveKey = tuple[str, str, int, int, int]  # program, name, step, first row, layer


@dataclasses.dataclass
class Observed:
    """One finished run."""

    run: Run
    saved: dict[SaveKey, Tensor]
    applied: dict[tuple[str, int], dict[str, Any]]  # by program and step
    warnings: list[str]

    @classmethod
    def of(cls, viewer: Viewer, exports: Path) -> Observed:
        saved: dict[SaveKey, Tensor] = {}
        for one in viewer.named("saved"):
            if one["phase"] == "train" and one["prompt_set"] == 0:
                key = (one["program"], one["name"], one["step"], one["first_row"], one.get("layer", 0))
                assert key not in saved, f"saved twice: {key}"
                saved[key] = tensor_of(one)
        applied = {
            (program["name"], one["step"]): program
            for one in viewer.named("applied") for program in one["programs"]
        }  # fmt: skip
        warnings = [log["message"] for log in viewer.named("log") if log["level"] != "info"]
        return cls(Run(viewer.named("step"), exports), saved, applied, warnings)

    def of_step(self, program: str, step: int) -> dict[tuple[str, int, int], Tensor]:
        """What a program saved, by name, first row and layer."""
        return {(n, row, layer): x for (p, n, s, row, layer), x in self.saved.items()
                if (p, s) == (program, step)}  # fmt: skip


# The hub replaces waiting events of a viewer that falls behind by more than 1 MiB.
STEPS_AT_ONCE = 3


def see_every_step(viewer: Viewer, last: int) -> None:
    """Some steps at a time, so that a viewer that gets no CPU for a while loses no event."""
    viewer.request("control.claim", {"name": "oracle"})
    with contextlib.suppress(ConnectionClosed):
        while max(viewer.steps(), default=0) < last:
            viewer.request("control.step", {"count": STEPS_AT_ONCE}, timeout=120)
        viewer.drain(300)


def observe(flags: Flags, placed: Sequence[Scheduled], mesh: Mesh, folder: Path) -> Observed:
    """Trains through all steps of the programs, with all of them in force."""
    programs = []
    for one in placed:
        programs.append(str(folder / "programs" / f"{one.graph.name}.tti"))
        Path(programs[-1]).write_text(one.text())
    (folder / "plan.json").write_text('{"entries": []}')
    last = placed[-1].steps[-1]
    changes = TINY | mesh_flags(mesh) | {
        "train_iters": last,
        "tensor_tracer_vectors": str(folder / "vectors"),
        "intervention_files": str(folder / "programs"),
        "tensor_tracer_plan": str(folder / "plan.json"),
        "export_tensors": str(folder / "exports"),
        "export_at": f"2-{last}",
        "interventions": programs,
    }  # fmt: skip
    with live_run(dict(flags) | changes, folder, mesh[0] * mesh[1]) as run:
        with run.viewer() as viewer:
            see_every_step(viewer, last)
        run.wait()
    return Observed.of(viewer, folder / "exports")


class Runs:
    """The runs that tests share: of every shape and mesh one for each batch of programs."""

    def __init__(self, flags: Flags, folder: Path) -> None:
        self._flags, self._folder = flags, folder
        self._observed: dict[tuple[str, Mesh, int], Observed | Exception] = {}
        self._refused: dict[str, dict[str, str]] = {}
        self.world: World = write_world(folder / "world")

    def of(self, name: str, shape: str, mesh: Mesh) -> tuple[Observed, Scheduled]:
        """The run in which a program acted, and when."""
        refused = self.refused(shape)
        if name in refused:
            raise AssertionError(refused[name])
        good = [graph for graph in EVERYTHING.values() if graph.name not in refused]
        index = [graph.name for graph in good].index(name) // PROGRAMS_PER_RUN
        batch = schedule(good[index * PROGRAMS_PER_RUN :][:PROGRAMS_PER_RUN])
        key = (shape, mesh, index)
        if key not in self._observed:
            self._observed[key] = self._try(shape, mesh, batch, index)
        found = self._observed[key]
        if isinstance(found, Exception):
            raise AssertionError(f"the run with all of {[b.graph.name for b in batch]}") from found
        return found, next(one for one in batch if one.graph.name == name)

    def _try(self, shape: str, mesh: Mesh, batch: list[Scheduled], index: int) -> Observed | Exception:
        folder = self._folder / f"{shape}-{mesh[0]}x{mesh[1]}-{index}"
        write_world(folder)
        try:
            return observe(dict(self._flags) | SHAPES[shape], batch, mesh, folder)
        except (AssertionError, TimeoutError, OSError) as error:
            return error

    def refused(self, shape: str) -> dict[str, str]:
        """Why programs are refused, by name, so that one of them does not keep the others from running."""
        if shape not in self._refused:
            folder = self._folder / f"{shape}-check"
            write_world(folder)
            changes = TINY | SHAPES[shape] | {
                "train_iters": 100_000, "tensor_tracer_vectors": str(folder / "vectors"),
                "intervention_files": str(folder / "programs"),
            }  # fmt: skip
            with live_run(dict(self._flags) | changes, folder) as run, run.viewer() as viewer:
                texts = {graph.name: graph.text for graph in EVERYTHING.values()}
                answers = {name: check(viewer, text) for name, text in texts.items()}
            self._refused[shape] = {n: answer for n, answer in answers.items() if answer is not None}
        return self._refused[shape]


def check(viewer: Viewer, text: str) -> str | None:
    """What intervention.check has against a program."""
    try:
        viewer.request("intervention.check", {"program": text})
    except RequestError as error:
        return f"{error}\n{text}"
    return None


def dump(params: dict[str, Any]) -> str:
    """For messages of failed tests."""
    return json.dumps(params, indent=1)


def acting(graph: Graph) -> bool:
    """Whether it writes or skips something in every micro-batch of training."""
    return graph.changes and graph.name != "token_text"
