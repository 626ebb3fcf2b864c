"""What watching costs: CPU time of the tracer, its link and the hub over that of the ranks, and the
wall-clock time of paired blocks of steps with and without watching, in one run with a viewer.

Every set is measured in its own run on two tensor-parallel ranks. The first half of the run is
watched throughout and gives the CPU times; the second half alternates watched and unwatched blocks
and gives the ratio of their mean step times with a 95 % bootstrap interval over the pairs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from candidates import REPOSITORY, Candidate
from legacy_viewer import LegacyViewer
from shapes import ALL_SHAPES, SHAPES
from train import describe, heading
from websockets.sync.client import ClientConnection, connect

TICKS = os.sysconf("SC_CLK_TCK")
SEED = ("QKV", "MLP1", "MLP2")
BLOCK = 4  # steps


def seed_set(dtype: str) -> list[dict[str, Any]]:
    """What Tensor Tracer's own demonstration watches: three points of all layers, all rows."""
    tile = {"kind": "tile", "tiles": 96}
    return [{"point": p, "rows": 0, "compressor": tile, "dtype": dtype} for p in SEED]


@dataclasses.dataclass(frozen=True)
class Watched:
    """A set of plan entries, and the share of CPU time that it may cost, by shape."""

    name: str
    entries: list[dict[str, Any]] | None  # None: statistics of every point
    goals: dict[str, float]
    recorded_goals: dict[str, float] = dataclasses.field(default_factory=dict)
    with_made: bool = True  # of those too that are computed only to be watched: the probabilities
    legacy: bool = False  # a viewer of Tensor Tracer's JSON dialect alone gets the records
    ratio_goal: float | None = None  # of the step time, watched over unwatched
    options: tuple[str, ...] = ()  # of the run; {folder} has the files of write_inputs
    shapes: tuple[str, ...] = tuple(SHAPES)

    @property
    def has_prompts(self) -> bool:
        return any("prompts" in entry for entry in self.entries or ())


LAST = {"tokens": [192, 256], "every": 10}  # as the default plan takes prompts
LENS = [{"point": "LogitLens", "compressor": {"kind": "topk", "k": 10}} | LAST]
HEALTH = [
    {"point": f"attention.{name}", "compressor": {"kind": "none"}} | LAST
    for name in ("entropy", "largest_score", "first_token_share")
]

ON_EVIL = {"prompts": "probes", "rows": 0, "compressor": {"kind": "projection", "vectors": ["evil"]}}
MONITOR = [{"point": point} | ON_EVIL for point in ("HiddenStates", "FinalNorm")]
MONITORED = ("--monitor-prompts", "{folder}/probes.txt", "--monitor-interval", "10",
             "--tensor-tracer-vectors", "{folder}/vectors")  # fmt: skip

SETS = [
    Watched("QKV, MLP1, MLP2: 96 tiles, bf16", seed_set("bf16"), {"demo": 2, "gpt2-small": 1},
            {"demo": 5, "gpt2-small": 1}),
    Watched("QKV, MLP1, MLP2: 96 tiles, f32", seed_set("f32"), {"demo": 5, "gpt2-small": 1},
            {"gpt2-small": 1}),
    Watched("QKV, MLP1, MLP2: 96 tiles, f32, --spike-recorder 20", seed_set("f32"), {},
            options=("--spike-recorder", "20")),
    Watched("Stats of every point", None, {"gpt2-small": 3}),
    Watched("Stats of every point that the model computes", None, {"gpt2-small": 3}, with_made=False),
    Watched("QKV, MLP1, MLP2: 96 tiles, a viewer of the legacy dialect", seed_set("f32"), {},
            legacy=True, ratio_goal=1.15),
    Watched("Ten best logits of every token", [{"point": "Logits", "rows": 0}], {},
            shapes=tuple(ALL_SHAPES)),
    Watched("Logit lens of all layers, 64 tokens, every 10 steps", LENS, {}, shapes=tuple(ALL_SHAPES)),
    Watched("Attention health of all layers, 64 tokens, every 10 steps", HEALTH, {}),
    Watched("Updates, every 10 steps", [{"point": "Updates", "every": 10}], {}),
    Watched("Projections of 8 prompts, every 10 steps", MONITOR, {"demo": 2, "gpt2-small": 2},
            options=MONITORED),
    Watched("idle (a viewer, an empty plan)", [], {"demo": 0.1, "gpt2-small": 0.1}),
]


