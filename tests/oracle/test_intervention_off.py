"""Off is off: programs that do nothing, act elsewhere, or are gone leave every bit of the training
as it is, and the same program leaves the same bits twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_runs import assert_same_bits as assert_same_state
from checkpoint_runs import checkpoint, run, state_of
from graphs import HIDDEN, write_world
from hf_models import FAMILIES, NEW, begun_from
from hf_models import HIDDEN as IMPORTED_HIDDEN
from program import Flags, Run, train
from reference_gpt import Export, loss_and_gradients
from test_control import claim
from test_intervention_control import applied, apply, paused, saved, step
from viewer import Viewer, live_run

NIGHTLY = pytest.mark.nightly(suite="meshes")

STEPS, LAYERS = 10, 2
MESHES = [pytest.param((1, 1), marks=NIGHTLY), (2, 1), pytest.param((2, 2), marks=NIGHTLY)]
MODELS = [pytest.param(NEW, (1, 1), marks=NIGHTLY), (NEW, (2, 1)), pytest.param(NEW, (2, 2), marks=NIGHTLY),
          *(pytest.param(name, (2, 1), marks=NIGHTLY) for name in FAMILIES)]  # fmt: skip
STRONG = "layers[1].output *= 3\nlayers[2].attention.qkv.weight *= 2\nlayers[1].mlp.fc1.grad *= 5"
QUIET = {
    "strength_0": 'a = param(0.0)\nlayers[1].output += a * vector("evil")[1]',
    "times_1": "a = param(1.0)\nlayers[1].mlp.fc1 *= a\nlayers[2].mlp.fc2.weight *= a",
    "far_steps": f'when(steps="1000000-")\n{STRONG}',
    "no_rows": f'when(rows="1000-")\n{STRONG}'.replace("\nlayers[2].attention.qkv.weight *= 2", ""),
    "evaluation": 'when(phase="eval")\nlayers[1].output *= 3\nlayers[2].attention.qkv.weight *= 2',
    "prompts": 'when(prompts="*")\nlayers[1].output *= 3',
    "never": "if layers[1].output.norm() < 0: layers[1].output *= 3",
    "saves": 'save(layers[1].output.norm(), "n")\nsave(layers[2].output.grad.norm(), "g")',
}

# A state of the training from which one run goes on after having been touched and another that never
# was: up to step UNMOVED no weight moves by so much as a bit (none is 0, as biases would be), and the
# optimizer keeps nothing of a gradient.
UNMOVED, LIVE_STEPS = 60, 72
SAME_STATE = {
    "lr": 1e-300, "min_lr": 5e-3, "lr_warmup_iters": UNMOVED, "lr_decay_iters": LIVE_STEPS,
    "normalization": "RMSNorm", "disable_bias_linear": True, "adam_beta1": 0.0, "adam_beta2": 0.0,
    "hidden_dropout": 0.1, "attention_dropout": 0.1,
    "train_iters": LIVE_STEPS, "export_at": f"1,{UNMOVED + 1}-{LIVE_STEPS}",
}  # fmt: skip
WILD = {
    "strong": f'when(phase="all")\n{STRONG}',
    "noise": 'when(phase="all")\nlayers[layer].output += noise(layers[layer].output)\n'
             "layers[1].mlp.fc1.weight += noise(layers[1].mlp.fc1.weight, seed=3)",
    "skip": 'save(layers[1].output, "h", send=False)\nskip(layers[2])\nlayers[2].output -= saved("h")',
    "gradients": "layers[layer].mlp.fc1.grad = layers[layer].mlp.fc1.grad.abs()\nlogits.grad *= 100",
}  # fmt: skip
BREAKS = "layers[1].output /= 0.0 * layers[1].output"

# Powers of two, which round nothing, put on in one place and taken off in a later one; numbers that
# change places and go back; noise that is drawn and not taken.
THERE_AND_BACK = {
    "fc1": "layers[2].mlp.fc1.weight *= 2\nsave(layers[2].mlp.fc1.norm(), \"on\")\n"
           "layers[2].mlp.fc1 *= 0.5\nsave(layers[2].mlp.fc1.norm(), \"off\")",
    "mlp": "layers[1].mlp.activation *= 4\nlayers[1].mlp.output *= 0.25",
    "value": "layers[layer].attention.value *= 2\nlayers[layer].attention.context *= 0.5",
    "gathered": "h = layers[1].mlp.fc1\nlayers[1].mlp.fc1 = h.flip(-1)\n"
                "layers[1].mlp.fc1 = layers[1].mlp.fc1.flip(-1)",
    "noise": "n = noise(layers[1].output)\nlayers[1].output = where(n > 100, n, layers[1].output)",
    "gradient": "layers[2].mlp.activation.grad *= 8\nlayers[2].mlp.fc1.grad *= 0.125",
}  # fmt: skip


def small(flags: Flags, mesh: tuple[int, int], **more: Any) -> dict[str, Any]:
    return dict(flags) | {
        "train_iters": STEPS,
        "micro_batch_size": 2,
        "tensor_model_parallel_size": mesh[0],
        "params_dtype": "float64",
        "eval_interval": 4,
        "eval_iters": 1,
    } | more


def with_programs(folder: Path, programs: dict[str, str], model: str = NEW) -> dict[str, Any]:
    """The flags that start a run with these."""
    write_world(folder, LAYERS, HIDDEN if model == NEW else IMPORTED_HIDDEN)
    paths = []
    for name, text in programs.items():
        paths.append(str(folder / "programs" / f"{name}.tti"))
        Path(paths[-1]).write_text(text)
    (folder / "probes.txt").write_text("def f(x):\n")
    return {
        "interventions": paths, "tensor_tracer_port": 0, "tensor_tracer_vectors": str(folder / "vectors"),
        "monitor_prompts": str(folder / "probes.txt"), "monitor_interval": 3,
    }  # fmt: skip


def assert_same_bits(one: Export, other: Export) -> None:
    for mine, theirs in ((one.weights, other.weights), (one.gradients, other.gradients)):
        for name, value in mine.items():
            assert torch.equal(value, theirs[name]), name


def assert_untouched_step(export: Export) -> None:
    """The gradients are those that PyTorch finds at the step's own weights, with no program."""
    loss, gradients = loss_and_gradients(export.config, export.weights, export.tokens, export.labels)
    assert export.loss == pytest.approx(loss.item(), rel=1e-9)
    norm = torch.stack([g.norm() for g in gradients.values()]).norm()
    for name, gradient in gradients.items():
        allowed = 1e-9 * gradient.abs().max() + 1e-14 * norm
        assert (export.gradients[name] - gradient).abs().max() <= allowed, name


