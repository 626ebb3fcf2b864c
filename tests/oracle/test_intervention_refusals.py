"""Programs made to do harm: thousands of broken ones are refused, quickly, and no step is lost.

TT_HOSTILE_PROGRAMS (2000; 10000 in long runs) says how many, TT_HOSTILE_SEED repeats a run.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import EVERYTHING, write_world
from test_intervention_control import SMALL, apply, claim, in_force, step
from viewer import LiveRun, RequestError, Viewer, assert_memory_is_flat, live_run

COUNT = int(os.environ.get("TT_HOSTILE_PROGRAMS", "2000"))
SEED = int(os.environ.get("TT_HOSTILE_SEED", "1"))
VIEWERS = 8
CODES = {"invalid_expression", "invalid_argument", "invalid_request", "invalid_graph", "invalid_program",
         "too_large"}  # fmt: skip

FRAGMENTS = [
    "__import__('os')", "open('/etc/passwd')", "exec(x)", "layers", "[", "]", "(", ")", "(" * 200, "[" * 2000,
    "-" * 500, "9" * 60, "1e999", "nan", "\0", "\n", "\r\n", "é", "\u202e", "#", '"', "'", "=", "==", "+=",
    "@", "**", "//", "if", "if True: ", "when(", 'when(steps="9-1")', "save(", "skip(", "param(", "param(inf)",
    "layers[0].output = 0", "layers[99].output = 0", "layers[2**70].output", "layers[-1].output",
    "vector(\"nobody\")[1]", 'file("/etc/passwd")["x"]', 'file("../../x.safetensors")["x"]',
    ".repeat(100000, 1000)", ".expand(10**9)", "zeros(10**12)", "arange(10**15)", ".data", ".grad.grad",
    "eye(10**6) @ eye(10**6)", "* 2 ** 10 ** 10", ".heads[9]", "[..., 10**9]", "[::-1]", "[::0]",
    "x = x", "lambda: 0", "[y for y in x]", "import os", "saved(\"never\")", "noise(", "tokens = 0",
    "layers[1].attention.scores = 0", "a" * 100, "layers[2].output = layers[1].output[0]",
    "layers[1].output = layers[2].output", "layers[1].output = layers[1].output.sum()[None, None, None, None]",
]  # fmt: skip


class Mutator:
    """Broken programs in both forms; the same for the same seed."""

    def __init__(self, seed: int, graphs: list[dict[str, Any]]) -> None:
        self._random = random.Random(seed)
        self._texts = [re.sub(r"^#.*\n", "", g.text, flags=re.M).strip() for g in EVERYTHING.values()]
        self._graphs = graphs

    def next(self) -> Any:
        return self._graph() if self._random.random() < 0.5 else self._text()

    def _text(self) -> str:
        text = self._random.choice(self._texts)
        for _ in range(self._random.randint(1, 4)):
            at, end = sorted(self._random.randint(0, len(text)) for _ in range(2))
            kind = self._random.randrange(5)
            if kind == 0:
                text = text[:at] + text[min(end, at + 5) :]
            elif kind == 1:
                text = text[:at] + self._random.choice(FRAGMENTS) + text[at:]
            elif kind == 2:
                text = text[:at] + chr(self._random.choice([*range(128), 0xE9, 0x1F600])) + text[at + 1 :]
            elif kind == 3:
                text += text[at:end] * self._random.choice([1, 2, 500])
            else:
                text = text[:at] + self._random.choice(self._texts)[: end - at] + text[end:]
        return text[:30_000]

    def _graph(self) -> Any:
        graph = json.loads(json.dumps(self._random.choice(self._graphs)))
        for _ in range(self._random.randint(1, 3)):
            holder, key = self._somewhere(graph)
            kind = self._random.randrange(4)
            if kind == 0:
                holder[key] = self._random.choice([None, -1, 1e308, 10**18, True, "", "x" * 500, [], {}, [[[[]]]]])
            elif kind == 1:
                holder[key] = self._random.choice(FRAGMENTS)
            elif kind == 2:
                holder[key] = {"node": str(self._random.randint(0, 12))}
            elif isinstance(holder, dict):
                holder[self._random.choice(["type", "id", "node", "colour", "condition"])] = holder.pop(key)
        return graph

    def _somewhere(self, value: Any) -> tuple[Any, Any]:
        """A member of the graph, at any depth."""
        places = []

        def walk(node: Any) -> None:
            items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
            for key, child in items:
                places.append((node, key))
                walk(child)

        walk(value)
        return self._random.choice(places)


@pytest.fixture(scope="module")
def run(flags, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRun]:
    folder = tmp_path_factory.mktemp("hostile")
    write_world(folder)
    changes = SMALL | {"num_layers": 4, "tensor_model_parallel_size": 2}
    changes |= {"tensor_tracer_vectors": str(folder / "vectors"),
                "intervention_files": str(folder / "programs")}  # fmt: skip
    with live_run(flags | changes, folder, 2) as live:
        yield live


def graphs_of(viewer: Viewer) -> list[dict[str, Any]]:
    """The JSON form of what is good."""
    graphs = []
    for graph in EVERYTHING.values():
        with contextlib.suppress(RequestError):
            graphs.append(viewer.request("intervention.check", {"program": graph.text})["graph"])
            time.sleep(0.01)
    assert len(graphs) > 50
    return graphs


def outcome(viewer: Viewer, number: int) -> str:
    try:
        viewer.result_of(number, "a hostile program", 60)
    except RequestError as error:
        assert error.code in CODES, f"{error.code}: {error.message}"
        assert error.message
        return error.code
    return "good"


def test_hostile_programs_are_refused_and_cost_no_step(run: LiveRun, record_property) -> None:
    """In both forms, by eight viewers at once, while training runs."""
    with contextlib.ExitStack() as stack:
        viewers = [stack.enter_context(run.viewer()) for _ in range(VIEWERS)]
        mutator = Mutator(SEED, graphs_of(viewers[0]))
        outcomes: Counter[str] = Counter()
        memory: list[dict[int, float]] = []
        for sent in range(0, COUNT, VIEWERS):
            numbers = [v.start("intervention.check", {"program": mutator.next()}) for v in viewers]
            outcomes.update(outcome(v, n) for v, n in zip(viewers, numbers, strict=True))
            if sent > COUNT // 4 and sent % 80 == 0:  # by then every buffer has had its largest programs
                memory.append(run.memory_mib())
            time.sleep(0.005)
        first = viewers[0].steps()[-1]
        viewers[0].wait_for(lambda: viewers[0].steps()[-1] > first + 5, "more steps")
        steps = viewers[0].steps()
    assert steps == list(range(steps[0], steps[-1] + 1)), "a step is lost"
    assert outcomes.total() - outcomes["good"] > 0.5 * COUNT, outcomes
    assert_memory_is_flat(memory)
    growth = {process: round(mib - memory[0][process], 1) for process, mib in memory[-1].items()}
    record_property("hostile_programs", f"{dict(outcomes)}, growth in MiB {growth}, seed {SEED}")


def milliseconds(viewer: Viewer, program: Any) -> tuple[float, bool]:
    """How long the answer takes, and whether it is a refusal."""
    begin = time.monotonic()
    refused = outcome(viewer, viewer.start("intervention.check", {"program": program})) != "good"
    return (time.monotonic() - begin) * 1e3, refused


def test_a_refusal_takes_no_longer_than_the_check_of_a_good_program(run: LiveRun, record_property) -> None:
    """One at a time, good and hostile ones in turn, beside a paused run."""
    texts = [graph.text for graph in EVERYTHING.values()]
    good: list[float] = []
    refused: list[float] = []
    with contextlib.ExitStack() as stack:
        viewers = [stack.enter_context(run.viewer()) for _ in range(VIEWERS)]
        mutator = Mutator(SEED + 2, graphs_of(viewers[0]))
        claim(viewers[0])
        viewers[0].request("control.pause")
        for turn in range(COUNT // 2):
            viewer = viewers[turn % VIEWERS]
            for program in (texts[turn % len(texts)], mutator.next()):
                took, is_refused = milliseconds(viewer, program)
                (refused if is_refused else good).append(took)
            time.sleep(0.003)  # a fast machine would come to the limit of 100 messages a second
        viewers[0].request("control.continue")
    assert len(refused) > COUNT // 4
    figures = {
        name: {q: round(float(np.quantile(times, q)), 2) for q in (0.5, 0.99, 1)}
        for name, times in {"good": good, "refused": refused}.items()
    }
    record_property("refusal_ms_by_quantile", str(figures))
    print(figures)
    assert figures["refused"][0.5] < 2 * figures["good"][0.5]
    assert figures["refused"][0.99] < 4 * figures["good"][0.99]


def test_hostile_programs_are_not_applied(run: LiveRun) -> None:
    """What check refuses apply refuses too, and what is in force stays."""
    with run.viewer() as viewer:
        claim(viewer)
        viewer.request("control.pause")
        apply(viewer, "good", "layers[1].output *= 1.001")
        mutator, refused = Mutator(SEED + 1, graphs_of(viewer)), 0
        while refused < 100:
            program = mutator.next()
            time.sleep(0.02)
            try:
                viewer.request("intervention.check", {"program": program})
            except RequestError:
                with pytest.raises(RequestError):
                    apply(viewer, "good", program)
                refused += 1
        assert in_force(viewer) == ["good"]
        step(viewer)
        viewer.request("intervention.remove")


@pytest.mark.parametrize(
    "program",
    ["", " ", "#", None, 7, [], {}, {"version": 2, "nodes": []}, {"version": 1}, "x" * 16_385,
     "layers[1].output *= 2\n" * 201, "layers[1].output = layers[1].output[:, :, 0]",
     "layers[1].output = layers[1].output.expand(1000000, 1000000, 32)",
     "layers[2].output = layers[2].output.repeat(1000, 1000, 10).mean(dim=-1, keepdim=True)",
     'layers[1].output = file("../secret.safetensors")["x"]', 'layers[1].output = file("/etc/passwd")["x"]',
     "layers[1].output = layers[3].output", "layers[1].output = layers[3].output.grad",
     "skip(layers[2])\nlayers[2].mlp.output = 0", "tokens = 0", "layers[1].attention.scores = 0",
     "layers[5].output = 0", "layers[0].output = 0", 'when(prompts="nobody")\nlayers[1].output = 0',
     'save(layers[1].output, "x")\nsave(layers[2].output, "x")', "layers[1].attention.context.heads[4] = 0",
     "layers[1].mlp.fc1[..., 4096] = 0", "layers[1].mlp.fc2.weight.grad = 0", "layers[1].output[::-1] = 0"],
    ids=lambda program: repr(program)[:40],
)  # fmt: skip
def test_wrong_programs(program: Any, run: LiveRun) -> None:
    """Each is wrong in one way; the refusal names it."""
    with run.viewer() as viewer:
        with pytest.raises(RequestError) as refused:
            viewer.request("intervention.check", {"program": program})
        assert refused.value.code in CODES
        assert refused.value.message


def test_more_programs_than_there_may_be(run: LiveRun) -> None:
    with run.viewer() as viewer:
        claim(viewer)
        viewer.request("control.pause")
        for number in range(32):
            apply(viewer, f"p{number}", "layers[1].output *= 1.0001")
        with pytest.raises(RequestError):
            apply(viewer, "p32", "layers[1].output *= 1.0001")
        apply(viewer, "p31", "layers[1].output *= 1.0002")
        assert len(in_force(viewer)) == 32
        step(viewer)
        for name in ("", "x" * 65, 7, None):
            with pytest.raises(RequestError):
                apply(viewer, name, "layers[1].output *= 2")
        viewer.request("intervention.remove")
