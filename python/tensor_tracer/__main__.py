"""`python -m tensor_tracer export RUN --to FORMAT --output FILE`: docs/recording.md, "Exports".
`python -m tensor_tracer follow RUN --to TOOL`: docs/sinks.md.
`python -m tensor_tracer convert MODEL.gguf FOLDER`: docs/models.md.
`python -m tensor_tracer prepare DATA.jsonl --tokenizer DIR --out DIR`: docs/prepare.md.

`tensor-tracer export` starts this folder as a program.
"""

import importlib
import os
import sys

_USAGE = """usage: python -m tensor_tracer export RUN --to FORMAT --output FILE; see export --help
       python -m tensor_tracer follow RUN --to TOOL; see follow --help
       python -m tensor_tracer convert MODEL.gguf FOLDER; see convert --help
       python -m tensor_tracer prepare DATA.jsonl --tokenizer DIR --out DIR; see prepare --help"""
_COMMANDS = {
    "convert": ("tensor_tracer.convert.command", "numpy gguf safetensors google-crc32c"),
    "export": ("tensor_tracer.export.command", "numpy google-crc32c"),
    "follow": ("tensor_tracer.sinks.command", "numpy google-crc32c websockets"),
    "prepare": ("tensor_tracer.prepare.command", "numpy jinja2 tokenizers google-crc32c"),
}
name = sys.argv[1] if len(sys.argv) > 1 else ""

if sys.version_info < (3, 10):
    print("{}: {} is too old; install Python 3.10 or newer".format(name, sys.executable), file=sys.stderr)  # noqa: UP032
    sys.exit(2)
if name not in _COMMANDS:
    is_help = sys.argv[1:] in (["--help"], ["-h"])
    print(_USAGE, file=sys.stdout if is_help else sys.stderr)
    sys.exit(0 if is_help else 2)
if not __package__:  # `python <this folder>` puts this folder in front; the package is beside it
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

module, packages = _COMMANDS[name]
try:
    main = importlib.import_module(module).main
except ImportError as error:
    print(f"{name}: {error}; {sys.executable} -m pip install {packages}", file=sys.stderr)
    sys.exit(2)

sys.exit(main(sys.argv[2:]))