def touched_step(export: Export) -> bool:
    _, gradients = loss_and_gradients(export.config, export.weights, export.tokens, export.labels)
    return any((export.gradients[n] - g).abs().max() > 1e-6 * g.abs().max() for n, g in gradients.items())


@pytest.mark.parametrize(("model", "mesh"), MODELS, ids=str)
def test_programs_that_do_nothing_change_no_bit(model: str, mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """All of them in force together, for ten steps: weights, gradients, every loss."""
    flags = begun_from(flags, model, tmp_path)
    ranks, last = mesh[0] * mesh[1], str(STEPS)
    alone = train(small(flags, mesh), tmp_path / "alone", ranks, last)
    loud = {"evaluation"}
    silent = with_programs(tmp_path, {k: v for k, v in QUIET.items() if k not in loud}, model)
    watched = train(small(flags, mesh) | silent, tmp_path / "silent", ranks, last)
    assert_same_bits(alone.export(STEPS), watched.export(STEPS))
    assert [(s["loss"], s.get("valid_loss")) for s in alone.steps] == [
        (s["loss"], s.get("valid_loss")) for s in watched.steps]


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_evaluation_alone_is_changed(mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """The loss of evaluations, and nothing of the training."""
    ranks, last = mesh[0] * mesh[1], str(STEPS)
    alone = train(small(flags, mesh), tmp_path / "alone", ranks, last)
    programs = with_programs(tmp_path, {"evaluation": QUIET["evaluation"]})
    other = train(small(flags, mesh) | programs, tmp_path / "other", ranks, last)
    assert_same_bits(alone.export(STEPS), other.export(STEPS))
    assert alone.losses() == other.losses()
    pairs = [(a["valid_loss"], b["valid_loss"]) for a, b in zip(alone.steps, other.steps) if "valid_loss" in a]
    assert pairs and all(abs(a - b) > 1e-6 for a, b in pairs)


@pytest.mark.parametrize(("model", "mesh"), MODELS, ids=str)
def test_steps_after_a_program_are_plain_training(model: str, mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """On in steps 3 to 6: those steps are changed, all others are not, and a second run is the same."""
    flags = begun_from(flags, model, tmp_path)
    programs = with_programs(tmp_path, {"strong": f'when(steps="3-6")\n{STRONG}'}, model)
    runs = [
        train(small(flags, mesh) | programs, tmp_path / name, mesh[0] * mesh[1], f"1-{STEPS}")
        for name in ("first", "second")
    ]
    for number in range(1, STEPS + 1):
        export = runs[0].export(number)
        assert_same_bits(export, runs[1].export(number))
        if 3 <= number <= 6:
            assert touched_step(export), number
        else:
            assert_untouched_step(export)


def live(flags: Flags, mesh: tuple[int, int], folder: Path, act: Any, **more: Any) -> Run:
    """A run with a viewer that does something with it, and then lets it go on to its end."""
    changes = {"train_iters": 40, "export_tensors": str(folder / "exports"), "export_at": "1-40"} | more
    write_world(folder, LAYERS)
    vectors = {"tensor_tracer_vectors": str(folder / "vectors")}
    with live_run(small(flags, mesh) | changes | vectors, folder, mesh[0] * mesh[1]) as run:
        with run.viewer() as viewer:
            act(viewer)
            viewer.request("control.continue")
            viewer.wait_for(lambda: changes["train_iters"] in viewer.steps(), "the last step", 60)
        run.wait()
    return Run(viewer.named("step"), folder / "exports")


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_removed_programs_leave_plain_training(mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """Applied, changed and removed while the run is paused, from a viewer."""
    spans: list[tuple[int, int]] = []

    def on_and_off(viewer: Viewer) -> None:
        paused(viewer)
        first = apply(viewer, "strong", f"a = param(3.0)\nlayers[1].output *= a\n{STRONG}")["step"]
        step(viewer)
        viewer.request("intervention.set", {"name": "strong", "parameter": "a", "value": 1.5})
        step(viewer)
        spans.append((first, viewer.request("intervention.remove")["step"]))

    run = live(flags, mesh, tmp_path, on_and_off)
    first, end = spans[0]
    assert end == first + 2
    for number in range(1, 41):
        export = run.export(number)
        if first <= number < end:
            assert touched_step(export), number
        else:
            assert_untouched_step(export)


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_checks_and_previews_change_no_bit(mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """And programs that are gone again before a step."""

    def look(viewer: Viewer) -> None:
        paused(viewer)
        for program in (STRONG, QUIET["strength_0"], "skip(layers[2])"):
            viewer.request("intervention.check", {"program": program})
            viewer.request("intervention.preview", {"program": program})
            apply(viewer, "gone", program)
            viewer.request("intervention.remove", {"name": "gone"})
        step(viewer)

    looked = live(flags, mesh, tmp_path / "looked", look)
    alone = live(flags, mesh, tmp_path / "alone", lambda viewer: paused(viewer))
    assert_same_bits(looked.export(40), alone.export(40))


def losses_from(run: Run, first: int) -> list[tuple[Any, ...]]:
    """What every later step told of its numbers."""
    told = ("step", "loss", "valid_loss", "grad_norm", "lr")
    return [tuple(s.get(name) for name in told) for s in run.steps if s["step"] >= first]


def touch(viewer: Viewer) -> None:
    """Everything that changes a forward or a gradient, ended in every way there is."""
    begin = paused(viewer)
    assert begin + 20 < UNMOVED, "the viewer came too late"
    for number, (name, text) in enumerate(WILD.items()):
        apply(viewer, name, text, **({"ttl": 3} if number % 2 else {}))
        step(viewer, 2)
    viewer.request("intervention.remove")
    apply(viewer, "again", WILD["strong"])
    step(viewer)
    apply(viewer, "breaks", BREAKS)
    step(viewer)
    assert viewer.named("interventions")[-1]["reason"] == "failed"
    apply(viewer, "gone", WILD["noise"])
    last = step(viewer)
    viewer.request("control.release")
    viewer.wait_for(lambda: viewer.named("interventions")[-1]["reason"] == "lease", "the revert")
    assert viewer.named("interventions")[-1]["step"] <= UNMOVED
    claim(viewer)
    assert begin + 11 == last
    for name in (*WILD, "again", "gone"):
        counts = applied(viewer, name)
        assert counts and all(one["forwards"] or one["waiting"] for one in counts.values()), name


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_after_off_the_run_is_that_of_an_untouched_state(mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """Strong programs until step 60, in which nothing of them can stay in weights or optimizer: every
    step after that, bit for bit, is that of a run that never knew a program."""
    alone = live(flags, mesh, tmp_path / "alone", lambda viewer: paused(viewer), **SAME_STATE)
    touched = live(flags, mesh, tmp_path / "touched", touch, **SAME_STATE)
    first = UNMOVED + 1
    assert losses_from(touched, first) == losses_from(alone, first)
    assert len(losses_from(alone, first)) == LIVE_STEPS - UNMOVED
    for number in range(first, LIVE_STEPS + 1):
        assert_same_bits(touched.export(number), alone.export(number))
    moved = alone.export(LIVE_STEPS).weights
    assert any(not torch.equal(w, moved[name]) for name, w in alone.export(first).weights.items())


@NIGHTLY
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_a_run_that_was_touched_and_kept_its_state(mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """An ordinary optimizer, and programs that change much inside of the model and nothing of the
    state: the run is bit-equal while they are on, and after."""
    spans: list[tuple[int, int]] = []

    def on_and_off(viewer: Viewer) -> None:
        paused(viewer)
        since = [apply(viewer, name, text)["step"] for name, text in THERE_AND_BACK.items()]
        step(viewer, 6)
        spans.append((since[0], viewer.request("intervention.remove")["step"]))
        for name in THERE_AND_BACK:
            for number in range(*spans[0]):
                one = applied(viewer, name)[number]
                assert one["positions"] > 0, one
                assert one["ranks"] == mesh[0] * mesh[1]
                assert (one["identity"], one["waiting"], one["failed"]) == (0, 0, 0), one
        on, off = saved(viewer, "on"), saved(viewer, "off")
        assert len(on) == 6 and all(on[number] == 2 * off[number] > 0 for number in on)

    plain = {"disable_bias_linear": True, "hidden_dropout": 0.1, "attention_dropout": 0.1}
    alone = live(flags, mesh, tmp_path / "alone", lambda viewer: paused(viewer), **plain)
    touched = live(flags, mesh, tmp_path / "touched", on_and_off, **plain)
    begin, end = spans[0]
    assert end - begin == 6 and end < 38
    assert losses_from(touched, 1) == losses_from(alone, 1)
    for number in range(1, 41):
        assert_same_bits(touched.export(number), alone.export(number))


SAVED = {"lr_decay_iters": 40, "disable_bias_linear": True}


def assert_resumes_untouched(flags: Flags, touched: Run, folder: Path, at: int, last: int, mesh: tuple[int, int]) -> None:
    """A new process goes on from the checkpoint of step `at`, without a program, to step `last`: the same numbers."""
    resumed = run(small(flags, mesh) | SAVED, folder / f"from {at}", mesh, load=folder / "saved" / checkpoint(at),
                  save=folder / f"saved from {at}", train_iters=last).good()  # fmt: skip
    assert resumed.resumed_after() == at
    told = {step["step"]: (step["loss"], step["grad_norm"]) for step in touched.steps}
    assert resumed.steps() == {number: told[number] for number in range(at + 1, last + 1)}


@NIGHTLY
@pytest.mark.parametrize("mesh", [(2, 1), (2, 2)], ids=str)
def test_after_off_the_run_is_one_that_resumed_from_a_checkpoint(mesh: tuple[int, int], flags, tmp_path: Path) -> None:
    """From the checkpoint before programs that change nothing of the state, and from one after the removal of programs
    that did: a new process that never knew them has the same bits to the end."""
    points: list[int] = []

    def on_and_off(viewer: Viewer) -> None:
        paused(viewer)
        points.append(viewer.request("checkpoint.save")["step"])
        for name, text in THERE_AND_BACK.items():
            apply(viewer, name, text)
        step(viewer, 4)
        viewer.request("intervention.remove")
        step(viewer, 2)
        apply(viewer, "strong", STRONG)
        points.append(step(viewer, 3))
        assert set(applied(viewer, "strong")) == {points[1] - 2, points[1] - 1, points[1]}
        viewer.request("intervention.remove")
        assert viewer.request("checkpoint.save")["step"] == points[1]

    more = SAVED | {"save": str(tmp_path / "saved"), "hidden_dropout": 0.1, "attention_dropout": 0.1}
    touched = live(flags, mesh, tmp_path, on_and_off, **more)
    before, after = points
    assert after < 38
    assert_resumes_untouched(flags, touched, tmp_path, before, after - 3, mesh)
    assert_resumes_untouched(flags, touched, tmp_path, after, 40, mesh)
    assert_same_state(*(state_of(tmp_path / folder / checkpoint(40)) for folder in ("saved", f"saved from {after}")))
