"""Trainings that test_attach_prompts.py runs on forked ranks: the tracer is attached, and prompts run between steps."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from attach_scenarios import Options, Training
from attached_training import DEVICE, batch_of, loss_of, numbers_of, without_wrappers
from pipeline_training import Pipeline
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel

FIRST = ord("a") - 1  # the id of "a" is 1
SCALES = "layers[1].output *= 2"


class Letters:
    """A tokenizer of small letters."""

    def encode(self, text: str) -> list[int]:
        if "!" in text:
            raise KeyError("!")
        return [ord(letter) - FIRST for letter in text]

    def decode(self, ids: list[int]) -> str:
        if max(ids) > 26:
            raise IndexError("no such letter")
        return "".join(chr(FIRST + one) for one in ids)


def kept_of(records: list[Any]) -> list[dict[str, Any]]:
    """What the test looks at, without the connection."""
    names = ("point", "layer", "compressor", "step", "phase", "prompt_set", "first_row", "values")
    return [{name: getattr(one, name) for name in names} for one in records]


class Viewer(threading.Thread):
    """Controls a run from the process of global rank 0. `act` gets the run and its control; what it returns is the
    result."""

    def __init__(self, run_dir: str, act: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self._run_dir, self._act = run_dir, act
        self.result: Any = None

    def run(self) -> None:
        import tensor_tracer as tt

        with tt.connect(run_dir=self._run_dir) as run, run.control("test") as control:
            while run.facts is None:  # the trainer connects in the background
                time.sleep(0.02)
            self.result = self._act(run, control)


def refusal_of(call: Callable[[], Any]) -> str:
    import tensor_tracer as tt

    try:
        call()
    except tt.TensorTracerError as error:
        return str(error)
    return ""


def refusals_of(run: Any, text: str) -> list[str]:
    """Of a typed prompt, and of one to keep."""
    return [refusal_of(lambda: run.prompt(text)), refusal_of(lambda: run.keep_prompt("kept", text))]


def state_of(root: nn.Module) -> Any:
    """The modes of the modules, and what FSDP has put in the place of the weights."""
    return [module.training for module in root.modules()], [type(one) for one in root.parameters()]


def weights_of(training: Training) -> dict[str, Tensor]:
    is_flat = isinstance(training.model, FullyShardedDataParallel)
    whole = FullyShardedDataParallel.summon_full_params(training.model) if is_flat else contextlib.nullcontext()
    with whole:
        return {without_wrappers(name): numbers_of(one) for name, one in training.root.named_parameters()}


def is_over(viewer: Viewer | None) -> bool:
    """The same on every rank. `viewer`: that of rank 0."""
    has_ended = torch.tensor([float(viewer is not None and not viewer.is_alive())])
    if dist.is_initialized():
        dist.all_reduce(has_ended)
    return bool(has_ended > 0)


def nothing(_step: int = 0) -> None:
    """After a step nothing is looked at."""


def train(
    training: Any, act: Callable[[Any, Any], Any], after_step: Callable[[int], None] = nothing,
    after_prompts: Callable[[], None] = nothing,
) -> Any:  # fmt: skip
    """Steps until a viewer has acted, from step 2 on, and two more. Returns on rank 0 what the viewer returned."""
    viewer = None
    step = last = 0
    while not last or step < last:
        step += 1
        training.step(step)
        after_step(step)
        if step == 2 and training.rank == 0:
            viewer = Viewer(training.run.run_dir, act)
            viewer.start()
        time.sleep(0.02)
        training.run.may_continue()  # runs the prompts
        after_prompts()
        if not last and is_over(viewer):
            last = step + 2
    training.run.detach()
    return viewer.result if viewer is not None else None


class InBfloat16(Training):
    """The forwards of the training run under torch.autocast."""

    def step(self, number: int, *_: Any) -> None:
        with self.run.step() if self.run is not None else contextlib.nullcontext():
            with torch.autocast(DEVICE, torch.bfloat16):
                loss = loss_of(self.model, batch_of(number, 0, {"wrap": self.wrap}, self.rank, self.ranks))
            self.take(loss)


def prepared(attach: Options, kind: str, wrap: str, dropout: float) -> Training:
    """A training with dropout. One of its modules stays in the mode of evaluation, and another draws a random number in
    each forward."""
    training = (InBfloat16 if wrap == "autocast" else Training)(kind, wrap, attach)
    torch.manual_seed(3 + training.rank)
    for module in training.root.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
    first, *_, last = training.root.children()
    first.training = False
    last.register_forward_pre_hook(lambda *_: torch.rand(1) and None)
    return training


def alone(kind: str, wrap: str, dropout: float, steps: int) -> list[float]:
    return prepared(None, kind, wrap, dropout).steps(steps)


def without_connection(answer: dict[str, Any]) -> dict[str, Any]:
    return answer | {"records": {side: kept_of(records) for side, records in answer["records"].items()}}


def default_points(run: Any, text: str) -> list[str]:
    return [entry["point"] for entry in run.prompt(text)["plan"]["entries"]]


def keep_for_three_steps(run: Any, control: Any, text: str, plan: Any) -> dict[str, Any]:
    """A prompt that is kept while the run makes three steps."""
    kept = run.keep_prompt("kept", text, plan)
    control.step(3)
    removed = run.remove_prompt("kept")
    sets, tokenizer = run.facts["prompt_sets"], run.facts["tokenizer"]
    return {"kept": kept.step, "removed": removed.step, "sets": sets, "tokenizer": tokenizer}


def prompted(
    attach: dict[str, Any], kind: str, wrap: str, dropout: float, text: str, plan: Any, program: str
) -> dict[str, Any]:
    """In a pause, a typed prompt and a preview of a program, and the prompt with the program in force."""

    def act(run: Any, control: Any) -> dict[str, Any]:
        control.pause()
        off, default = run.prompt(text, plan), default_points(run, text)
        preview, bare = run.preview_intervention(program, plan=attach["plan"]), run.preview_intervention(program)
        run.intervene("double", program)
        on = run.prompt(text, plan)
        run.remove_intervention()
        answers = {"off": off, "on": on, "preview": preview}
        found = {name: without_connection(answer) for name, answer in answers.items()}
        return found | {"bare": bare, "default": default} | keep_for_three_steps(run, control, text, plan)

    return with_prompts(prepared(attach | {"tokenizer": Letters()}, kind, wrap, dropout), act)


def steered(attach: Options, text: str, program: str) -> tuple[list[float], Any]:
    """The losses, and the answer of a typed prompt while the program is in force."""
    plan = {"entries": [{"point": "HiddenStates", "compressor": {"kind": "none"}}]}

    def act(run: Any, control: Any) -> dict[str, Any]:
        run.intervene("steer prompts", program)
        control.step(2)
        return without_connection(run.prompt(text, plan))

    training = prepared(attach and attach | {"tokenizer": Letters()}, "plain", "none", 0.0)
    return training.losses, train(training, act)


def filled_up(attach: dict[str, Any], text: str, plan: Any, program: str) -> dict[str, Any]:
    """With sequence parallelism, a typed prompt while a program is in force, and what is refused."""

    def act(run: Any, control: Any) -> dict[str, Any]:
        control.pause()
        run.intervene("double", program)
        off, default = run.prompt(text, plan), default_points(run, text)
        on_prompts = 'when(prompts="*")\nlayers[2].output *= 2'
        refusals = [
            refusal_of(lambda: run.preview_intervention(program)),
            refusal_of(lambda: run.intervene("on prompts", on_prompts)),
        ]
        run.remove_intervention()
        found = {"off": without_connection(off), "default": default, "refusals": refusals}
        return found | keep_for_three_steps(run, control, text, plan)

    return with_prompts(prepared(attach | {"tokenizer": Letters()}, "sequence", "tp", 0.0), act)


def with_prompts(training: Training, act: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Losses, weights after each step, what the viewer returned, and whether modes and parameters stayed."""
    states = [state_of(training.root)]
    weights: dict[int, dict[str, Tensor]] = {}
    result = train(
        training, act, lambda step: weights.update({step: weights_of(training)}),
        lambda: states.append(state_of(training.root)),
    )  # fmt: skip
    is_kept = all(state == states[0] for state in states)
    return {"losses": training.losses, "weights": weights, "result": result, "is_state_kept": is_kept}