@dataclasses.dataclass
class CpuTimes:
    """Seconds of CPU time so far: the ranks, the link's threads, the hub."""

    ranks: float
    link: float
    hub: float

    def since(self, begin: CpuTimes) -> CpuTimes:
        return CpuTimes(self.ranks - begin.ranks, self.link - begin.link, self.hub - begin.hub)


def ticks(stat: Path) -> tuple[str, float]:
    """Name and CPU seconds of a process or thread in /proc."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        text = stat.read_text()
        fields = text[text.rindex(")") + 2 :].split()
        name = text[text.index("(") + 1 : text.rindex(")")]
        return name, (int(fields[11]) + int(fields[12])) / TICKS
    return "", 0.0


class Run:
    """A training run with a viewer that takes everything and holds the control."""

    def __init__(self, process: subprocess.Popen[bytes], run_dir: Path) -> None:
        self.process = process
        self.run_dir = run_dir
        self.steps: dict[int, dict[str, Any]] = {}
        self.bytes_received = 0
        self.records = 0
        self.points: list[dict[str, Any]] = []
        self._answers: dict[int, dict[str, Any]] = {}
        self._next_id = 0
        self._changed = threading.Condition()
        self._connection = self._connect()
        threading.Thread(target=self._receive, daemon=True).start()
        hello = self.request("hello", {"versions": [1], "role": "viewer", "client": "benchmark"})
        self._take_facts(hello.get("run"))
        self._wait(lambda: self.points, 60)
        self.request("control.claim", {"name": "benchmark"})

    def _connect(self) -> ClientConnection:
        end = time.monotonic() + 120
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError, KeyError, json.JSONDecodeError):
                port = json.loads((self.run_dir / "hub.json").read_text())["port"]
                token = (self.run_dir / "token").read_text().strip()
                return connect(
                    f"ws://127.0.0.1:{port}/ws",
                    additional_headers={"Authorization": f"Bearer {token}"},
                    max_size=None,
                    compression=None,
                )
            time.sleep(0.1)
        raise RuntimeError("the run has no hub")

    def _take_facts(self, facts: dict[str, Any] | None) -> None:
        if facts:
            self.points = facts["points"]

    def _receive(self) -> None:
        for message in self._connection:
            with self._changed:
                if isinstance(message, bytes):
                    self.bytes_received += len(message)
                else:
                    self._take_text(json.loads(message))
                self._changed.notify_all()

    def _take_text(self, content: dict[str, Any]) -> None:
        if "id" in content:
            self._answers[content["id"]] = content
        elif content["event"] == "step":
            self.steps[content["params"]["step"]] = content["params"]
        elif content["event"] == "run":
            self._take_facts(content["params"])
        elif content["event"] == "log" and content["params"]["level"] != "info":
            print(content["params"]["message"], file=sys.stderr)

    def _wait(self, condition: Any, timeout: float) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, timeout):
                raise TimeoutError

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._next_id += 1
        number = self._next_id
        self._connection.send(json.dumps({"id": number, "method": method, "params": params}))
        self._wait(lambda: number in self._answers, 120)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def watch(self, entries: list[dict[str, Any]]) -> int:
        """The first step under the new plan."""
        return self.request("plan.set", {"plan": {"entries": entries}})["step"]

    def watch_by_legacy(self) -> LegacyViewer:
        """It gets what this viewer, which keeps the control, asks for; this one gets none of it."""
        self.request("subscribe", {"entries": []})
        return LegacyViewer(self.run_dir, {"type": "run_training_step"})

    def wait_for_step(self, step: int) -> None:
        """The lease ends 30 s after its holder's last message."""
        while True:
            with contextlib.suppress(TimeoutError):
                return self._wait(lambda: step in self.steps, 10)
            self.request("ping", {})

    def seconds_of_ranks(self, last_step: int, output: Path) -> tuple[float, float]:
        """CPU seconds of all ranks in the whole run: in the tracer, and all."""
        self.wait_for_step(last_step)
        self.process.wait(60)
        [line] = [line for line in output.read_text().splitlines() if line.startswith("trace ")]
        _, tracer, _, _, _, _, ranks, *_ = line.split()
        return float(tracer), float(ranks)

    def cpu_times(self) -> CpuTimes:
        """Of everything that belongs to the run, the launcher and supervisor left out."""
        hub = json.loads((self.run_dir / "hub.json").read_text())["pid"]
        ranks = link = 0.0
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                line = (folder / "cmdline").read_bytes()
                if str(self.run_dir).encode() not in line or b"tensor-tracer\0train" not in line:
                    continue
                name, seconds = ticks(folder / "stat")
                if name == "tensor-tracer":
                    ranks += seconds
                    threads = (ticks(task / "stat") for task in (folder / "task").iterdir())
                    link += sum(used for thread, used in threads if thread == "tt-link")
        return CpuTimes(ranks, link, ticks(Path(f"/proc/{hub}/stat"))[1])


