"""Writes the golden files from docs/protocol.md alone, without the C++ code: record_v1.bin and
record_v1.json, which describes it, and messages_v1.json.

    python tests/golden/make_golden.py          # rewrites the files next to this script

Read by tests/unit/protocol, frontend/src/protocol and tests/e2e/test_python_client.py.
"""

import json
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent
NAN = float("nan")

FIELDS = [
    ("run", "Q"), ("sequence", "Q"), ("step", "Q"), ("plan", "I"), ("entry", "I"),
    ("micro_batch", "I"), ("prompt_set", "I"), ("first_row", "I"), ("point", "H"), ("layer", "H"),
    ("tensor_rank", "H"), ("pipeline_rank", "H"), ("data_rank", "H"), ("phase", "B"),
    ("direction", "B"), ("dtype", "B"), ("compressor", "B"), ("ndim", "B"),
]


def crc32c(data: bytes) -> int:
    """Bit by bit, as the definition says: polynomial 0x1EDC6F41, reflected."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def record(header: dict, payload: bytes) -> tuple[bytes, dict]:
    header = dict(header, payload_bytes=len(payload), payload_crc=crc32c(payload))
    out = struct.pack("<IHH", 0x31465454, 1, 128)
    for name, code in FIELDS:
        out += struct.pack("<" + code, header[name])
    out += b"\0" + struct.pack("<4I", *header["shape"])
    out += struct.pack("<IQQ", header["features"], header["payload_bytes"], header["time"])
    out += bytes(16) + struct.pack("<I", header["payload_crc"])
    assert len(out) == 124
    header["header_crc"] = crc32c(out)
    out += struct.pack("<I", header["header_crc"]) + payload
    return out + bytes(-len(out) % 8), header


def numbers_of_u8(lines: list[tuple[float, float, list[int]]]) -> list:
    """The numbers that lines of (offset, scale, codes) stand for."""
    names = {253: "NaN", 254: "Infinity", 255: "-Infinity"}
    return [names.get(code, offset + code * scale) for offset, scale, codes in lines
            for code in codes]


def payload_of_u8(lines: list[tuple[float, float, list[int]]]) -> bytes:
    """Offset and scale of every line, then the codes of every line."""
    heads = b"".join(struct.pack("<2f", offset, scale) for offset, scale, _ in lines)
    return heads + b"".join(bytes(codes) for _, _, codes in lines)


def records() -> list[tuple[bytes, dict, list]]:
    """Each with its bytes, its header, and the numbers that a reader must get."""
    tiles = dict(run=0x5F0C1234ABCD5678, sequence=1, step=12, plan=3, entry=0, micro_batch=1,
                 prompt_set=0, first_row=8, point=7, layer=4, tensor_rank=0, pipeline_rank=1,
                 data_rank=2, phase=0, direction=0, dtype=2, compressor=1, ndim=3,
                 shape=[1, 2, 3, 1], features=256, time=1795230000123456789)
    made = []

    def add(header: dict, payload: bytes, numbers: list) -> None:
        made.append((*record(header, payload), numbers))

    # One tile of each kind of f32; token ids; bf16; no lines at all.
    add(tiles, struct.pack("<6f", 0.0, -1.5, 3.25, float("inf"), float("nan"), 2.0**-100),
        [0.0, -1.5, 3.25, "Infinity", "NaN", 2.0**-100])
    add(dict(tiles, sequence=2, entry=1, point=8, layer=0, phase=1, dtype=5, compressor=0,
             shape=[2, 1, 3, 1], features=0), struct.pack("<6i", 10, 20, 30, 0, 1, 2),
        [10, 20, 30, 0, 1, 2])
    odd = dict(tiles, sequence=2**40 + 3, entry=2, prompt_set=9, direction=1, dtype=4, ndim=1,
               shape=[3, 1, 1, 1])
    add(odd, b"\x80\x3f\x00\x40\x40\x40", [1.0, 2.0, 3.0])
    add(dict(odd, dtype=7, ndim=2, shape=[0, 4, 1, 1]), b"", [])
    # u8: two lines of three codes, then a number without dims, which is one line.
    lines = [(-1.0, 0.5, [0, 252, 253]), (2.0, 0.0, [7, 254, 255])]
    add(dict(tiles, dtype=7, ndim=2, shape=[2, 3, 1, 1]), payload_of_u8(lines),
        numbers_of_u8(lines))
    single = [(1.0, 0.25, [2])]
    add(dict(tiles, dtype=7, ndim=0, shape=[1, 1, 1, 1]), payload_of_u8(single),
        numbers_of_u8(single))
    # Attention of two heads in f16, and one record of every other compressor.
    add(dict(tiles, entry=3, point=2, dtype=3, compressor=0, ndim=4, shape=[1, 2, 1, 2],
             features=2), struct.pack("<4e", 0.25, 0.75, 1.0, 0.0), [0.25, 0.75, 1.0, 0.0])
    add(dict(tiles, compressor=2, ndim=3, shape=[1, 2, 0, 1]), b"", [])
    stats = [4.0, 0.5, 1.5, -1.0, 2.0, 3.5, 0.25, 1.0, 0.0, 0.0, 3.0, 1.0]
    add(dict(tiles, dtype=1, compressor=3, ndim=1, shape=[12, 1, 1, 1]),
        struct.pack("<12d", *stats), stats)
    add(dict(tiles, prompt_set=1, phase=1, compressor=4, ndim=3, shape=[1, 2, 1, 1]),
        struct.pack("<2f", -0.5, 0.125), [-0.5, 0.125])
    best = [2.5, 1.5, 101.0, 32.0]
    add(dict(tiles, point=23, layer=0, compressor=5, ndim=4, shape=[2, 1, 1, 2]),
        struct.pack("<4f", *best), best)
    add(dict(tiles, entry=1, point=8, layer=0, dtype=6, compressor=0, shape=[2, 1, 2, 1],
             features=0), struct.pack("<4q", 2**40, -1, 0, 1), [2**40, -1, 0, 1])
    add(dict(tiles, dtype=4, ndim=1, shape=[4, 1, 1, 1]), b"\x80\x7f\x80\xff\xc0\x7f\x00\xc0",
        ["Infinity", "-Infinity", "NaN", -2.0])
    made += later_records(tiles, len(made))
    return made


def later_records(tiles: dict, count: int) -> list[tuple[bytes, dict, list]]:
    """Forms that came after the first golden file."""
    made = []

    def add(header: dict, dtype: str, numbers: list) -> None:
        bits = struct.pack(f"<{len(numbers)}{dtype}", *numbers)
        told = ["NaN" if number != number else number for number in numbers]
        made.append((*record(dict(header, sequence=count + len(made) + 1), bits), told))

    # Predictions of two tokens: planes of numbers and columns, then log-sum-exp, entropy, loss and target in
    # planes of k. With k = 3, NaN fills the rest; the second token has no target.
    logits = dict(tiles, point=23, layer=0, compressor=5, ndim=4)
    one, two = [3.0, 1.25, 0.5, 101.0], [2.0, 0.75, NAN, -1.0]
    add(dict(logits, shape=[4, 1, 2, 2]), "f",
        [2.5, 1.5, 1.0, 0.5, 101.0, 32.0, 32.0, 97.0, *one[:2], *two[:2], *one[2:], *two[2:]])
    add(dict(logits, dtype=1, shape=[4, 1, 1, 3]), "d",
        [2.5, 1.5, 1.0, 101.0, 32.0, 97.0, *one, NAN, NAN])
    # Statistics: a second row with kurtosis, root mean square, and norms of lines and columns.
    add(dict(tiles, compressor=3, ndim=2, shape=[2, 12, 1, 1]), "f",
        [4.0, 0.5, 1.5, -1.0, 2.0, 3.5, 0.25, 1.0, 0.0, 0.0, 3.0, 1.0,
         1.75, 1.5, 0.5, 2.0, 3.0, 1.0, 1.25, 2.5, *[NAN] * 4])
    # The tokens with the largest number of one column: number, step, row, position, then 33 token ids.
    ids = [-1.0] * 14 + [float(97 + n) for n in range(19)]
    add(dict(tiles, dtype=1, compressor=6, ndim=3, shape=[1, 2, 37, 1]), "d",
        [7.5, 11.0, 3.0, 2.0, *ids, NAN, *[-1.0] * 36])
    return made


def requests() -> list[dict]:
    """What clients say."""
    plan = {"entries": [
        {"point": "HiddenStates", "layers": "1-4", "rows": [0, 2], "tokens": [0, 64],
         "compressor": {"kind": "tile", "tiles": 64, "method": "mean"}, "dtype": "u8"},
        {"point": "MLP1", "direction": "gradient", "compressor": {"kind": "stats"}}]}
    asked = [
        ("hello", {"versions": [1], "role": "viewer", "client": "page 0.1"}),
        ("hello", {"versions": [1], "role": "viewer", "client": "python 0.1.0", "window": 64}),
        ("hello", {"versions": [1], "role": "controller", "client": "x", "name": "Ada"}),
        ("hello", {"versions": [1], "role": "worker", "client": "x", "rank": 0,
                   "run": {"id": "5f0c1234abcd5678", "name": "demo"}}),
        ("ping", None),
        ("subscribe", {"entries": [0, 2], "points": ["MLP1"], "layers": "1-4,8", "rate": 5.0}),
        ("subscribe", {"entries": "all"}),
        ("control.claim", {"name": "Zo\u00eb \U0001f9ea", "take_over": True}),
        ("control.release", None), ("control.pause", None), ("control.continue", None),
        ("control.step", {"count": 3}), ("control.stop", None), ("plan.set", {"plan": plan}),
        ("plan.check", {"plan": plan}), ("intervention.check", {"program": PROGRAM}),
        ("intervention.apply", {"name": "steer", "program": PROGRAM, "parameters": {"alpha": 2.0},
                                "ttl": 500, "keep": False}),
        ("intervention.apply", {"name": "steer", "program": GRAPH}),
        ("intervention.set", {"name": "steer", "parameter": "alpha", "value": 2.5}),
        ("intervention.remove", {"name": "steer"}), ("intervention.remove", {}),
        ("intervention.preview", {"program": PROGRAM, "parameters": {"alpha": 2.0},
                                  "plan": {"entries": [{"point": "MLP1", "phases": ["eval"]}]}}),
        ("replay.seek", {"step": 120}), ("replay.speed", {"speed": 0.5}),
        ("hello", {"versions": [1], "role": "viewer", "client": "x", "watch": False}),
        ("alarms.set", ALARM), ("alarms.remove", {"name": "exploding"}), ("alarms.list", None),
        ("hello", {"versions": [1], "role": "worker", "client": "x", "rank": 8, "stage": 1, "stages": 2,
                   "run": {"id": "5f0c1234abcd5678", "points": []}})]
    return [{"form": "request", "id": number, "method": method, "params": params}
            for number, (method, params) in enumerate(asked, 1)]


PROGRAM = ("alpha = param(4.0, min=0.0, max=20.0)\n"
           'layers[12].output += alpha * vector("evil")[12]  # \u00e9')
GRAPH = {"version": 1, "nodes": [
    {"id": "1", "type": "parameter", "name": "alpha", "value": 4.0, "min": 0.0, "max": 20.0},
    {"id": "2", "type": "getter", "point": "HiddenStates", "layer": 12},
    {"id": "3", "type": "constant", "vector": "evil", "row": 12},
    {"id": "4", "type": "operator", "operator": "*", "arguments": [{"node": "1"}, {"node": "3"}]},
    {"id": "5", "type": "operator", "operator": "+", "arguments": [{"node": "2"}, {"node": "4"}]},
    {"id": "6", "type": "setter", "point": "HiddenStates", "layer": 12, "value": {"node": "5"}}]}
WRITE = {"place": "layers[12].output", "point": "HiddenStates", "layer": 12, "gradient": False,
         "runs": "everywhere"}
READ = {"place": "layers[12].output", "point": "HiddenStates", "layer": 12, "gradient": False}
EFFECTS = {"parameters": [{"name": "alpha", "value": 2.0, "min": 0.0, "max": 20.0}],
           "writes": [WRITE], "reads": [READ], "saves": ["late_norm"], "skips": [5],
           "when": {"steps": "100-200"}}
IN_FORCE = {"name": "steer", "text": PROGRAM, "since": 13, "until": 512, "keep": False} | EFFECTS


def run_facts() -> dict:
    """What a worker tells of its run."""
    return {"id": "5f0c1234abcd5678", "name": "demo", "start_time": "2026-11-21T03:00:00Z",
             "host": "node1", "mesh": {"tensor": 2, "pipeline": 1, "data": 1},
             "model": {"num_layers": 4, "hidden_size": 256, "num_attention_heads": 4,
                       "num_query_groups": 4, "ffn_hidden_size": 1024, "vocab_size": 256,
                       "seq_length": 256, "parameters": 3290112},
             "micro_batch_size": 8, "global_batch_size": 8, "train_iters": 300,
             "tokenizer": {"kind": "byte"}, "unigram_entropy": 3.19,
             "points": [{"name": "HiddenStates", "flag": 7, "first_layer": 1, "last_layer": 4,
                         "dims": ["batch", "sequence", "features"], "features": 256,
                         "text": "output of the transformer layer"}],
             "prompt_sets": [{"name": "probes", "interval": 50, "prompts": ["Once upon"]}],
             "vectors": ["evil"], "plan": {"number": 3, "entries": [{"point": "InputTokens"}]}}


def later_results() -> list[dict]:
    """Of methods and members that came after the first golden file."""
    told = {"configuration": {"lr": "0.0006", "data-path": ["a", "b"]}, "interventions": [IN_FORCE],
            "recording": "runs/demo/run.ttrec"}
    losses = [{"batch": "train", "loss_off": 2.5, "loss_on": 2.75},
              {"batch": "valid", "loss_off": 2.5, "loss_on": "NaN"}]
    changes = [{"place": "layers[12].output", "positions": 2048, "norm_before": 310.25,
                "norm_change": 12.5}]
    return [
        {"version": 1, "session": "v4", "hub": "0.1.0", "run": run_facts() | told,
         "state": REPLAY_STATE, "control": {"holder": None}, "may_control": False},
        {"entries": [{"bytes": 4224.0, "records": 4.0}], "bytes_per_step": 4224.0},
        {"text": PROGRAM, "graph": GRAPH, "positions": 2048} | EFFECTS,
        {"step": 13, "ranks": 2, "program": IN_FORCE},
        {"step": 13, "ranks": 2, "value": 2.5},
        {"step": 13, "ranks": 2, "removed": ["steer"]},
        {"step": 12, "batches": losses, "writes": changes, "records": {"off": "VFRG", "on": ""}},
        {"step": 120, "ranks": 0},
        {"alarm": FIRING_ALARM}, {"alarms": [FIRING_ALARM]},
        {"version": 1, "session": "v5", "hub": "0.1.0", "run": None, "state": {"phase": "lost", "step": 9},
         "control": {"holder": None}, "may_control": True, "parts": PARTS}]


# One leader has not come yet.
PARTS = [{"stage": 0, "rank": 0, "connected": True}, {"stage": 1, "rank": 8, "connected": False},
         {"stage": 2, "connected": False}]


def later_errors() -> list[tuple]:
    """The codes that the first golden file has not."""
    told = {"invalid_graph": "nodes[3]", "invalid_argument": "layers", "not_found": "name",
            "superseded": "alpha", "not_controller": "", "not_allowed": "", "rate_limited": "",
            "unknown_method": "no.such", "unsupported_version": "versions", "too_large": "",
            "timeout": "", "internal": "", "replay": "plan.set"}
    return [(number, code, f"what {code} is said of", where, "")
            for number, (code, where) in enumerate(told.items(), 9)]


REPLAY_STATE = {"phase": "replay", "step": 120, "paused": True, "speed": 0.5, "first_step": 1,
                "last_step": 300}


ALARM = {"name": "exploding", "point": "HiddenStates", "statistic": "rms", "layers": "1-4",
         "test": "sigma", "k": 6.0, "first": 100, "side": "above", "pause": True}
FIRING_ALARM = ALARM | {
    "state": "firing", "fires": 2, "firing_layers": [3, 4],
    "last": {"step": 120, "value": "Infinity", "layer": 3,
             "message": "alarm exploding: rms of HiddenStates in layer 3 is +Infinity at step 120"}}


def answers() -> list[dict]:
    """What the hub answers."""
    facts = run_facts()
    hello = {"version": 1, "session": "v3", "hub": "0.1.0", "run": None,
             "state": {"phase": "starting", "step": 0}, "control": {"holder": None}}
    held = {"state": {"phase": "paused", "step": 12}, "run": facts,
            "control": {"holder": {"session": "v1", "name": "Ada"}}}
    results = [hello, hello | held, {}, {"lease_seconds": 30.0}, {"step": 12, "ranks": 2},
               {"step": 13, "ranks": 2, "plan": {"number": 4, "entries": []}}]
    results += later_results()
    errors = [
        (0, "invalid_request", "not JSON: byte 3 does not fit", "", ""),
        (7, "busy", "Ada holds the control", "control.claim", "claim with take_over"),
        (8, "invalid_expression", "no such name\n  data.maen()\n       ^", "entries[0].compressor",
         "mean?"),
        (2**53 - 1, "no_trainer", "no trainer is connected", "", ""), *later_errors()]
    names = ("code", "message", "where", "remedy")
    return ([{"form": "result", "id": number, "result": result}
             for number, result in enumerate(results, 1)]
            + [{"form": "error", "id": number, "error": dict(zip(names, parts, strict=True))}
               for number, *parts in errors])


def notifications() -> list[dict]:
    """What the hub, or a viewer (ack), tells without being asked."""
    step = {"step": 12, "loss": 3.21, "lr": 6e-4, "grad_norm": 1.25, "tokens_per_second": 5400.0,
            "step_ms": 380.0, "tracer_ms": 1.5, "consumed_tokens": 24576, "valid_loss": 3.25}
    did = {"name": "steer", "forwards": 4, "positions": 4096, "identity": 0, "waiting": 1,
           "failed": 0, "ranks": 2, "of_ranks": 2,
           "writes": [{"place": "layers[12].output", "positions": 4096}]}
    saved = {"step": 13, "micro_batch": 0, "phase": "eval", "prompt_set": 1, "first_row": 8,
             "program": "steer", "name": "late_norm", "layer": 12, "shape": [2], "values": [1.5, -2.0]}
    told = [
        ("run", run_facts()), ("state", REPLAY_STATE),
        ("interventions", {"step": 13, "programs": [IN_FORCE], "reason": "apply"}),
        ("applied", {"step": 13, "programs": [did]}), ("saved", saved),
        ("dropped", {"records": 0, "where": "viewer", "entries": {}, "events": 2}),
        ("state", {"phase": "training", "step": 12}),
        ("control", {"holder": None}), ("control", {"holder": {"session": "v3", "name": "Ada"}}),
        ("step", step), ("step", {"step": 13, "loss": "NaN", "grad_norm": "Infinity"}),
        ("dropped", {"records": 3, "where": "viewer", "entries": {"0": 2, "4": 1}}),
        ("dropped", {"records": 1, "where": "trainer"}),
        ("plan", {"plan": {"number": 4, "entries": [{"point": "MLP1"}]}, "step": 13}),
        ("log", {"level": "warning", "message": "entry 0 took 1.2 s and is disabled"}),
        ("alarm", {"change": "fired", "step": 120, "value": "Infinity", "layer": 3,
                   "message": FIRING_ALARM["last"]["message"], "pause_seconds": 1800,
                   "alarm": FIRING_ALARM}),
        ("alarm", {"change": "removed", "alarm": FIRING_ALARM}),
        ("alarms", {"step": 120, "alarms": [FIRING_ALARM]}),
        ("ack", {"messages": 17}), ("of_a_later_version", {"news": [1, None]}),
        ("parts", {"parts": PARTS})]
    return [{"form": "notification", "event": event, "params": params} for event, params in told]


def malformed() -> list[dict]:
    """A message of none of the three forms, with the id that the refusal carries."""
    texts = [(0, "[1]"), (4, '{"id": 4}'), (0, '{"id": 0, "method": "ping"}'), (0, "{"), (0, ""),
             (5, '{"id": 5, "method": "ping", "more": 1}'), (0, '{"event": "step", "params": 1}'),
             (0, f'{{"id": {2**53}, "method": "ping"}}')]
    return [{"form": "malformed", "id": number, "text": text} for number, text in texts]


def text_of(message: dict) -> str:
    """The message on the wire; params that are not there are left out."""
    members = {name: value for name, value in message.items()
               if name != "form" and not (name == "params" and value is None)}
    return json.dumps(members)


def messages() -> list[dict]:
    """Each with its text and what a reader must find in it."""
    return [message if "text" in message else message | {"text": text_of(message)}
            for message in requests() + answers() + notifications() + malformed()]


def main() -> None:
    made = records()
    (HERE / "record_v1.bin").write_bytes(b"".join(data for data, _, _ in made))
    described = {"file": "record_v1.bin", "made_by": "make_golden.py",
                 "records": [{"header": header, "numbers": numbers,
                              "payload_hex": data[128:128 + header["payload_bytes"]].hex()}
                             for data, header, numbers in made]}
    (HERE / "record_v1.json").write_text(json.dumps(described, indent=1) + "\n")
    described = {"made_by": "make_golden.py", "messages": messages()}
    (HERE / "messages_v1.json").write_text(json.dumps(described, indent=1) + "\n")


if __name__ == "__main__":
    main()
