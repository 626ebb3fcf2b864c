"""Checkpoints: a resumed run equals the uninterrupted one, damaged files are found, PyTorch reads the files,
and at no moment does a killed or stopped run leave a checkpoint that cannot be loaded."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import re
import resource
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from checkpoint_runs import (
    CASES,
    DROPOUT,
    HALF,
    STEPS,
    Bits,
    Damage,
    Mesh,
    Trainings,
    assert_goes_on,
    assert_same_bits,
    checkpoint,
    checkpoints,
    damaged_copy,
    flip,
    hidden,
    linked_copy,
    not_told,
    run,
    started,
    state_of,
    step_of,
    steps_of,
    weights_of,
)
from decoder import crc32c
from program import step_log, write_text
from tensor_tracer import open_recording
from viewer import RequestError, live_run

NIGHTLY = pytest.mark.nightly(suite="checkpoints")
IN_CI = ("one rank", "TP 2", "DP 2")
LONG = 100_000
# The ramp has not ended at the save.
PROGRAM = "alpha = param(0.5, min=0.0, max=2.0)\nlayers[1].output *= 1 + alpha"
RAMP = "alpha = param(0.5, ramp_from=0.0, ramp_steps=10)\nlayers[1].output *= 1 + alpha"
RECORDED = {"entries": [{"point": point, "rows": 0, "compressor": {"kind": "none"}}
                        for point in ("HiddenStates", "QKV", "MLP1", "Logits", "Updates")]}  # fmt: skip
NOISE = "alpha = param(0.5)\nlayers[1].output += alpha * noise(layers[1].output)"


def in_ci(names: list[str]) -> list[Any]:
    return [name if name in IN_CI else pytest.param(name, marks=NIGHTLY) for name in names]


@pytest.fixture(scope="module")
def trainings(flags, tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    return Trainings(flags, tmp_path_factory.mktemp("checkpoints"))


@pytest.mark.parametrize("name", in_ci(list(CASES)))
def test_a_resumed_run_equals_the_uninterrupted_one(name: str, trainings: Trainings, tmp_path: Path) -> None:
    """The same bits on the same mesh: losses, gradient norms, weights and the optimizer's state, with dropout."""
    folder, case = trainings.folder(name), CASES[name]
    done = run(trainings.flags, tmp_path, case.mesh, **case.flags, load=folder / checkpoint(HALF),
               save=tmp_path / "saved").good()  # fmt: skip
    assert done.resumed_after() == HALF
    assert "changed since the checkpoint" not in done.errors
    assert done.steps() == trainings.rest(name)
    assert checkpoints(tmp_path / "saved") == [checkpoint(STEPS)]
    assert_same_bits(state_of(tmp_path / "saved" / checkpoint(STEPS)), state_of(folder / checkpoint(STEPS)))


@pytest.mark.parametrize("name", in_ci(list(CASES)))
def test_a_checkpoint_holds_the_state(name: str, trainings: Trainings) -> None:
    """The weights that the ranks gathered after the same step, and two moments and a count for each of them; of
    bfloat16 weights the main weights, too."""
    state = state_of(trainings.folder(name) / checkpoint(HALF))
    weights = weights_of(state)
    assert_same_bits(weights, trainings.exported(name))
    kinds = ["exp_avg", "exp_avg_sq", "step"] + ["main"] * (name == "bfloat16")
    assert set(state) - set(weights) == {f"optimizer.{kind}.{weight}" for kind in kinds for weight in weights}
    for weight, values in weights.items():
        assert state[f"optimizer.exp_avg.{weight}"].shape == state[f"optimizer.exp_avg_sq.{weight}"].shape
        assert state[f"optimizer.exp_avg.{weight}"].shape == values.shape
        assert state[f"optimizer.step.{weight}"].item() == HALF
        if name == "bfloat16":
            main = state[f"optimizer.main.{weight}"]
            assert main.dtype == torch.float32 and torch.equal(main.bfloat16(), values)


