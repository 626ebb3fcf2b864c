"""`python -m tensor_tracer export RUN --to FORMAT --output FILE`: docs/recording.md, "Exports"."""

import sys

if sys.argv[1:2] != ["export"]:
    print("usage: python -m tensor_tracer export RUN --to FORMAT --output FILE", file=sys.stderr)
    sys.exit(0 if sys.argv[1:] in (["--help"], ["-h"]) else 2)

from tensor_tracer_export.__main__ import main

sys.exit(main(sys.argv[2:]))
