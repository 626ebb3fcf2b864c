"""Writes a recording as NPZ, safetensors, CSV or TensorBoard events: docs/recording.md, "Exports".

    python -m tensor_tracer export run.ttrec --to npz --output run.npz --point HiddenStates --layers 1-4

`tensor-tracer export` starts this program. Memory holds one record and the scalars of one run.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import re
import sqlite3
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensor_tracer.errors import TensorTracerError, wrong
from tensor_tracer.export.arrays import write_npz
from tensor_tracer.export.errors import cannot_write
from tensor_tracer.export.frames import MAX_STEP, Frames, Scalars, Selection, Series
from tensor_tracer.export.names import Source, name_series, one_word
from tensor_tracer.export.safetensors import import_safetensors, write_safetensors
from tensor_tracer.export.tables import write_csv_records, write_csv_scalars
from tensor_tracer.export.tensorboard import import_tensorboard, write_tensorboard
from tensor_tracer.facts import RunFacts
from tensor_tracer.json_values import parsed
from tensor_tracer.readings import has_readings
from tensor_tracer.recording_file import not_a_recording, open_database, plans_of

FORMATS = ("npz", "safetensors", "csv", "tensorboard")
_EPILOG = """
An array has a name such as "HiddenStates.layers.3"; its first dim counts the records. The steps of the records
are in "HiddenStates.layers.3.steps". "scalars.loss" has the loss of each step in "scalars.step".

  export run.ttrec --to npz --output run.npz --point HiddenStates --layers 1-4 --steps 10-200
  export run.ttrec --to csv --output loss.csv
  export run.ttrec --to tensorboard --output logs/demo && tensorboard --logdir logs
"""
_MAX_LAYER = 0xFFFF
# Codes of errors that another command line mends; docs/errors.md.
_USAGE = {"invalid_argument", "not_a_recording", "unsupported_version"}


def choose_run(database: sqlite3.Connection, run: str) -> tuple[int, str, Any]:
    """The number, id and facts of the run of this id, or of the only one."""
    rows = database.execute("SELECT run, id, facts FROM runs ORDER BY start_time, run").fetchall()
    for number, known, facts in rows:
        if type(number) is not int or not isinstance(known, str):
            raise not_a_recording(f'run {number} has the id "{known}", not a number and a text')
        if known == run or (not run and len(rows) == 1):
            return number, known, parsed(facts)
    ids = ", ".join(row[1] for row in rows)
    if not rows:
        raise wrong("no run has been recorded")
    if not run:
        raise wrong(f"there are {len(rows)} runs in it", f"choose one with --run: {ids}")
    raise wrong(f"there is no run {run} in it", f"it has {ids}")


def _flag_of(names: RunFacts, point: str) -> int:
    if point not in names.points:
        near = difflib.get_close_matches(point, names.points, 1)
        known = f"it has {', '.join(sorted(names.points))}"
        raise wrong(f"the run has no point {point}", f"did you mean {near[0]}?" if near else known)
    return names.points[point]


def _ranges(text: str) -> list[tuple[int, int]]:
    """The ranges of a text such as "1-4,8"; empty if the text is no list of ranges."""
    found = [re.fullmatch(r"([0-9]{1,19})(?:-([0-9]{1,19}))?", part) for part in text.split(",")]
    pairs = [(int(part[1]), int(part[2] or part[1])) for part in found if part]
    return pairs if len(pairs) == len(found) and all(a <= b <= MAX_STEP for a, b in pairs) else []


def select(options: argparse.Namespace, run: int, names: RunFacts) -> Selection:
    layers, steps = None, [(0, MAX_STEP)]
    if options.layers:
        pairs = _ranges(options.layers)
        if not pairs or any(last > _MAX_LAYER for _, last in pairs):
            remedy = f"give ranges such as 1-4,8 up to {_MAX_LAYER}"
            raise wrong(f'"{options.layers}" is not a list of layers', remedy, "--layers")
        layers = {layer for first, last in pairs for layer in range(first, last + 1)}
    if options.steps:
        steps = _ranges(options.steps)
        if len(steps) != 1:
            raise wrong(f'"{options.steps}" is not a range of steps', "give one range such as 10-200", "--steps")
    points = {_flag_of(names, point) for point in options.point} if options.point else None
    return Selection(run, *steps[0], points, layers)


def choose_series(frames: Frames, options: argparse.Namespace, names: RunFacts) -> list[Series]:
    """The series that the format can hold. A point that the user named and that has no records is an error."""
    if options.to == "csv" and not options.point:
        return []
    series, is_board = frames.series(), options.to == "tensorboard"
    if is_board:
        series = [one for one in series if has_readings(names.point(one.point), one.compressor_name)]
    for point in options.point:
        if all(one.point != names.points[point] for one in series):
            what = "stats, projection or Updates records" if is_board else "records"
            raise wrong(
                f"there are no {what} of {point} in these steps and layers",
                "export others with --to npz" if is_board else "widen --steps and --layers",
            )
    return [one for one in series if not (is_board and _are_means(one, frames, names))]


def _are_means(series: Series, frames: Frames, names: RunFacts) -> bool:
    """Each of its records has means over a part of the prompts; the `projections` events have those over all."""
    if series.compressor_name != "projection":
        return False
    return all(names.mean_over(plan, series.entry) for plan in frames.plans(series))


def prepare_output(recording: Path, path: Path, options: argparse.Namespace) -> None:
    """Raises OSError where the output has no place."""
    if path.exists() and path.samefile(recording):
        raise wrong("the output is the recording itself", "give another --output")
    if path.is_dir():
        raise wrong(f"{path} is a folder", "give --output a file's name")
    if path.exists() and not options.force:
        raise wrong(f"{path} is there already", "give another --output, or --force to replace it")
    if options.to == "tensorboard":
        path.parent.mkdir(parents=True, exist_ok=True)


def write(source: Source, path: Path, options: argparse.Namespace) -> None:
    """Writes to `path`.partial, and renames the file when it is complete."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        if options.to == "npz":
            write_npz(source, partial, options.raw)
        elif options.to == "safetensors":
            write_safetensors(source, partial, options.raw)
        elif options.to == "tensorboard":
            write_tensorboard(source, partial)
        elif options.point:
            write_csv_records(source, partial)
        else:
            write_csv_scalars(source, partial)
        partial.replace(path)
    finally:
        with contextlib.suppress(OSError):  # the error of writing is the one to report
            partial.unlink()