def test_a_shorter_run_saves_the_same(trainings: Trainings, tmp_path: Path) -> None:
    """--train-iters does not change the steps before it, and saving changes no bit of a run."""
    short = run(trainings.flags, tmp_path / "short", save=tmp_path / "saved", train_iters=HALF).good()
    assert re.search(rf"^saved  step {HALF} in {re.escape(str(tmp_path / 'saved' / checkpoint(HALF)))}, ",
                     short.errors, re.M), short.errors  # fmt: skip
    folder = trainings.folder("one rank")
    assert_same_bits(state_of(tmp_path / "saved" / checkpoint(HALF)), state_of(folder / checkpoint(HALF)))
    unsaved = run(trainings.flags, tmp_path / "unsaved").good()
    assert unsaved.steps() == trainings.of("one rank").steps()
    longer = run(trainings.flags, tmp_path / "longer", load=tmp_path / "saved").good()
    assert longer.steps() == trainings.rest("one rank")
    assert f"changed since the checkpoint: --train-iters from {HALF} to {STEPS}" in longer.errors


FLOAT64 = {"params_dtype": "float64"}
MESHES: list[Any] = [
    ((2, 1), (1, 1), {}), ((2, 1), (1, 2), {}), ((1, 1), (2, 1), {}),
    pytest.param((2, 2), (4, 1), {}, marks=NIGHTLY),
    pytest.param((4, 1), (1, 1), CASES["llama"].flags, marks=NIGHTLY),
    pytest.param((1, 2), (4, 1), CASES["llama"].flags, marks=NIGHTLY),
    pytest.param((2, 1), (1, 1), CASES["one query group"].flags, marks=NIGHTLY),
]  # fmt: skip


@pytest.fixture(scope="module")
def saved_on(trainings: Trainings, tmp_path_factory: pytest.TempPathFactory):
    """Float64 checkpoints of step HALF by mesh and flags, with all steps of their run."""
    made: dict[str, tuple[Path, dict[int, Bits]]] = {}

    def find(mesh: Mesh, changes: dict[str, Any]) -> tuple[Path, dict[int, Bits]]:
        key = json.dumps([mesh, changes])
        if key not in made:
            folder = tmp_path_factory.mktemp("mesh")
            done = run(trainings.flags, folder, mesh, **FLOAT64, **changes, save=folder / "saved", save_interval=HALF)
            made[key] = (folder / "saved" / checkpoint(HALF), done.good().steps())
        return made[key]

    return find


@pytest.mark.parametrize(("first", "second", "changes"), MESHES, ids=str)
def test_resumes_on_another_mesh(
    first: Mesh, second: Mesh, changes: dict[str, Any], saved_on, trainings: Trainings, tmp_path: Path
) -> None:
    """Within rounding, in float64: dropout and the order of the data do not depend on the mesh."""
    path, whole = saved_on(first, changes)
    done = run(trainings.flags, tmp_path, second, **FLOAT64, **changes, load=path).good()
    assert list(done.steps()) == list(range(HALF + 1, STEPS + 1))
    for step, (loss, norm) in done.steps().items():
        assert loss == pytest.approx(whole[step][0], rel=1e-9, abs=0), step
        assert norm == pytest.approx(whole[step][1], rel=1e-7, abs=0), step


@pytest.mark.parametrize("name", in_ci(["TP 2", "TP 4", "one query group", "llama", "llama, copied groups"]))
def test_pytorch_reads_a_checkpoint(name: str, trainings: Trainings) -> None:
    """Whole tensors, by torch.distributed.checkpoint on one process."""
    folder = trainings.folder(name) / checkpoint(HALF)
    state = state_of(folder)
    assert len(list(folder.glob("model-*.safetensors"))) >= CASES[name].mesh[0], "the weights are in parts"
    found = {key: torch.full_like(tensor, 7) for key, tensor in state.items()}
    dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(str(folder)), no_dist=True)
    assert_same_bits(found, state)
    assert_same_bits(weights_of(found), trainings.exported(name))


