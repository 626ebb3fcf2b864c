"""The whole program as people meet it: bad input, faults, signals, the README's plain line."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Flags, binary, command, environment, tiny_flags, write_text
from viewer import LiveRun, assert_memory_is_flat, live_run


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Flags:
    return tiny_flags(write_text(tmp_path_factory.mktemp("data") / "text.txt"))


def run(line: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs to the end; a rank that hangs is a failure by time-out."""
    return subprocess.run(
        line, env=env or environment(), capture_output=True, text=True, timeout=30, check=False
    )


def processes_naming(text: str) -> list[str]:
    """Command lines of living processes that hold this text."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if text in words:
            found.append(words)
    return found


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)


BAD_INPUT = {
    "heads": ({"num_attention_heads": 2, "tensor_model_parallel_size": 4}, 4,
              "--num-attention-heads: 2 is not divisible by --tensor-model-parallel-size 4"),
    "world size": ({"tensor_model_parallel_size": 2}, 3,
                   "world size 3, tensor-parallel size 2, pipeline-parallel size 1: 2 x 1 = 2 does not divide 3"),
    "batch": ({"global_batch_size": 7}, 2, "--global-batch-size: 7 is not divisible by"),
    "missing data": ({"data_path": "no/such/file"}, 2, "\"no/such/file\" does not exist"),
    "empty data": ({"data_path": "empty.txt"}, 2, "\"empty.txt\" holds no text"),
    "little data": ({"seq_length": 60000}, 2, "sequences of 60000 tokens"),
    "unknown flag": ({"num_layer": 2}, 2, "unknown flag --num-layer; did you mean --num-layers?"),
    "not a number": ({"num_layers": "two"}, 2, "--num-layers"),
    "missing config": ({"config": "no/such.json"}, 2, "no/such.json"),
    "missing plan": ({"tensor_tracer_port": 0, "tensor_tracer_plan": "no/plan.json"}, 2,
                     "--tensor-tracer-plan: \"no/plan.json\" cannot be read"),
    "plan of another form": ({"tensor_tracer_port": 0, "tensor_tracer_plan": "plan.json"}, 2,
                             "plan.json: plan: must be an object"),
    "seed": ({"seed": 2**63}, 2, "--seed: 9223372036854775808 is outside of -2^63 to 2^63 - 1"),
    "ranks": ({"tensor_model_parallel_size": 2}, 3,
              "start a multiple of 2 ranks or change --tensor-model-parallel-size\n"),
    "context parallelism": ({"context_parallel_size": 2}, 2, "unknown flag --context-parallel-size"),
    "sequence parallelism": ({"sequence_parallel": True}, 2, "unknown flag --sequence-parallel"),
    "pipeline": ({"pipeline_model_parallel_size": 2}, 2, "unknown flag --pipeline-model-parallel-size"),
    "pause timeout": ({"tensor_tracer_pause_timeout": 100000}, 2, "--tensor-tracer-pause-timeout"),
    "ready timeout": ({"tensor_tracer_ready_timeout": 0.05}, 2, "--tensor-tracer-ready-timeout"),
    "log interval": ({"log_interval": 0}, 2, "--log-interval: 0 is not above 0"),
    "no such normalization": ({"normalization": "BatchNorm"}, 2, '"BatchNorm" is not LayerNorm or RMSNorm'),
    "port out of range": ({"tensor_tracer_port": 70000}, 2, "--tensor-tracer-port"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line_and_exit_code_2(
    case: str, flags: Flags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, ranks, message = BAD_INPUT[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").touch()
    (tmp_path / "plan.json").write_text("[]")
    done = run(command({**flags, "run_dir": str(tmp_path / "run"), **change}, ranks))
    ours = [line for line in done.stderr.splitlines(keepends=True) if line.startswith("tensor-tracer:")]
    assert done.returncode == 2, done.stderr
    assert len(ours) == 1 and message in ours[0], done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("prompts", "message"),
    [(256, "would have 294912 tokens, removed sets included; the limit is 262144"),
     (1, "32 prompt sets are more than 31")],
)
def test_more_prompts_than_are_told_are_refused(
    prompts: int, message: str, flags: Flags, tmp_path: Path
) -> None:
    files = [tmp_path / f"{number}.txt" for number in range(32)]
    for file in files:
        file.write_text(("\x01" * 128 + "\n") * prompts)
    given = {"run_dir": str(tmp_path / "run"), "tensor_tracer_port": 0, "seq_length": 128}
    done = run([*command({**flags, **given}), "--monitor-prompts", *map(str, files)])
    assert done.returncode == 2, done.stderr
    assert message in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


CONFIGS = {
    "unknown key": ('{"num_layer": 2}', 'config.json: unknown key "num_layer"; did you mean "num_layers"?'),
    "not JSON": ('{"num_layers": 2', "not one JSON object"),
    "nested": ('{"num_layers": {"a": 2}}', 'key "num_layers" must be a number'),
    "wrong type": ('{"num_layers": "many"}', "num-layers"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_bad_configuration_names_the_file_or_key(case: str, flags: Flags, tmp_path: Path) -> None:
    text, message = CONFIGS[case]
    (tmp_path / "config.json").write_text(text)
    without = {name: value for name, value in flags.items() if name != "num_layers"}
    done = run(command({**without, "config": str(tmp_path / "config.json")}))
    assert done.returncode == 2
    assert message in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_flags_win_over_the_configuration(flags: Flags, tmp_path: Path) -> None:
    config = {**flags, "train_iters": 3, "log_format": "json", "data_path": [flags["data_path"]]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    line = [str(binary()), "train", "--config", str(tmp_path / "config.json")]
    assert len(run(line).stdout.splitlines()) == 3
    assert len(run([*line, "--train-iters", "2"]).stdout.splitlines()) == 2


def test_shipped_configurations_are_taken(flags: Flags) -> None:
    for path in sorted((Path(__file__).parents[2] / "configs/runs").glob("*.json")):
        line = ["--data-path", str(flags["data_path"]), "--train-iters", "1", "--eval-iters", "1"]
        done = run([str(binary()), "train", "--config", str(path), *line,
                    "--tensor-model-parallel-size", "1"])
        assert done.returncode == 0, done.stderr


@pytest.mark.nightly(suite="runs")
def test_a_cpu_on_which_bf16_is_slow_is_named(flags: Flags) -> None:
    known = Path("/proc/cpuinfo").read_text().split()
    is_fast = all(f"avx512{part}" in known for part in ("vl", "bw", "dq"))
    options = {"--bf16": {"bf16": True}, "--params-dtype bfloat16": {"params_dtype": "bfloat16"}}
    for name, option in options.items():
        done = run(command({**flags, "train_iters": 1, **option}))
        slow = f"slow: this CPU has no AVX-512, which bf16 needs to be faster than float32; leave out {name}"
        assert (slow in done.stdout) != is_fast, done.stdout
    assert "slow" not in run(command({**flags, "train_iters": 1})).stdout


def test_port_in_use_ends_every_rank(flags: Flags, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(command({**flags, "tensor_tracer_port": port, "tensor_model_parallel_size": 2,
                            "run_dir": str(tmp_path / "run")}, 2))
    assert done.returncode == 2
    assert str(port) in done.stderr and "--tensor-tracer-port" in done.stderr
    assert processes_naming(str(tmp_path)) == []


@pytest.mark.nightly(suite="runs")
def test_a_stopped_rank_is_not_ready(flags: Flags, tmp_path: Path) -> None:
    """Rank 1 stands still: rank 0 hangs in a collective, while its other threads live."""
    changes = {"train_iters": 1_000_000, "tensor_model_parallel_size": 2, "tensor_tracer_ready_timeout": 1}
    with live_run({**flags, **changes}, tmp_path, 2) as started, started.viewer() as viewer:
        viewer.wait_for(lambda: len(viewer.steps()) > 3, "some steps")
        header = {"Authorization": f"Bearer {(started.run_dir / 'token').read_text().strip()}"}

        def status() -> int:
            url = f"http://{started.address()}/readyz"
            try:
                return urllib.request.urlopen(urllib.request.Request(url, headers=header)).status
            except urllib.error.HTTPError as error:
                return error.code

        assert status() == 200
        ranks = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ")
                 if is_rank(path, 1, str(tmp_path))]
        assert len(ranks) == 1
        os.kill(ranks[0], signal.SIGSTOP)
        try:
            # As an open plan editor does, whose questions another thread answers.
            end = time.monotonic() + 6
            while status() == 200 and time.monotonic() < end:
                viewer.request("plan.check", {"plan": {"entries": []}})
                time.sleep(0.05)
            assert status() == 503
        finally:
            os.kill(ranks[0], signal.SIGCONT)
        wait_until(lambda: status() == 200, 6, "ready again")


def is_rank(environ: Path, rank: int, run: str) -> bool:
    try:
        named = f"OMPI_COMM_WORLD_RANK={rank}".encode() in environ.read_bytes().split(b"\0")
        line = (environ.parent / "cmdline").read_bytes()
    except OSError:
        return False
    return named and run.encode() in line and line.split(b"\0")[0].endswith(b"/tensor-tracer")


def test_help_explains_every_flag() -> None:
    """Also those that README speaks of, but for the hub's and the scripts' own."""
    text = run([str(binary()), "train", "--help"]).stdout
    blocks = re.split(r"\n(?=  -)", text)[1:]
    assert len(blocks) > 60
    for block in blocks:
        words = re.sub(r"^  \S+(,\S+)?( [A-Z]\S*| \[.*?\]| \.\.\.)*", "", block)
        assert re.search(r"[a-z]{2,}", words), f"no word about {block!r}"
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    elsewhere = {"--open", "--model", "--mpi", "--point", "--to", "--output", "--compare", "--quiet"}
    elsewhere |= {"--standalone", "--no-python", "--nproc-per-node"}  # of torchrun
    for flag in set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", readme)) - elsewhere:
        assert re.search(rf"[ ,]{flag}(?![\w-])", text), flag
    assert run([str(binary()), "--version"]).stdout.startswith("tensor-tracer 0.")
    assert run([str(binary()), "hub", "--help"]).returncode == 0


def test_help_has_plain_types_and_examples() -> None:
    text = run([str(binary()), "train", "--help"]).stdout
    types = {found[1] for found in re.finditer(r"^  --[a-z0-9-]+ ([A-Z][^\s=]*)", text, re.M)}
    assert types == {"INT", "NUMBER", "TEXT", "SIZE", "FILE", "ON|OFF"}
    examples = text.partition("Examples:\n")[2]
    commands = examples.replace("\\\n", " ").splitlines()
    assert sum("tensor-tracer train " in line for line in commands) == 3
    for flag in re.findall(r"--[a-z-]+", examples):
        assert f"\n  {flag}" in text, flag


@pytest.mark.parametrize("words", [["train"], ["points"], ["check"], ["replay"], ["runs"], ["runs", "remove"]], ids=" ".join)
def test_each_commands_help_has_one_form(words: list[str]) -> None:
    text = run([str(binary()), *words, "--help"]).stdout
    usage = re.search("^Usage: (.*)", text, re.M)
    assert usage is not None and usage[1].startswith(f"tensor-tracer {' '.join(words)} [flags]")
    assert "print this help and exit" in text
    for leftover in ("{", "OPTIONS", "REQUIRED", "TEXT:", "Positionals"):
        assert leftover not in text, leftover


def test_the_readmes_plain_line(flags: Flags, tmp_path: Path) -> None:
    """As it stands there, with the text and the port of this test and a short end."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    plain = "mpirun --quiet -np 2 tensor-tracer train --data-path my_texts/ --tensor-tracer-port 8765"
    assert f"\n{plain}\n" in readme and "export PATH=$PWD/build/release/bin:$PATH" in readme
    typed = plain.replace("my_texts/", str(flags["data_path"])).replace("8765", "0")
    ends = f"--train-iters 2 --run-dir {tmp_path / 'run'} --eval-iters 1 --seq-length 64"
    env = environment() | {"PATH": f"{binary().parent}:{os.environ['PATH']}", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    done = run([*typed.split(), *ends.split()], env)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("step      2/2  loss") and "valid loss" in line for line in lines)
    token = (tmp_path / "run/token").read_text().strip()
    assert token not in done.stdout and str(tmp_path / "run/token") in done.stdout


