"""Other tools that show a live run: `python -m tensor_tracer follow RUN --to wandb|tensorboard|otlp`, and `sinks` of
`tensor_tracer.attach`."""

from tensor_tracer.sinks.settings import Otlp, TensorBoard, Wandb

__all__ = ["Otlp", "TensorBoard", "Wandb"]