def monitored(attach: dict[str, Any], kind: str, wrap: str, steps: int) -> dict[int, dict[str, Tensor]]:
    """The weights after each step."""
    training = prepared(attach | {"tokenizer": Letters()}, kind, wrap, 0.0)
    weights = {}
    for step in range(1, steps + 1):
        training.step(step)
        weights[step] = weights_of(training)
    training.run.detach()
    return weights


class Stages:
    """A training with two pipeline stages."""

    def __init__(self, attach: dict[str, Any]) -> None:
        import tensor_tracer as tt

        self.rank = dist.get_rank()
        self._pipeline = Pipeline({}, 2)
        self.run = tt.attach(self._pipeline.stages, **attach)

    def step(self, number: int) -> None:
        with self.run.step():
            self._pipeline.run(number, [])


def refused(attach: dict[str, Any], kind: str, wrap: str, text: str) -> Any:
    """Of a text, and of a preview."""
    contexts = {"context_parallel_group": dist.group.WORLD, "context_parallel_order": "contiguous"}
    attach |= contexts if wrap == "contexts" else {}
    training = Stages(attach) if wrap == "pipeline" else Training(kind, wrap, attach)
    return train(training, lambda run, _: (
        refusals_of(run, text), refusal_of(lambda: run.preview_intervention(SCALES)),
    ))  # fmt: skip