def test_json_log_is_all_of_standard_output(flags: Flags, tmp_path: Path) -> None:
    done = run(command({**flags, "train_iters": 3, "log_format": "json", "tensor_tracer_port": 0,
                        "eval_interval": 2, "run_dir": str(tmp_path / "run")}))
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert [step["step"] for step in steps] == [1, 2, 3]
    told = {"step", "loss", "lr", "grad_norm", "tokens_per_second", "step_ms", "consumed_tokens"}
    tokens = int(flags["global_batch_size"]) * int(flags["seq_length"])
    for step in steps:
        assert told <= step.keys() and step["consumed_tokens"] == step["step"] * tokens
        assert step["step_ms"] > 0 and ("valid_loss" in step) == (step["step"] in (2, 3))
        assert step["tokens_per_second"] == pytest.approx(tokens / step["step_ms"] * 1e3, rel=0.01)
    assert "connected to the hub" in done.stderr and "unigram entropy" in done.stderr


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_log_interval_leaves_out_lines_but_those_of_evaluations_and_the_end(
    log_format: str, flags: Flags
) -> None:
    done = run(command({**flags, "train_iters": 11, "log_format": log_format, "log_interval": 4, "eval_interval": 6}))
    if log_format == "json":
        steps = [json.loads(line)["step"] for line in done.stdout.splitlines()]
    else:
        steps = [int(step) for step in re.findall(r"^step +(\d+)/11 ", done.stdout, re.MULTILINE)]
    assert steps == [4, 6, 8, 11]


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_every_process_within_two_seconds(
    ended_by: signal.Signals, flags: Flags, tmp_path: Path
) -> None:
    long = {**flags, "train_iters": 100000, "tensor_model_parallel_size": 2}
    with live_run(long, tmp_path, 2) as started, started.viewer() as viewer:
        viewer.wait_for(lambda: len(viewer.steps()) > 3, "some steps")
        port = int(started.address().rsplit(":", 1)[1])
        started.process.send_signal(ended_by)
        wait_until(lambda: processes_naming(str(tmp_path)) == [], 2.0, "no process is left")
        assert started.process.wait(10) == 1, "mpirun's own, docs/errors.md"
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", port))