def export(options: argparse.Namespace) -> str:
    """Returns what to print."""
    if options.raw and options.to not in ("npz", "safetensors"):
        raise wrong("--raw is of npz and safetensors only", "leave it out")
    with contextlib.closing(open_database(options.file)) as database:
        run, run_id, facts = choose_run(database, options.run)
        names = RunFacts(facts, (plan for _, plan in plans_of(database, run)))
        frames = Frames(database, select(options, run, names))
        series = choose_series(frames, options, names)
        has_scalars = options.to != "csv" or not options.point
        scalars = frames.scalars() if has_scalars else Scalars([], [], {})
        if not series and not scalars.steps:
            raise wrong("nothing was recorded in these steps", "widen --steps")
        path = options.output
        if options.to == "safetensors":
            import_safetensors()
        if options.to == "tensorboard":  # which looks through a folder for files of such names
            path = path / f"events.out.tfevents.0.{one_word(run_id)}"
            import_tensorboard()
        series_names = name_series(series, names)
        source = Source(run_id, frames, names, series, series_names, scalars)
        try:
            prepare_output(options.file, path, options)
            write(source, path, options)
        except OSError as error:
            raise cannot_write(path, error) from error
        return f"{path}: {sum(one.records for one in series)} records, scalars of {len(scalars.steps)} steps"


def parse_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "tensor-tracer export", description="Write a recording in another format (docs/recording.md).",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("file", type=Path, help="a recording: DIR/run.ttrec")
    parser.add_argument("--to", required=True, choices=FORMATS, help="format of the output")
    parser.add_argument("--output", required=True, type=Path, help="output file; for tensorboard, a folder")
    parser.add_argument("--point", action="append", default=[],
                        help="only records of this point (may be repeated); csv: one value per line, no scalars")  # fmt: skip
    parser.add_argument("--layers", default="", help="only these layers, such as 1-4,8")
    parser.add_argument("--steps", default="", help="only these steps, such as 10-200")
    parser.add_argument("--run", default="", help="id of the run, if the recording has several runs")
    parser.add_argument("--raw", action="store_true", help="write u8 as codes, with offset and scale in <name>.lines")
    parser.add_argument("--force", action="store_true", help="replace the output if it exists")
    return parser.parse_args(words)


def visible(text: str) -> str:
    """A recording's texts may hold control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _error_of_database(error: sqlite3.DatabaseError) -> TensorTracerError:
    text = f"this recording cannot be read: {error}"
    if "no such column" in str(error):
        return not_a_recording(str(error))
    if isinstance(error, sqlite3.OperationalError):  # SQLite sorts in temporary files
        remedy = "look for a full disk: temporary files are in the folder SQLITE_TMPDIR, or else /var/tmp"
        return TensorTracerError("io_error", text, "", remedy)
    return TensorTracerError("not_a_recording", text, "", "check it with `sqlite3 FILE 'PRAGMA integrity_check'`")


def main(words: Sequence[str] | None = None) -> int:
    options = parse_arguments(words)
    try:
        print(visible(export(options)))
        return os.EX_OK
    except TensorTracerError as refusal:
        error = refusal
    except sqlite3.DatabaseError as refusal:
        error = _error_of_database(refusal)
    except (ValueError, TypeError, OverflowError, struct.error) as refusal:  # a column of another type
        error = not_a_recording(str(refusal))
    remedy = f"; {error.remedy}" if error.remedy else ""
    text = f"export: {error.where or options.file}: {error.message}{remedy}"
    print(visible(text), file=sys.stderr)
    return 2 if error.code in _USAGE else 1


if __name__ == "__main__":
    sys.exit(main())