class Syllables:
    """A tokenizer that spells "not" with one token or with two."""

    def encode(self, _text: str) -> list[int]:
        return [2]

    def decode(self, ids: list[int]) -> str:
        return "".join(["no", "t", "not", "nothing", ""][one % 5] for one in ids)


def spelled(attach: Options, kind: str) -> tuple[list[float], str]:
    """From step 3 on, layer 2 gives twice its output at tokens that spell "not": by a program, or without the tracer by
    a hook. Global rank 0 alone has the tokenizer. Returns the losses, and why the program is refused."""
    is_first = not dist.is_initialized() or dist.get_rank() == 0
    more = {"tokenizer": Syllables()} if kind == "syllables" and is_first else {}
    training = Training("plain", "ddp" if dist.is_initialized() else "none", attach and attach | more)
    now: dict[str, Tensor] = {}
    training.root.register_forward_pre_hook(lambda _module, args: now.update(kinds=args[0] % 5))

    def doubled(_module: nn.Module, _args: Any, hidden: Tensor) -> Tensor:
        is_one = now["kinds"] == 2
        first = torch.zeros_like(is_one)
        first[:, :-1] = (now["kinds"][:, :-1] == 0) & (now["kinds"][:, 1:] == 1)
        is_spelled = is_one | first | first.roll(1, dims=1)
        return torch.where(is_spelled[..., None], 2 * hidden, hidden)

    refused = []

    def before(step: int) -> None:
        if step == 3 and training.run is None:
            training.root.blocks[1].register_forward_hook(doubled)
        elif step == 3:
            refused.append(refusal_of(lambda: training.run.intervene('when(token_text="not")\nlayers[2].output *= 2')))

    return training.steps(5, before), "".join(refused)


def failing(attach: dict[str, Any], kind: str, wrap: str, ranks: list[int], previews: bool) -> tuple[list[float], Any]:
    """On some ranks, layer 2 fails in each forward without gradients: of typed prompts, or of previews."""
    training = Training(kind, wrap, attach)
    layers = next(one for one in training.root.modules() if isinstance(one, nn.ModuleList))

    def fail(_module: nn.Module, _args: Any) -> None:
        if not torch.is_grad_enabled() and training.rank in ranks:
            raise ZeroDivisionError("no such prompt")

    layers[1].register_forward_pre_hook(fail)

    def ask(run: Any) -> list[str]:
        return [refusal_of(lambda: run.preview_intervention(SCALES))] if previews else refusals_of(run, "abc")

    refusals = train(training, lambda run, _: [ask(run) for _ in range(2)])
    return training.losses, refusals


def attach_error(attach: dict[str, Any], of_rank_0: dict[str, Any]) -> str:
    """Of attach() or of the first step."""
    rank = dist.get_rank()

    def begin() -> None:
        training = Training("plain", "ddp", attach | {"tokenizer": Letters()} | (of_rank_0 if rank == 0 else {}))
        training.steps(2)

    return refusal_of(begin)
