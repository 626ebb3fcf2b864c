"""`python -m tensor_tracer export RUN --to FORMAT --output FILE`: docs/recording.md, "Exports".

`tensor-tracer export` starts this folder as a program.
"""

import os
import sys

_USAGE = "usage: python -m tensor_tracer export RUN --to FORMAT --output FILE; see export --help"

if sys.version_info < (3, 10):
    print("export: {} is too old; install Python 3.10 or newer".format(sys.executable), file=sys.stderr)  # noqa: UP032
    sys.exit(2)
if sys.argv[1:2] != ["export"]:
    is_help = sys.argv[1:] in (["--help"], ["-h"])
    print(_USAGE, file=sys.stdout if is_help else sys.stderr)
    sys.exit(0 if is_help else 2)
if not __package__:  # `python <this folder>` puts this folder in front; the package is beside it
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

try:
    from tensor_tracer.export.command import main
except ImportError as error:
    print(f"export: {error}; {sys.executable} -m pip install numpy google-crc32c", file=sys.stderr)
    sys.exit(2)

sys.exit(main(sys.argv[2:]))