def test_killed_rank_ends_the_job_and_the_hub(flags: Flags, tmp_path: Path) -> None:
    long = {**flags, "train_iters": 100000, "tensor_model_parallel_size": 2}
    with live_run(long, tmp_path, 2) as started, started.viewer() as viewer:
        viewer.wait_for(lambda: len(viewer.steps()) > 3, "some steps")
        ranks = subprocess.run(["pgrep", "-P", str(started.process.pid)], capture_output=True,
                               text=True, check=True).stdout.split()
        os.kill(int(ranks[-1]), signal.SIGKILL)
        wait_until(lambda: processes_naming(str(tmp_path)) == [], 10.0, "no process is left")
    assert started.process.returncode != 0


def hub_pid(started: LiveRun) -> int:
    return json.loads((started.run_dir / "hub.json").read_text())["pid"]


def test_killed_hub_comes_back_and_training_goes_on(flags: Flags, tmp_path: Path) -> None:
    long = {**flags, "train_iters": 100000}
    with live_run(long, tmp_path) as started:
        with started.viewer() as viewer:
            viewer.wait_for(lambda: len(viewer.steps()) > 3, "some steps")
            before, address = viewer.steps()[-1], started.address()
        old = hub_pid(started)
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: hub_pid(started) != old, 5.0, "a new hub")
        assert started.address() == address
        with started.viewer() as viewer:
            viewer.wait_for(lambda: viewer.steps() and viewer.steps()[-1] > before + 20, "steps")
            viewer.wait_for(lambda: len(viewer.records) > 0, "records")
        assert started.process.poll() is None


