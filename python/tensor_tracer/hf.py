"""The tracer in a Trainer of Hugging Face Transformers.

    trainer = Trainer(model, args, train_dataset=…, callbacks=[TracerCallback(port=8765)])
"""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from tensor_tracer.attaching import AttachedRun, abandon, attach

_NUMBERS = {"loss": "loss", "learning_rate": "lr", "grad_norm": "grad_norm"}


class TracerCallback(TrainerCallback):
    """Attaches when the training begins, with the options of `attach`, and detaches at its end. `run` is the attached
    run while the training lasts. A viewer who stops the run ends the training as `should_training_stop` does."""

    def __init__(self, port: int | None = 8765, **options: Any) -> None:
        self.run: AttachedRun | None = None
        self._logs_first = False  # the Trainer will log the step that has ended
        self._options = {"port": port, "trainer": "transformers.Trainer", **options}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        model: nn.Module = parts["model"]
        abandon(model, self._options["trainer"])  # after an exception in train()
        self.run = attach(model, first_step=state.global_step + 1, **self._options)

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._attached.begin_step()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._attached.end_step()
        self._logs_first = control.should_log
        if not self._logs_first:
            self._wait(control)

    def _wait(self, control: TrainerControl) -> None:
        if not self._attached.may_continue():
            control.should_training_stop = True

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
        logs: dict[str, float] | None = None, **_: Any,
    ) -> None:  # fmt: skip
        numbers = {ours: logs[theirs] for theirs, ours in _NUMBERS.items() if logs and theirs in logs}
        if self.run is not None and numbers:
            self.run.log(**numbers)
        if self._logs_first:
            self._logs_first = False
            self._wait(control)

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
        metrics: dict[str, float] | None = None, **_: Any,
    ) -> None:  # fmt: skip
        if self.run is not None and metrics and "eval_loss" in metrics:
            self.run.log(valid_loss=metrics["eval_loss"])

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._attached.detach()
        self.run = None

    @property
    def _attached(self) -> AttachedRun:
        assert self.run is not None, "the callback runs outside of Trainer.train()"
        return self.run