@contextlib.contextmanager
def run_of(
    shape: str, steps: int, data: Path, folder: Path, recorded: bool, options: tuple[str, ...]
) -> Iterator[Run]:
    candidate = Candidate("", ranks=2, threads=1, tensor=2)
    run_dir = folder / f"run{time.monotonic_ns()}"
    line = candidate.command(shape, steps, data, run_dir)
    line += ["--tensor-tracer-port", "0", "--tensor-tracer-wait", *options]
    if recorded:
        line += ["--record", str(run_dir)]
    with open(folder / "output.txt", "wb") as output:
        process = subprocess.Popen(
            line, env=candidate.environment(), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield Run(process, run_dir)
    finally:
        process.terminate()
        process.wait(20)


@dataclasses.dataclass(frozen=True)
class Result:
    """One set of one shape; shares in per cent of the ranks' CPU time."""

    tracer: float
    link: float
    hub: float
    microseconds: float  # of CPU time for each captured tensor on rank 0
    mib_per_step: float
    ratio: float
    low: float
    high: float

    @property
    def total(self) -> float:
        return self.tracer + self.link + self.hub


def entries_of(watched: Watched, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if watched.entries is not None:
        return watched.entries
    return [
        {"point": p["name"], "rows": 0, "compressor": {"kind": "stats"}}
        for p in points
        if "gradient_placement" in p and (watched.with_made or "formula" not in p)
    ]


def captures(entries: list[dict[str, Any]], points: list[dict[str, Any]]) -> int:
    layers = {p["name"]: p["last_layer"] - p["first_layer"] + 1 for p in points}
    return sum(layers[entry["point"]] for entry in entries)


def write_inputs(shape: str, folder: Path) -> None:
    """Eight prompts, and a vector of random directions."""
    (folder / "probes.txt").write_text("".join(f"prompt {number}: how do I boil an egg?\n" for number in range(8)))
    (folder / "vectors").mkdir(exist_ok=True)
    size = ALL_SHAPES[shape]
    rows = np.random.default_rng(0).standard_normal((size.layers + 1, size.hidden), np.float32)
    np.save(folder / "vectors" / "evil.npy", rows)


def measure(
    watched: Watched, shape: str, chosen: argparse.Namespace, data: Path, folder: Path
) -> Result:
    steps = chosen.steps
    train_iters = 6 + steps + 2 * (steps // BLOCK) * (BLOCK + 3)
    write_inputs(shape, folder)
    options = tuple(option.format(folder=folder) for option in watched.options)
    with run_of(shape, train_iters, data, folder, chosen.record, options) as run:
        entries = entries_of(watched, run.points)
        legacy = run.watch_by_legacy() if watched.legacy else None
        receiver = legacy or run
        first = run.watch(entries) + 2  # two steps to warm up
        run.wait_for_step(first)
        begin, bytes_begin = run.cpu_times(), receiver.bytes_received
        last = first + steps
        updates_begin = legacy.updates if legacy else 0
        run.wait_for_step(last)
        if legacy:
            print(f"{(legacy.updates - updates_begin) / steps:.2f} updates a step", file=sys.stderr)
        used, received = run.cpu_times().since(begin), receiver.bytes_received - bytes_begin
        tracer_ms = sum(run.steps[step]["tracer_ms"] for step in range(first + 1, last + 1))
        # Prompts run between steps, and a block of steps has them or not.
        pairs = [] if watched.has_prompts else paired_blocks(run, entries, steps // BLOCK)
        in_tracer, of_ranks = run.seconds_of_ranks(train_iters, folder / "output.txt")
    rank_0 = sum(step["tracer_ms"] for step in run.steps.values()) * 1e-3
    per_rank_0 = in_tracer / rank_0 if rank_0 > 1e-3 else 1.0
    share = per_rank_0 * tracer_ms * 1e-3 / used.ranks
    low, high = bootstrap(pairs) if pairs else (math.nan, math.nan)
    return Result(
        tracer=100 * (in_tracer / of_ranks if watched.has_prompts else share),
        link=100 * used.link / used.ranks,
        hub=100 * used.hub / used.ranks,
        microseconds=1e3 * tracer_ms / steps / max(1, captures(entries, run.points)),
        mib_per_step=received / steps / 2**20,
        ratio=ratio_of(pairs) if pairs else math.nan,
        low=low,
        high=high,
    )


Pair = tuple[float, float]  # mean step time in ms: watched, unwatched


def paired_blocks(run: Run, entries: list[dict[str, Any]], count: int) -> list[Pair]:
    """Alternating blocks; the first step under a plan is left out."""
    pairs = []
    for _ in range(count):
        times = []
        for plan in (entries, []):
            first = run.watch(plan) + 1
            run.wait_for_step(first + BLOCK - 1)
            times.append(statistics.mean(run.steps[first + i]["step_ms"] for i in range(BLOCK)))
        pairs.append((times[0], times[1]))
    return pairs


def ratio_of(pairs: list[Pair]) -> float:
    return sum(on for on, _ in pairs) / sum(off for _, off in pairs)


def bootstrap(pairs: list[Pair], rounds: int = 2000) -> Pair:
    """The 2.5th and 97.5th percentile of the ratio over pairs drawn with replacement."""
    draw = random.Random(1)
    ratios = sorted(ratio_of(draw.choices(pairs, k=len(pairs))) for _ in range(rounds))
    return ratios[rounds // 40], ratios[-rounds // 40]


def table(shape: str, results: dict[str, Result], recorded: bool) -> str:
    lines = [
        "| watched | tracer % | link % | hub % | sum % | goal % | µs per tensor | MiB per step "
        "| step time watched / unwatched (95 %) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for watched in SETS:
        if (found := results.get(watched.name)) is None:
            continue
        goal = (watched.recorded_goals if recorded else watched.goals).get(shape)
        verdict = "" if goal is None else f"< {goal}: {'met' if found.total < goal else 'missed'}"
        if (most := watched.ratio_goal) is not None:
            verdict = f"step time {most}: {'met' if found.ratio <= most else 'missed'}"
        times = f"{found.ratio:.3f} ({found.low:.3f}-{found.high:.3f})"
        lines.append(
            f"| {watched.name} | {found.tracer:.3f} | {found.link:.3f} | {found.hub:.3f} "
            f"| {found.total:.3f} | {verdict} | {found.microseconds:.0f} "
            f"| {found.mib_per_step:.2f} | {'–' if math.isnan(found.ratio) else times} |"
        )
    return "\n".join(lines)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh tracer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--shape", choices=ALL_SHAPES, action="append", help="default: all of them")
    parser.add_argument("--steps", type=int, default=40, help="watched throughout; then as many "
                        "again in each kind of block")
    parser.add_argument("--only", default="", help="sets whose name holds this text")
    parser.add_argument("--record", action="store_true", help="also record to a file")
    parser.add_argument("--append", type=Path, help="also append the result to this file")
    parsed = parser.parse_args()
    parsed.rounds, parsed.warm_up = 1, 0
    return parsed


def main() -> None:
    chosen = options()
    with tempfile.TemporaryDirectory(prefix="tt-bench-") as name:
        folder = Path(name)
        data = folder / "random.txt"
        data.write_bytes(random.Random(1).randbytes(1 << 22))
        report = heading(chosen).replace("### Training", "### Watching")
        for shape in chosen.shape or ALL_SHAPES:
            results = {}
            for watched in SETS:
                if shape in watched.shapes and chosen.only.lower() in watched.name.lower():
                    results[watched.name] = measure(watched, shape, chosen, data, folder)
                    print(table(shape, results, chosen.record), file=sys.stderr)
            rows = table(shape, results, chosen.record)
            report += f"\n\n{describe(shape)}{' Recorded.' if chosen.record else ''}\n\n{rows}\n"
    print(report)
    if chosen.append:
        with open(REPOSITORY / chosen.append, "a") as file:
            file.write(f"\n{report}")


if __name__ == "__main__":
    main()