@pytest.mark.parametrize("flips", [20, pytest.param(1000, marks=NIGHTLY)])
def test_every_flipped_byte_is_found(flips: int, trainings: Trainings, tmp_path: Path) -> None:
    """Copies of the newest checkpoint with one changed byte each, in every file, and the one before. A run passes
    over all of them, names their files, and resumes."""
    source = trainings.folder("TP 2")
    files = sorted(path.name for path in (source / checkpoint(STEPS)).iterdir())
    generator = random.Random(11)
    for batch in range(0, flips, 100):
        folder, damages = tmp_path / f"{batch}", list[Damage]()
        linked_copy(source / checkpoint(HALF), folder / "all" / checkpoint(HALF))
        for index in range(batch, min(flips, batch + 100)):
            target = folder / "all" / checkpoint(1000 + index)
            damages.append(damaged_copy(source / checkpoint(STEPS), target, files[index % len(files)],
                                        lambda contents: flip(contents, generator)))  # fmt: skip
        done = run(trainings.flags, folder, (2, 1), load=folder / "all").good()
        assert not not_told(damages, done.errors)
        assert done.resumed_after() == HALF
        assert done.steps() == trainings.rest("TP 2")


def test_truncated_and_missing_files_are_found(trainings: Trainings, tmp_path: Path) -> None:
    source = trainings.folder("one rank")
    files = sorted(path.name for path in (source / checkpoint(STEPS)).iterdir())
    changes = [lambda old: old[: len(old) // 2], lambda old: old[:-1], lambda _: b"", lambda old: old + b"\0",
               lambda _: None]  # fmt: skip
    damages = list[Damage]()
    linked_copy(source / checkpoint(HALF), tmp_path / "all" / checkpoint(HALF))
    for file in files:
        for change in changes:
            target = tmp_path / "all" / checkpoint(1000 + len(damages))
            damages.append(damaged_copy(source / checkpoint(STEPS), target, file, change))
    done = run(trainings.flags, tmp_path, load=tmp_path / "all").good()
    assert not not_told(damages, done.errors)
    assert done.resumed_after() == HALF
    assert done.steps() == trainings.rest("one rank")


@pytest.mark.parametrize("mesh", [(1, 1), pytest.param((2, 1), marks=NIGHTLY)], ids=str)
@pytest.mark.parametrize("kind", ["model", "optimizer", "manifest.json"])
def test_only_damaged_checkpoints(kind: str, mesh: Mesh, trainings: Trainings, tmp_path: Path) -> None:
    source = trainings.folder("one rank") / checkpoint(STEPS)
    file = min(path.name for path in source.iterdir() if path.name.startswith(kind))
    damaged_copy(source, tmp_path / "all" / checkpoint(STEPS), file, lambda old: flip(old, random.Random(3)))
    done = run(trainings.flags, tmp_path, mesh, load=tmp_path / "all")
    assert done.code == 2, done.errors
    assert str(tmp_path / "all" / checkpoint(STEPS) / file) in done.errors
    assert not done.steps()


PROGRAMS = [{"name": "a", "keep": 1}], [{"name": "a", "parameters": [{"value": 1}]}], [{"since": "now"}], {"name": "a"}


def test_a_manifest_with_wrong_programs_is_damaged(trainings: Trainings, tmp_path: Path) -> None:
    """Its checksum is right. The checkpoint before is good."""
    for number, programs in enumerate(PROGRAMS):
        saved = tmp_path / str(number)
        for step in (HALF, STEPS):
            shutil.copytree(trainings.folder("one rank") / checkpoint(step), saved / checkpoint(step))
        manifest = saved / checkpoint(STEPS) / "manifest.json"
        form = json.loads(manifest.read_text())
        form["facts"]["programs"] = programs
        manifest.write_text(json.dumps(form))
        manifest.with_suffix(".crc32c").write_text(f"{crc32c(manifest.read_bytes()):08x}\n")
        alone = run(trainings.flags, tmp_path / f"alone{number}", load=saved / checkpoint(STEPS))
        assert alone.code == 2 and f"{manifest}" in alone.errors and "its programs are wrong" in alone.errors
    done = run(trainings.flags, tmp_path / "run", load=saved).good()
    assert done.resumed_after() == HALF and "a damaged checkpoint is passed over" in done.errors


REFUSED: dict[str, tuple[Any, list[str]]] = {
    "hidden_size": (64, ["--hidden-size: is 64, and the checkpoint has 32"]),
    "num_layers": (3, ["--num-layers: is 3, and the checkpoint has 2"]),
    "seed": (8, ["--seed: is 8, and the checkpoint has 7"]),
    "global_batch_size": (4, ["--global-batch-size: is 4, and the checkpoint has 8"]),
    "split": ("80,20", ["--split: is 80,20, and the checkpoint has 90,10"]),
    "params_dtype": ("float64", ["--params-dtype: is float64, and the checkpoint has float32"]),
    "hidden_dropout": (0.2, ["--hidden-dropout: is 0.2, and the checkpoint has 0.1"]),
    "train_iters": (STEPS, [f"--train-iters: {STEPS} leaves no step after step {STEPS}"]),
    "save_interval": (2, ["--save-interval", "--save FOLDER"]),
    "keep_last": (2, ["--keep-last", "--save FOLDER"]),
    "keep_best": (2, ["--keep-best", "--save FOLDER"]),
}

REFUSED_AT_NIGHT = ("num_layers", "params_dtype", "hidden_dropout", "keep_last", "keep_best")


def refused(parts: list[str], trainings: Trainings, folder: Path, mesh: Mesh = (1, 1), **changes: Any) -> None:
    loads: dict[str, Any] = {"load": trainings.folder("one rank"), "train_iters": 20}
    done = run(trainings.flags, folder, mesh, **loads | changes)
    assert done.code == 2, done.errors
    for part in parts:
        assert part in done.errors, done.errors
    assert not done.steps()


@pytest.mark.parametrize(
    "flag", [pytest.param(flag, marks=NIGHTLY if flag in REFUSED_AT_NIGHT else ()) for flag in REFUSED]
)
def test_refused_flags(flag: str, trainings: Trainings, tmp_path: Path) -> None:
    value, parts = REFUSED[flag]
    refused(parts, trainings, tmp_path, **{flag: value})


def test_two_ranks_refuse_together(trainings: Trainings, tmp_path: Path) -> None:
    refused(["--seed: is 8, and the checkpoint has 7"], trainings, tmp_path, (2, 1), seed=8)


def test_other_data_is_refused(trainings: Trainings, tmp_path: Path) -> None:
    """Of another size, and of the same size."""
    own = Path(str(trainings.flags["data_path"]))
    larger = write_text(tmp_path / "larger.txt", 70)
    sizes = [f"has {larger.stat().st_size} bytes", f"made with {own.stat().st_size} bytes"]
    refused(["--data-path: ", *sizes], trainings, tmp_path, data_path=larger)
    same_size = tmp_path / "same_size.txt"
    same_size.write_bytes(own.read_bytes()[::-1])
    refused(["--data-path: ", sizes[1]], trainings, tmp_path, data_path=same_size)


def test_folders_that_are_of_no_use(trainings: Trainings, tmp_path: Path) -> None:
    """An empty folder to load from, one that does not exist, and one that cannot be made to save in."""
    (tmp_path / "empty").mkdir()
    for name in ("empty", "absent"):
        refused(["--load", str(tmp_path / name)], trainings, tmp_path, load=tmp_path / name)
    (tmp_path / "file").touch()
    refused(["--save", str(tmp_path / "file/saved")], trainings, tmp_path, save=tmp_path / "file/saved")


def test_another_learning_rate_is_noted(trainings: Trainings, tmp_path: Path) -> None:
    """It acts from the first step of the resumed run on, whose loss is that of the weights before."""
    path = trainings.folder("one rank") / checkpoint(HALF)
    done = run(trainings.flags, tmp_path, load=path, lr=5e-4).good()
    assert "note   changed since the checkpoint: --lr from 0.001 to 0.0005" in done.errors
    assert done.errors.count("changed since the checkpoint") == 1
    rest = trainings.rest("one rank")
    assert done.steps()[HALF + 1] == rest[HALF + 1]
    assert done.steps()[HALF + 2] != rest[HALF + 2]


@pytest.mark.parametrize("mesh", [(1, 1), pytest.param((2, 1), marks=NIGHTLY)], ids=str)
@pytest.mark.parametrize("text", [PROGRAM, RAMP, pytest.param(NOISE, marks=NIGHTLY)], ids=["program", "ramp", "noise"])
def test_programs_in_force_are_restored(text: str, mesh: Mesh, trainings: Trainings, tmp_path: Path) -> None:
    """With their parameters, in the middle of a ramp too, if the resumed run is given no file, or the same."""
    (tmp_path / "steer.tti").write_text(text + "\n")
    whole = run(trainings.flags, tmp_path / "whole", mesh, interventions=tmp_path / "steer.tti",
                save=tmp_path / "saved", save_interval=4).good().steps()  # fmt: skip
    assert whole[1] != trainings.of("TP 2" if mesh == (2, 1) else "one rank").steps()[1] or text == RAMP
    assert whole[STEPS] != trainings.of("TP 2" if mesh == (2, 1) else "one rank").steps()[STEPS]
    rest = {step: bits for step, bits in whole.items() if step > 4}
    load = tmp_path / "saved" / checkpoint(4)
    assert run(trainings.flags, tmp_path / "rest", mesh, load=load).good().steps() == rest
    again = run(trainings.flags, tmp_path / "again", mesh, load=load, interventions=tmp_path / "steer.tti")
    assert again.good().steps() == rest
    (tmp_path / "steer.tti").write_text("layers[1].output *= 1.25\n")
    other = run(trainings.flags, tmp_path / "other", mesh, load=load, interventions=tmp_path / "steer.tti")
    assert other.good().steps()[STEPS] != rest[STEPS]


def test_a_folder_of_another_run_is_refused(trainings: Trainings, tmp_path: Path) -> None:
    """A run that forgets --load would replace the checkpoints of the run before."""
    saved = tmp_path / "saved"
    run(trainings.flags, tmp_path / "first", save=saved, train_iters=2).good()
    for changes in ({}, {"load": trainings.folder("one rank"), "train_iters": STEPS + 2}):
        refused = run(trainings.flags, tmp_path / "second", save=saved, **changes)
        assert refused.code == 2
        assert f'--save: "{saved}" holds checkpoints of another run; resume from it with --load' in refused.errors
    one = run(trainings.flags, tmp_path / "third", save=saved / checkpoint(2), load=saved)
    assert (one.code, checkpoints(saved)) == (2, [checkpoint(2)])
    assert "is one checkpoint; give the folder above it" in one.errors


def test_a_run_without_a_page_goes_on_with_one(trainings: Trainings, tmp_path: Path) -> None:
    """It has the default plan."""
    more = trainings.flags | DROPOUT | {"train_iters": STEPS + 2}
    more |= {"load": str(trainings.folder("one rank") / checkpoint(STEPS))}
    with live_run(more, tmp_path) as live:
        with live.viewer() as viewer:
            assert viewer.run is not None
            assert len(viewer.run["plan"]["entries"]) > 1
            viewer.wait_for(lambda: STEPS + 2 in viewer.steps(), "the last step")
        live.wait()


def test_name_and_plan_are_restored(trainings: Trainings, tmp_path: Path) -> None:
    """The id is new, and the recording begins after the step of the checkpoint."""
    entry = {"point": "MLP2", "layers": "2", "compressor": {"kind": "tile", "tiles": 3, "method": "mean"}}
    (tmp_path / "plan.json").write_text(json.dumps({"entries": [entry]}))
    run(trainings.flags, tmp_path / "first", tensor_tracer_plan=tmp_path / "plan.json", run_name="first",
        save=tmp_path / "saved").good()  # fmt: skip
    (tmp_path / "other.json").write_text(json.dumps({"entries": [entry | {"layers": "1"}]}))
    other = run(trainings.flags, tmp_path / "other", load=tmp_path / "saved", train_iters=STEPS + 1,
                tensor_tracer_plan=tmp_path / "other.json").good()  # fmt: skip
    assert "note   changed since the checkpoint: the plan of --tensor-tracer-plan" in other.errors
    former = open_recording(tmp_path / "first" / "run" / "run.ttrec")
    more = trainings.flags | DROPOUT | {"train_iters": STEPS + 2, "load": str(tmp_path / "saved")}
    with live_run(more, tmp_path / "second") as second:
        with second.viewer() as viewer:
            facts = viewer.run
            assert facts is not None
            assert facts["name"] == facts["parent"]["name"] == "first"
            assert facts["parent"]["id"] == former.run != facts["id"]
            assert facts["parent"]["step"] == STEPS
            assert facts["parent"]["checkpoint"] == str(tmp_path / "saved" / checkpoint(STEPS))
            taken = facts["plan"]["entries"]
            assert [{name: one[name] for name in entry} for one in taken] == [entry]
            viewer.wait_for(lambda: STEPS + 2 in viewer.steps(), "the last step")
        second.wait()
    recording = open_recording(second.run_dir / "run.ttrec")
    assert recording.run == facts["id"]
    assert recording.scalars("loss")[0].tolist() == [STEPS + 1, STEPS + 2]
    assert {record.step for record in recording.records()} == {STEPS + 1, STEPS + 2}


def test_a_viewer_asks_for_a_checkpoint(trainings: Trainings, tmp_path: Path) -> None:
    """While the run is paused. The command of the run's facts resumes from it."""
    flags = trainings.flags | DROPOUT | {"train_iters": STEPS, "save": str(tmp_path / "saved")}
    with live_run(flags, tmp_path / "first", 2) as first:
        with first.viewer() as viewer:
            viewer.request("control.claim", {"name": "Ada"})
            step = viewer.request("control.step", {"count": 3})["step"]
            entry = {"point": "MLP2", "layers": "2", "compressor": {"kind": "tile", "tiles": 3, "method": "mean"}}
            viewer.request("plan.set", {"plan": {"entries": [entry]}})
            assert viewer.request("checkpoint.save") == {"step": step, "ranks": 2}
            viewer.wait_for(lambda: bool(viewer.named("checkpoint")), "the checkpoint")
            (saved,) = viewer.named("checkpoint")
            assert (saved["step"], saved["path"]) == (step, str(tmp_path / "saved" / checkpoint(step)))
            assert saved["bytes"] > 0
            assert viewer.run is not None
            words = shlex.split(viewer.run["resume_command"])
            viewer.request("control.continue")
        assert first.process.wait(60) == 0
    assert words[:5] == ["mpirun", "-np", "2", "tensor-tracer", "train"]
    assert words[-2:] == ["--load", str(tmp_path / "saved")]
    manifest = json.loads((tmp_path / "saved" / checkpoint(step) / "manifest.json").read_text())
    assert [one["point"] for one in manifest["facts"]["plan"]["entries"]] == ["MLP2"]
    whole = steps_of(first.output())
    options = {word[2:]: value for word, value in itertools.pairwise(words) if word.startswith("--")}
    assert options["save"] == str(tmp_path / "saved")
    done = run(trainings.flags, tmp_path / "rest", (1, 2), load=tmp_path / "saved" / checkpoint(step)).good()
    assert done.steps() == {one: bits for one, bits in whole.items() if one > step} != {}


def test_a_run_without_checkpoints_refuses_to_save_one(trainings: Trainings, tmp_path: Path) -> None:
    with live_run(trainings.flags | {"train_iters": 10_000}, tmp_path) as live, live.viewer() as viewer:
        viewer.request("control.claim", {"name": "Ada"})
        with pytest.raises(RequestError, match="no_checkpoints: this run saves no checkpoints"):
            viewer.request("checkpoint.save")
        assert viewer.run is not None
        assert "resume_command" not in viewer.run


@pytest.mark.parametrize("mesh", [(1, 1), (2, 1)], ids=str)
def test_sigusr1_saves(mesh: Mesh, trainings: Trainings, tmp_path: Path) -> None:
    """The checkpoint is that of the last step that was printed."""
    folder = tmp_path / "saved"
    with started(trainings.flags, tmp_path / "first", mesh, train_iters=10_000, save=folder) as first:
        first.wait_for(lambda now: len(now.steps()) > 3, "steps")
        done = first.ask_to_stop()
    assert done.code == 19, done.errors
    last = max(done.steps())
    assert 3 < last < 10_000
    assert checkpoints(folder) == [checkpoint(last)]
    assert_goes_on(trainings.flags, tmp_path / "second", mesh, folder, last)


@dataclasses.dataclass(frozen=True)
class Killed:
    """A training that is killed. If it is recorded, every second attempt has a page and records many places, as does the
    one that follows the last kill; the others, and the uninterrupted training, trace nothing."""

    mesh: Mesh
    kills: int
    steps: int = 120
    is_recorded: bool = False

    def is_traced(self, attempt: int) -> bool:
        return self.is_recorded and (self.kills - attempt) % 2 == 0

    def flags(self, attempt: int, folder: Path) -> dict[str, Any]:
        if not self.is_traced(attempt):
            return {"history": "off"} if self.is_recorded else {}
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(json.dumps(RECORDED))
        return {"tensor_tracer_port": 0, "tensor_tracer_plan": folder / "plan.json", "record": folder / "kept"}


def killed(trainings: Trainings, folder: Path, case: Killed, kills: int, generator: random.Random) -> int:
    """Starts a training again and again until it ends; at most `kills` times it is killed. Returns how often."""
    mesh, last = case.mesh, checkpoint(case.steps)
    whole = run(trainings.flags, folder / "whole", mesh, train_iters=case.steps, save=folder / "wanted",
                **case.flags(case.kills + 1, folder)).good()  # fmt: skip
    wanted, saved, done = whole.steps(), folder / "saved", 0
    changes: dict[str, Any] = {"train_iters": case.steps, "save": saved, "save_interval": 3, "keep_last": 3}
    for attempt in range(10 * kills + 10):
        found = checkpoints(saved) if saved.is_dir() else []
        if last in found:
            break
        more = changes | case.flags(attempt, folder / f"attempt-{attempt}") | ({"load": saved} if found else {})
        is_killed = False
        with started(trainings.flags, folder / f"attempt-{attempt}", mesh, **more) as one:
            if done < kills:
                if generator.random() < 0.8:
                    one.wait_for(lambda now: bool(now.steps()) or now.code == 0, "step")
                if not one.has_ended_within(generator.uniform(0, 0.5)):
                    one.kill()
                    is_killed = True
            else:
                assert one.has_ended_within(60), one.done().errors
        now, done = one.done(), done + is_killed
        assert is_killed or now.code == 0, now.errors
        assert "passed over" not in now.errors, now.errors
        if case.is_traced(attempt) and not is_killed:
            recording = open_recording(folder / f"attempt-{attempt}" / "kept" / "run.ttrec")
            assert {one.point for one in recording.records()} == {one["point"] for one in RECORDED["entries"]}
        for step, bits in now.steps().items():
            assert bits == wanted[step], step
    assert_same_bits(state_of(saved / last), state_of(folder / "wanted" / last))
    return done


KILLED = [Killed((1, 1), 13), Killed((2, 1), 13), Killed((1, 2), 11), Killed((2, 2), 10, is_recorded=True),
          Killed((4, 2), 3, steps=40, is_recorded=True)]  # fmt: skip


@pytest.mark.parametrize("case", [Killed((1, 1), 3), *(pytest.param(one, marks=NIGHTLY) for one in KILLED)], ids=str)
def test_kills_lose_nothing(case: Killed, trainings: Trainings, tmp_path: Path, record_property) -> None:
    """Killed at random moments, a training ends with the bits of the uninterrupted one. A training that ends early
    is followed by another until there were enough kills."""
    seed = random.SystemRandom().randrange(2**32)
    record_property("seed", seed)
    print(f"seed {seed}")
    generator, done, training = random.Random(seed), 0, 0
    while done < case.kills:
        done += killed(trainings, tmp_path / f"{training}", case, case.kills - done, generator)
        training += 1
        assert training < 20, "the trainings end before they are killed"


@pytest.mark.parametrize("mesh", [(1, 1), pytest.param((2, 1), marks=NIGHTLY)], ids=str)
def test_old_checkpoints_go(mesh: Mesh, trainings: Trainings, tmp_path: Path) -> None:
    """--keep-last keeps the newest by the time of their save. A step that is saved again is replaced. What a run
    that was killed left unfinished goes too."""
    folder = tmp_path / "saved"
    (folder / ".saving-step_00000099-0123abcd").mkdir(parents=True)
    (folder / ".saving-step_00000099-0123abcd" / "model-00000-0.safetensors").write_bytes(b"half")
    saves: dict[str, Any] = {"save": folder, "save_interval": 3}
    run(trainings.flags, tmp_path / "first", mesh, **saves, keep_last=2).good()
    assert checkpoints(folder) == [checkpoint(9), checkpoint(STEPS)] and hidden(folder) == []
    old = state_of(folder / checkpoint(STEPS))
    before = (folder / checkpoint(STEPS)).stat().st_ino
    run(trainings.flags, tmp_path / "second", mesh, **saves, load=folder / checkpoint(9)).good()
    assert checkpoints(folder) == [checkpoint(9), checkpoint(STEPS)] and hidden(folder) == []
    assert (folder / checkpoint(STEPS)).stat().st_ino != before, "the checkpoint was not replaced"
    assert_same_bits(state_of(folder / checkpoint(STEPS)), old)
    third: dict[str, Any] = {"save": folder, "save_interval": 1, "keep_last": 2, "train_iters": 11}
    run(trainings.flags, tmp_path / "third", mesh, **third, load=folder / checkpoint(9)).good()
    assert checkpoints(folder) == [checkpoint(10), checkpoint(11)] and hidden(folder) == []


def test_the_newest_and_the_best_checkpoints_stay(trainings: Trainings, tmp_path: Path) -> None:
    """With too large a learning rate, the newest are not the best."""
    saves: dict[str, Any] = {"save": tmp_path / "saved", "save_interval": 2, "keep_last": 1, "keep_best": 2}
    done = run(trainings.flags, tmp_path / "run", **saves, eval_interval=2, eval_iters=1, lr=1.0).good()
    losses = {step["step"]: step["valid_loss"] for step in step_log(done.output) if "valid_loss" in step}
    best = sorted(losses, key=losses.__getitem__)[:2]
    assert list(losses) == list(range(2, STEPS + 1, 2))
    assert checkpoints(tmp_path / "saved") == [checkpoint(step) for step in sorted({*best, STEPS})]


@pytest.mark.parametrize("is_freed", [False, pytest.param(True, marks=NIGHTLY)], ids=["stays full", "is freed"])
def test_a_full_disk(is_freed: bool, trainings: Trainings, tmp_path: Path) -> None:
    """No file may grow past the weights, so the optimizer's cannot be written. Training goes on, and the checkpoint
    before stays; the exit code is 1 if the last checkpoint was not saved."""
    folder = tmp_path / "saved"
    saves: dict[str, Any] = {"train_iters": LONG, "save": folder, "save_interval": 50, "log_interval": 25}
    with started(trainings.flags, tmp_path / "first", **saves) as first:
        first.wait_for(lambda now: "saved  step 50 " in now.errors, "first checkpoint")
        limit = (folder / checkpoint(50) / "model-00000-0.safetensors").stat().st_size + 1000
        resource.prlimit(first.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        failed = first.wait_for(lambda now: "no checkpoint was saved: " in now.errors, "error")
        [step] = re.findall(r"no checkpoint was saved: \S+/\.saving-step_(\d+)-\w+/optimizer-\S+: cannot be written",
                            failed.errors)[:1]  # fmt: skip
        first.wait_for(lambda now: max(steps_of(now.output)) > int(step) + 50, "more steps")
        before = checkpoints(folder)
        assert checkpoint(50) in before and checkpoint(int(step)) not in before
        if is_freed:
            resource.prlimit(first.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            first.wait_for(lambda now: set(checkpoints(folder)) > set(before), "checkpoint")
        done = first.ask_to_stop()
    assert done.code == (19 if is_freed else 20), done.errors
    assert (checkpoints(folder) != before) == is_freed and hidden(folder) == []
    newest = step_of(folder / checkpoints(folder)[-1])
    more = run(trainings.flags, tmp_path / "second", load=folder, train_iters=newest + 1).good()
    assert (more.resumed_after(), list(more.steps())) == (newest, [newest + 1])
