"""The SQLite file of a recording: docs/recording.md."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensor_tracer.errors import RecordError
from tensor_tracer.json_values import member, parsed

_TABLES = {"meta", "runs", "points", "frames", "scalars", "events"}
_LOCK_SECONDS = 2.0


def not_a_recording(message: str) -> RecordError:
    remedy = "give a .ttrec file that `train --record` wrote"
    return RecordError("not_a_recording", f"this recording cannot be read: {message}", "", remedy)


def open_database(path: Path) -> sqlite3.Connection:
    """Opens a recording for reading only; it may still be written."""
    if path.is_dir():
        raise not_a_recording("this is a folder; the recording of a run is the file run.ttrec in its folder")
    if not path.is_file():
        raise not_a_recording("there is no such file")
    why = ""
    # A file in a folder that cannot be written has no room for SQLite's lock files.
    for options in ("mode=ro", "mode=ro&immutable=1"):
        try:
            uri = f"{path.resolve().as_uri()}?{options}"
            database = sqlite3.connect(uri, timeout=_LOCK_SECONDS, isolation_level=None, uri=True)
            # A view would do what the file's author wrote, for as long as he likes.
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            tables = {name for (name,) in database.execute(query)}
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                text = "the hub of a run has this file for itself"
                remedy = "wait until the run has ended, or ask its hub: connect(…).history()"
                raise RecordError("recording_in_use", text, "", remedy) from error
            why = str(error)
            continue
        _check_schema(database, tables)
        database.text_factory = lambda text: text.decode(errors="replace")
        return database
    raise not_a_recording(why)


def _check_schema(database: sqlite3.Connection, tables: set[str]) -> None:
    if missing := _TABLES - tables:
        raise not_a_recording(f"this is an SQLite file, but no recording: it has no table {min(missing)}")
    version = database.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    if version != ("1",):
        text = f"schema version {version[0] if version else 'none'} is not known"
        raise RecordError("unsupported_version", text, "", "use a newer version of Tensor Tracer")


def plans_of(database: sqlite3.Connection, run: int, after: int = 0) -> Iterator[tuple[int, Any]]:
    """The trace plans that came into force after the start, in order, each with the number of its event: those after
    event `after`."""
    query = "SELECT id, detail FROM events WHERE id > ? AND run = ? AND kind IN ('plan', 'run') ORDER BY id"
    for number, detail in database.execute(query, [after, run]):
        yield number, member(parsed(detail), "plan")