def test_closing_the_page_while_paused_ends_the_pause(flags: Flags, tmp_path: Path) -> None:
    long = {**flags, "train_iters": 100000, "tensor_tracer_pause_timeout": 1}
    with live_run(long, tmp_path) as started:
        with started.viewer() as viewer:
            viewer.request("control.claim", {"name": "Ada"})
            paused_at = viewer.request("control.pause")["step"]
            viewer.drain(0.5)
            assert max(viewer.steps(), default=0) <= paused_at
        with started.viewer() as other:
            other.wait_for(
                lambda: max(other.steps(), default=0) > paused_at + 5, "training goes on", 10
            )


@pytest.mark.nightly(suite="runs")
def test_paused_ranks_sleep(flags: Flags, tmp_path: Path) -> None:
    long = {**flags, "train_iters": 100000, "tensor_model_parallel_size": 2}
    with live_run(long, tmp_path, 2) as started, started.viewer() as viewer:
        viewer.request("control.claim", {"name": "Ada"})
        viewer.request("control.pause")
        ranks = subprocess.run(["pgrep", "-P", str(started.process.pid)], capture_output=True,
                               text=True, check=True).stdout.split()

        def seconds_of_cpu() -> float:
            ticks = 0
            for rank in ranks:
                fields = Path(f"/proc/{rank}/stat").read_text().rsplit(")", 1)[1].split()
                ticks += int(fields[11]) + int(fields[12])
            return ticks / os.sysconf("SC_CLK_TCK")

        before = seconds_of_cpu()
        viewer.drain(2.0)
        assert seconds_of_cpu() - before < 0.4, "two paused ranks took over 10 % of a core each"


