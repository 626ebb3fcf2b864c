"""Other tools that show a live run: `python -m tensor_tracer follow RUN --to wandb|tensorboard|otlp`."""