@pytest.mark.nightly(suite="runs")
def test_a_viewer_that_never_reads_costs_no_step_and_no_memory(flags: Flags, tmp_path: Path) -> None:
    whole = {"rows": 0, "compressor": {"kind": "none"}, "micro_batches": "0-1"}
    plan = {"entries": [whole | {"point": "QKV"}, whole | {"point": "MLP1"}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    # 200 MB of records.
    long = {**flags, "train_iters": 500, "tensor_tracer_plan": str(tmp_path / "plan.json"),
            "tensor_model_parallel_size": 2}  # fmt: skip
    memory: list[dict[int, float]] = []
    with live_run(long, tmp_path / "live", 2) as started:
        with started.viewer(max_queue=1):  # says hello and never reads again
            time.sleep(1)  # by then every buffer is as full as it gets
            while started.process.poll() is None:
                memory.append(started.memory_mib())
                time.sleep(0.1)
            started.wait(60)
    steps = [line for line in started.output().splitlines() if '"step":500' in line]
    assert len(steps) == 1
    there = set.intersection(*(set(sample) for sample in memory[: len(memory) // 2]))
    living = [sample for sample in memory if there <= sample.keys()]
    assert len(there) >= 3 and len(living) > 10, "two ranks and a hub"
    assert_memory_is_flat([{process: sample[process] for process in there} for sample in living])


def test_loss_that_is_not_finite_stops_every_rank_with_one_message(
    flags: Flags, tmp_path: Path
) -> None:
    wild = {**flags, "lr": 1e30, "lr_warmup_iters": 0, "clip_grad": 0, "train_iters": 50,
            "tensor_model_parallel_size": 2, "run_dir": str(tmp_path / "run")}
    done = run(command(wild, 2))
    assert done.returncode == 17
    assert "is not finite at step" in done.stderr
    assert re.search(r"not finite again \(persistent\): the first such number is in \S+.* on rank [01]", done.stderr)
