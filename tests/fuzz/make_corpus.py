"""Writes the seeds of the fuzz targets into tests/fuzz/corpus/<target>/: from the golden files and from
cases made by hand, each named after what it is.

    python tests/fuzz/make_corpus.py          # rewrites the seeds, leaves regression-* alone

Inputs that once broke something are regression-<what> beside them, and stay for ever.
"""

import io
import json
import re
import sqlite3
import struct
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "golden"))
from make_golden import records, requests  # noqa: E402

Seeds = Iterator[tuple[str, bytes]]

EXPRESSIONS = {
    "mean": "data.mean(dim=-1)",
    "keepdim": "data.abs().amax(dim=-1, keepdim=True)[..., None, 1:-1:2]",
    "where": "torch.where((data > 0.5) & ~(data <= 1e-3), data ** 2 // 3, -data @ data.mT)",
    "steering": "h + alpha * vector(\"evil\")[12] - [1, 2.5, (None, True)][0]",
    "topk": "data.topk(2, dim=-1).values[..., 0] - data.topk(2, dim=-1).values[..., 1]",
    "stack": "torch.stack([data.amin(-1), data.median(-1).values, data.amax(-1)], dim=-1)",
    "slices": "data[..., 1:] - data[:, None, ::2, :-1]",
    "numbers": "0x1F + 0b101 + 0o17 + 1_000.5e-3 + .5 + 1. + 9223372036854775807",
    "operators": "a + b - c * d / e // f % g ** h @ i & j | k ^ l == m != n < o <= p > q >= r",
    "refused_python": "lambda x: x if x and not x or x is None else [y for y in x]; import os",
    "refused_call": "f(*a, **b, c=1, c=2, :=3) -> data.__class__",
    "strings": "vector('a\\n\\x41\\u00e9' \"b\" '''c''')",
    "comparison_chain": "1 < data < 2",
    "brackets": "((((((((((data))))))))))[[[[[[0]]]]]]",
    "signs": "-+~-+~-+~-data",
    "unclosed": "data.mean(dim=[1, 2",
    "not_utf8": "data\ufffd.m\u00e9an() # \u0301",
    "many_lines": "(data\n  + 1\r\n  - maen(\t2)\n)",
    "empty": "",
    "deep": "(" * 120 + "a" + ")" * 120,
    "long_sum": "+".join(["a"] * 110),
    "huge_number": "1" * 50 + "e999",
}

PROGRAMS = {
    "steering": "alpha = param(4.0, min=0.0, max=20.0)\nh = layers[12].output\n"
                "layers[12].output = h + alpha * vector(\"evil\")[12]\n"
                "save(layers[20].output[:, -1].norm(dim=-1), \"late_norm\")",
    "every_layer": "when(layers=\"8-12\", steps=\"100-\", every=2)\n"
                   "layers[layer + 1].output += 0.5 * vector(\"evil\")[layer] * layer",
    "when": "when(phase=\"train,eval\", prompts=\"probes,chat\", steps=\"5,10-20\", rows=\"0-3,-1\", "
            "tokens=\"-1\", token_text=\" not\", positions=\"response\")\nlogits *= 2",
    "conditions": "if (layers[4].output @ vector(\"evil\")[4] > 3)[..., None]: layers[4].output = 0.0\n"
                  "if layers[4].output.mean() > 0: skip(layers[5])\n"
                  "if ~(tokens == 3).any(): save(tokens, \"ids\", send=False)",
    "heads": "layers[3].attention.context.heads[[0, 2]][:, -1] *= 0\n"
             "layers[3].attention.query.heads[1:3].grad *= 0.5\nlayers[3].Key.heads[-1] = 0",
    "saved": "old = saved(\"x\")\nlayers[2].output = old\nsave(layers[9].output, \"x\", send=False)",
    "noise": "layers[3].mid += noise(layers[3].mid, \"uniform\", seed=7)\nEmbedding -= noise(Embedding)",
    "file": "logits[:, 1:-1:2, [5, 7]] = file(\"clean.safetensors\")[\"resid\"]",
    "weights": "layers[2].attention.qkv.weight *= 0.5\nlayers[2].Fc2Weight[0] = 0\noutput_layer.weight *= 2",
    "gradients": "layers[3].output.grad += layers[4].output.grad * layers[20].output\n"
                 "save(layers[3].output.grad.norm(), \"g\")",
    "ramp": "a = param(4.0, ramp_from=-1.0, ramp_steps=100)\nb = param(-2, max=0)\nlogits = a * b",
    "literals": "k = 3\nl = [0, (1,), \"fro\\n\"]\nn = -0.5\nh = k\nlogits = h * n + l[0]",
    "operators": "x = -2 ** 2 + (-2) ** 2 - --1 + 2 ** -3 ** 2\ny = (1 < 2) & (3 >= 4) | ~(1 != 2) ^ x\n"
                 "z = torch.linalg.norm(x, ord=\"fro\").T[(0, 1),][None:, ::2, ...]\nsave(y + z, \"s\")",
    "old_value": "h = layers[3].output\nlayers[3].output = 0\nlayers[3].output = h",
    "too_late": "layers[12].output = layers[20].output",
    "misspelt": "layers[12].ouput = alhpa",
    "blocks": "if x:\n  y = 1\nelse: z = 2",
    "no_effect": "x = 1",
    "skipped": "skip(layers[3])\nlayers[3].mid = 0",
    "waits": "save(saved(\"a\") + 1, \"a\")",
    "empty": "",
    "not_utf8": "logits = 1 # \udcff",
}

TOKEN, WORKER_TOKEN = "viewer-token", "worker-token"
UPGRADE = {"Host": "localhost:8765", "Upgrade": "websocket", "Connection": "Upgrade",
           "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}


def http(start: str, headers: dict[str, str], body: str = "") -> bytes:
    lines = [start] + [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode("latin-1")


def expression_seeds() -> Seeds:
    for name, text in EXPRESSIONS.items():
        yield name, text.encode()
    yield "lone_bytes", b"data + \xff\xc3( \x00\x01"


def program_seeds() -> Seeds:
    for name, text in PROGRAMS.items():
        yield name, text.encode("utf-8", "surrogateescape")


def graph(*nodes: dict, **more: object) -> bytes:
    return json.dumps({"version": 1, "nodes": nodes} | more).encode()


def node(number: int, kind: str, **fields: object) -> dict:
    return {"id": str(number), "type": kind} | fields


def use(number: int) -> dict:
    return {"node": str(number)}


def graph_seeds() -> Seeds:
    logits = node(1, "getter", point="Logits")
    hidden = node(2, "getter", point="HiddenStates", layer=12, name="h")
    yield "steering", graph(
        node(1, "parameter", name="alpha", value=4.0, min=0, max=20, ramp_from=1, ramp_steps=9),
        hidden, node(3, "constant", vector="evil", row=12),
        node(4, "operator", operator="*", arguments=[use(1), use(3)]),
        node(5, "operator", operator="+", arguments=[use(2), use(4)]),
        node(6, "setter", point="HiddenStates", layer=12, value=use(5)), when={"steps": "100-200"})
    yield "forms", graph(
        logits, node(2, "operator", operator="topk", form="method", arguments=[use(1), 2],
                     keywords={"dim": -1}),
        node(3, "operator", operator="values", form="attribute", arguments=[use(2)]),
        node(4, "operator", operator="index", form="index",
             arguments=[use(3), {"slice": [None, -1, None]}, {"name": "..."}]),
        node(5, "operator", operator="linalg.norm", form="function", arguments=[use(4)],
             keywords={"ord": {"string": "fro"}, "dim": {"tuple": [0, 1]}}),
        node(6, "save", name="x", value=use(5), send=False))
    yield "leaves", graph(
        node(1, "noise", point="MLP2", layer="layer-1", distribution="uniform", seed=3),
        node(2, "saved", save="x", name="old"), node(3, "constant", file="f", tensor="t"),
        node(4, "constant", value={"list": [1, use(2)]}, name="l"),
        node(5, "save", name="x", value={"list": [use(1), use(3), use(4), {"name": "layer"}]}),
        when={"layers": "2-4"})
    yield "conditions", graph(
        node(9, "skip", layer=5, condition="8"), node(8, "condition", value=use(7)),
        node(7, "operator", operator=">", arguments=[use(2), 0]), hidden,
        node(1, "setter", point="ContextLayer", layer=13, heads={"list": [0, 2]}, gradient=True,
             index=[{"slice": [None, None, None]}, -1], value=0, condition="8"))
    yield "read_before_write", graph(
        logits, node(2, "setter", point="Logits", value=0), node(3, "save", name="x", value=use(1)))
    yield "cycle", graph(node(1, "operator", operator="neg", arguments=[use(2)]),
                         node(2, "operator", operator="neg", arguments=[use(1)]))
    yield "missing", graph(node(1, "save", name="x", value=use(7)))
    yield "unknown_member", graph(node(1, "skip", layer=5, layers=6))
    yield "newline_in_name", graph(node(1, "save", name="x\n\"", value={"name": "a\nb"}))
    yield "deep", graph(node(1, "save", name="x", value=json.loads(
        '{"list":[' * 120 + "1" + "]}" * 120)))
    yield "version", b'{"version": 2, "nodes": []}'
    yield "text", json.dumps(PROGRAMS["steering"]).encode()
    yield "empty", b"{}"


def upgrade_seeds() -> Seeds:
    host = {"Host": "127.0.0.1:8765"}
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    yield "viewer", http("GET /ws HTTP/1.1", UPGRADE | bearer)
    yield "viewer_cookie", http("GET /ws HTTP/1.1", UPGRADE | {
        "Cookie": f"a=b; tt-5f0c1234abcd5678={TOKEN}", "Origin": "http://localhost:8765"})
    yield "viewer_query", http(f"GET /ws?token={TOKEN}&x=%41+b HTTP/1.1", UPGRADE)
    yield "worker", http("GET /worker HTTP/1.1", UPGRADE | {
        "Authorization": f"bearer \t {WORKER_TOKEN} "})
    yield "wrong_token", http("GET /ws HTTP/1.1", UPGRADE | {"Authorization": "Bearer viewer"})
    yield "foreign_host", http("GET /ws HTTP/1.1", UPGRADE | {"Host": "evil.example"} | bearer)
    yield "foreign_origin", http("GET / HTTP/1.1", host | {"Origin": "http://evil.example"})
    yield "two_hosts", b"GET / HTTP/1.1\r\nHost: [::1]:1\r\nHost: localhost\r\n\r\n"
    yield "auth", http("POST /auth HTTP/1.1", host | {"Content-Length": "24"},
                       json.dumps({"token": TOKEN})[:24].ljust(24))
    yield "auth_whole", http("POST /auth HTTP/1.1", host | {"Content-Length": "25"},
                             json.dumps({"token": TOKEN}))
    yield "auth_chunked", http("POST /auth HTTP/1.1", host | {"Transfer-Encoding": "chunked"},
                               "5;x=y\r\n{\"tok\r\n0\r\nTrailer: 1\r\n\r\n")
    yield "auth_deep", http("POST /auth HTTP/1.1", host | {"Content-Length": "9"}, "[[[[1]]]]")
    yield "both_lengths", http("POST /auth HTTP/1.1", host | {
        "Transfer-Encoding": "chunked", "Content-Length": "5"}, "0\r\n\r\n")
    yield "head", http("HEAD /healthz HTTP/1.0", host | {"Connection": "keep-alive"})
    yield "health", http("GET /healthz HTTP/1.1", host)
    yield "metrics", http("GET /metrics HTTP/1.1", host | bearer)
    yield "history", http("GET /history HTTP/1.1", host | bearer)
    yield "records", http("GET /history/records?first=1&last=9&point=MLP1&layers=1-4,8&after=3.17 "
                          "HTTP/1.1", host | bearer)
    yield "bad_escapes", http("GET /history?%=%4&a=%zz&&=&b HTTP/1.1", host | bearer)
    yield "absolute_target", http("GET http://localhost/../%2e%2e/x HTTP/1.1", host)
    yield "method", http("BREW /pot HTTP/1.1", host)
    yield "long_header", http("GET / HTTP/1.1", host | {"X": "y" * 8200})
    yield "folded", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n"
    yield "bare_newlines", b"GET / HTTP/1.1\nHost: localhost\n\n"
    yield "no_end", b"GET / HTTP/1.1\r\nHost: localhost\r\n"


def text_event(who: str, number: int, method: str, **params: object) -> bytes:
    said = {"id": number, "method": method} | ({"params": params} if params else {})
    return who.encode() + json.dumps(said).encode()


def notify(who: str, event: str, **params: object) -> bytes:
    return who.encode() + json.dumps({"event": event, "params": params}).encode()


def play(*events: bytes) -> bytes:
    """Events, after everybody but x has connected."""
    return b"\x1e".join((b"w", b"a", b"b", b"c", *events))


def golden_plays() -> Seeds:
    """Each request of the golden file, said by everybody."""
    for request in requests():
        said = {"id": request["id"] + 1, "method": request["method"]}
        if request["params"] is not None:
            said["params"] = request["params"]
        text = json.dumps(said).encode()
        name = f"golden_{request['id']:02}_{request['method'].replace('.', '_')}"
        yield name, play(*(who + text for who in (b"a", b"b", b"c", b"x")), b"r", b"a" + text)


def control_plays() -> Seeds:
    claim = text_event("a", 2, "control.claim", name="Ada")
    pause = text_event("a", 3, "control.pause")
    answer = b'w{"id":1,"result":{"step":4,"ranks":2}}'
    paused = notify("w", "state", phase="paused", step=4)
    yield "pause", play(claim, pause, answer, paused, b"r")
    yield "answer_twice", play(claim, pause, answer, answer, b'w{"id":1,"error":{"code":"busy"}}')
    yield "late_answer", play(claim, pause, b"t61", answer)
    yield "lease_expires", play(claim, pause, answer, paused, b"t31", b"t31")
    yield "holder_leaves", play(claim, pause, b"da", answer, text_event("b", 2, "control.claim"))
    yield "trainer_leaves", play(claim, pause, b"dw", text_event("a", 4, "control.stop"), b"w")
    yield "take_over", play(claim, text_event("b", 2, "control.claim", take_over=True, name="Bob"),
                            pause, text_event("b", 3, "control.release"))
    yield "not_controller", play(text_event("b", 2, "plan.set", plan={"entries": []}))
    yield "step_count", play(claim, text_event("a", 3, "control.step", count=3, wrong=1),
                             text_event("a", 4, "control.step", count=3))
    yield "controller_hello", play(text_event("c", 1, "hello", versions=[1], role="controller",
                                              name="Cy", window=2), b"Rabcdefgh", b"r",
                                   notify("c", "ack", messages=1), notify("c", "ack", messages=9))
    yield "second_trainer", play(claim, pause, text_event(
        "x", 1, "hello", versions=[1], role="worker", run={"id": "2"}), b"r")
    yield "same_id_twice", play(claim, pause, pause, answer, b'w{"id":2,"result":{}}')
    yield "many_waiting", play(claim, *(text_event("a", n, "control.pause") for n in range(3, 40)))


def record_fields(entry: int, layer: int, words: int = 1, point: int = 4, plan: int = 1) -> bytes:
    return bytes([entry, layer, point, plan, 0, words, 0, 0])


def record_plays() -> Seeds:
    several = b"R" + b"".join(record_fields(entry, layer) for entry in (0, 1) for layer in (1, 2))
    big = b"R" + record_fields(2, 1, 250)
    yield "records", play(several, b"r", several)
    yield "records_pile_up", play(*[big, several] * 12, b"r")
    yield "subscribe", play(several, text_event("a", 2, "subscribe", entries=[1], points=["MLP1"],
                                                layers="1-2"), several, b"r",
                            text_event("a", 3, "subscribe", entries="all"), b"r")
    yield "rate", play(text_event("a", 2, "subscribe", rate=0.5), several, several, b"t1", b"t3",
                       b"r", text_event("a", 3, "subscribe", rate=None))
    yield "rate_tiny", play(text_event("a", 2, "subscribe", rate=0.01), several, several, b"t200")
    yield "rate_wrong", play(text_event("a", 2, "subscribe", rate=-1),
                             text_event("a", 3, "subscribe", rate=1e9))
    yield "subscribe_wrong", play(text_event("a", 2, "subscribe", points=["no"]),
                                  text_event("a", 3, "subscribe", layers="4-1"),
                                  text_event("a", 4, "subscribe", entries=[-1]),
                                  text_event("a", 5, "subscribe", other=1))
    yield "plan", play(several, notify("w", "plan", plan={"number": 2, "entries": []}), several)
    yield "steps", play(*(notify("w", "step", step=n, loss=1.5) for n in range(3)), b"dab", b"a",
                        b"b", b"r")
    yield "link", play(notify("w", "link", send_seconds=1.5, queue_bytes=4096),
                       notify("w", "link", send_seconds="NaN", queue_bytes=[]))
    yield "log_flood", play(*[notify("w", "log", message="x" * 900)] * 20)
    for number, (wire, _, _) in enumerate(records()):
        yield f"golden_record_{number:02}", play(b"W" + wire, b"r", b"A" + wire[:20])


def malformed_plays() -> Seeds:
    for name, text in {
            "not_json": b"{", "no_object": b"[1]", "id_zero": b'{"id":0,"method":"ping"}',
            "id_too_large": b'{"id":9007199254740992,"method":"ping"}',
            "params_list": b'{"id":5,"method":"ping","params":[]}',
            "more_members": b'{"id":5,"method":"ping","more":1}',
            "not_utf8": b'{"id":5,"method":"\xff\xc3"}', "no_form": b'{"id":5}',
            "deep": b'{"id":5,"method":"ping","params":{"a":' + b"[" * 40 + b"]" * 40 + b"}}",
            "surrogate": b'{"id":5,"method":"\\ud83d","params":{"\\u0000":1}}',
            "duplicate": b'{"id":5,"id":6,"method":"ping","method":"x"}',
            "answer": b'{"id":5,"result":{}}', "long_method": b'{"id":5,"method":"%s"}' % (b"\xc3\xa9" * 40),
            "hello_wrong": b'{"id":1,"method":"hello","params":{"versions":[2],"role":"viewer"}}',
            "silence": b""}.items():
        yield f"malformed_{name}", play(*(who + text for who in (b"a", b"c", b"w", b"x")), b"t11")


def viewer_seeds() -> Seeds:
    for seeds in (golden_plays(), control_plays(), record_plays(), malformed_plays()):
        yield from seeds


def record_seeds() -> Seeds:
    wires = [wire for wire, _, _ in records()]
    for number, wire in enumerate(wires):
        yield f"golden_{number:02}", b"\x03" + wire
    yield "several", b"\x00" + b"".join(wires[:3])
    yield "damaged_payload", b"\x00" + wires[0][:-1] + b"\x7f"
    yield "damaged_header", b"\x00" + wires[0][:20] + b"\x7f" + wires[0][21:]
    yield "cut", b"\x00" + wires[0][:100]
    yield "cut_payload", b"\x01" + wires[0][:-8]
    yield "longer_header", b"\x03" + wires[0][:6] + struct.pack("<H", 136) + wires[0][8:] + bytes(8)
    yield "payload_2_to_64", b"\x01" + wires[0][:88] + b"\xff" * 8 + wires[0][96:]
    yield "nothing", b"\x00"


def columns_of(schema: str, table: str) -> int:
    columns = re.search(rf"CREATE TABLE {table} \((.*?)\)[^,()]*;", schema, re.DOTALL)
    return len(re.findall(r"\w+ (?:INTEGER|TEXT|REAL|BLOB)", columns.group(1)))


def recording(frames: int = 2, scalars: int = 3, more: str = "") -> bytes:
    """A small recording with the tables that src/record makes; then the statements of `more`."""
    source = (ROOT / "src/record/schema.cpp").read_text()
    schema = re.search(r'R"sql\((.*?)\)sql"', source, re.DOTALL).group(1)
    run = 0x5F0C1234ABCD5678
    facts = json.dumps({"id": f"{run:016x}", "name": "demo", "points": [{"name": "MLP1", "flag": 4}]})
    wire = records()[0][0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.ttrec"
        database = sqlite3.connect(path)
        database.execute("PRAGMA page_size = 512")
        database.executescript(schema)
        database.execute("INSERT INTO meta VALUES ('schema_version', '1')")
        database.execute("INSERT INTO runs VALUES (?, ?, 'demo', 'here', '2026', ?)",
                         (run, f"{run:016x}", facts))
        place = "?, " * (columns_of(schema, "frames") - 1) + "?"
        for step in range(1, frames + 1):
            row = [None, run, step, step, 0, 0, 1, 0, 0, 0, 4, 1, 0, 0, 0, 0, 2, 1, "[1,2,3,1]",
                   256, step, wire]
            database.execute(f"INSERT INTO frames VALUES ({place})", row)
        for step in range(1, scalars + 1):
            database.execute("INSERT INTO scalars VALUES (?, ?, 'loss', ?, ?)",
                             (run, step, 1 / step, step))
        database.execute("INSERT INTO events VALUES (1, ?, 1, 1, 'log', '', '', '{\"level\":\"info\"}')",
                         (run,))
        database.executescript(more)
        database.commit()
        database.close()
        return path.read_bytes()


def damaged(whole: bytes, at: int, patch: bytes) -> bytes:
    return whole[:at] + patch + whole[at + len(patch):]


def recording_seeds() -> Seeds:
    whole = recording()
    yield "small", whole
    yield "empty_run", recording(0, 0)
    yield "null_scalars", recording(0, 2, "UPDATE scalars SET value = NULL")
    yield "other_types", recording(2, 2, "UPDATE frames SET record = 7, step = 'x';"
                                      "UPDATE scalars SET value = zeroblob(9)")
    yield "other_version", recording(0, 0, "UPDATE meta SET value = '2'")
    yield "no_frames", recording(0, 0, "DROP TABLE frames")
    yield "no_events", recording(0, 0, "DROP TABLE events")
    yield "no_database", b"this is no SQLite file" * 30
    yield "nothing", b""
    yield "cut", whole[:len(whole) // 2]
    yield "page_size", damaged(whole, 16, b"\x04\x00")
    yield "freelist", damaged(whole, 32, struct.pack(">II", 3, 400))
    yield "first_page", damaged(whole, 100, b"\x05\x00\xff\x00\x01")
    for page in (4, 8, 12):
        yield f"page_{page}", damaged(whole, 512 * page, b"\x0d\xff\xff\x00\x30\x00\x00" + b"\xff" * 40)


FLOATS = struct.pack("<6f", *range(6))


def npy(header: str, data: bytes = FLOATS, version: int = 1) -> bytes:
    text = header.encode().ljust(118 if version == 1 else 116) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + data


def npy_seeds() -> Seeds:
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
    yield "plain", npy(head)
    yield "version_2", npy(head, version=2)
    yield "flat", npy(head.replace("(2, 3)", "(6,)"))
    yield "number", npy(head.replace("(2, 3)", "()"), FLOATS[:4])
    yield "halves", npy(head.replace("<f4", "<f2"), FLOATS[:12])
    yield "integers", npy(head.replace("<f4", "<i8"))
    yield "fortran", npy(head.replace("False", "True"))
    yield "huge", npy(head.replace("(2, 3)", "(999999999999999999, 999999999999999999)"))
    yield "no_rows", npy(head.replace("(2, 3)", "(0, 3)"), b"")
    yield "long_name", npy(head.replace("<f4", "<" * 60))
    yield "cut", npy(head)[:40]
    yield "nothing", b""


def safetensors(header: object, data: bytes = FLOATS) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors_seeds() -> Seeds:
    entry = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    yield "plain", safetensors({"a": entry, "__metadata__": {"step": "3"}})
    yield "two", safetensors({"a": entry, "b": entry})
    for name, change in {"offsets": {"data_offsets": [24, 0]}, "outside": {"data_offsets": [2**61, 2**61 + 24]},
                         "negative": {"shape": [-2, -3]}, "fraction": {"shape": [2.0, 3e300]},
                         "huge": {"shape": [2**62, 2**62]}, "no_rows": {"shape": [0, 3], "data_offsets": [0, 0]},
                         "integers": {"dtype": "I64"}, "halves": {"dtype": "BF16", "data_offsets": [0, 12]},
                         "number": {"shape": [], "data_offsets": [0, 4]}, "many_dims": {"shape": [1] * 9}}.items():
        yield name, safetensors({"a": entry | change})
    yield "deep", safetensors(b"[" * 3000)
    yield "deep_entry", safetensors(b'{"a":' + b"[" * 300 + b"]" * 300 + b"}")
    yield "no_json", safetensors(b"{")
    yield "long_header", struct.pack("<Q", 2**63) + b"{}"
    yield "nothing", b""


def manifest_seeds() -> Seeds:
    files = [{"name": "model-00000-0.safetensors", "bytes": 1024, "crc32c": 305419896}]
    facts = {"fixed": {"--num-layers": 2}, "run": {"id": "5f0c", "name": "demo"}, "mesh": {"tensor": 2, "data": 1}}
    whole = {"format": "tensor-tracer checkpoint", "version": 1, "step": 100, "time": 1.7e9, "files": files,
             "facts": facts, "valid_loss": 2.5}
    cases = {"plain": {}, "no_files": {"files": []}, "no_loss": {"valid_loss": None}, "newer": {"version": 2},
             "other_format": {"format": "torch"}, "negative_step": {"step": -1}, "fraction": {"step": 1e300},
             "huge_step": {"step": 2**64 - 1}, "text_time": {"time": "now"}, "no_list": {"files": {"a": 1}},
             "no_facts": {"facts": None}, "facts_list": {"facts": [[[[]]]]}}
    for name, change in cases.items():
        yield name, json.dumps(whole | change).encode()
    for name, change in {"outside": {"name": "../a.safetensors"}, "parent": {"name": ".."}, "unnamed": {"name": ""},
                         "nul": {"name": "a\0b"}, "negative_bytes": {"bytes": -1}, "half_byte": {"bytes": 1.5},
                         "long_checksum": {"crc32c": 2**32}, "number_name": {"name": 7}}.items():
        yield name, json.dumps(whole | {"files": [files[0] | change]}).encode()
    yield "deep", json.dumps(whole).replace('"demo"', "[" * 300 + "]" * 300).encode()
    yield "no_json", b"{"


LLAMA = {"model_type": "llama", "vocab_size": 320, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 88, "rms_norm_eps": 1e-5, "rope_theta": 500.0,
         "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True, "hidden_act": "silu"}


def hf_config_seeds() -> Seeds:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192}
    gpt2 = {"model_type": "gpt2", "vocab_size": 320, "n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64,
            "n_inner": None, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
    yield "gpt2", json.dumps(gpt2).encode()
    cases = {"llama": {}, "llama3": {"rope_scaling": scaling, "head_dim": 16},
             "rope_parameters": {"rope_parameters": scaling | {"rope_theta": 7.0}}, "rope_list": {"rope_scaling": [1]},
             "rope_type": {"rope_scaling": {"rope_type": "yarn\u0007"}}, "biases": {"attention_bias": True, "mlp_bias": True},
             "mistral": {"model_type": "mistral", "sliding_window": 4096}, "qwen3": {"model_type": "qwen3", "head_dim": 16},
             "qwen2": {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8},
             "unknown": {"model_type": "mamba\u0007" * 30}, "no_type": {"model_type": None}, "number_type": {"model_type": 7},
             "quantized": {"quantization_config": {"bits": 4}}, "experts": {"num_local_experts": 8},
             "activation": {"hidden_act": "gelu", "activation_function": "\u00e9" * 100}, "no_rows": {"vocab_size": 0},
             "huge": {"hidden_size": 2**63, "num_hidden_layers": 2**64}, "fraction": {"num_attention_heads": 1.5},
             "many_layers": {"num_hidden_layers": 70000}, "text": {"rms_norm_eps": "small"}, "infinite": {"rope_theta": -1}}
    for name, change in cases.items():
        yield name, json.dumps(LLAMA | change).encode()
    yield "nothing", b"{}"


def hf_adapter_seeds() -> Seeds:
    plain = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 8, "lora_alpha": 16, "lora_dropout": 0.05, "bias": "none",
             "target_modules": ["q_proj", "v_proj"], "fan_in_fan_out": False, "modules_to_save": None, "rank_pattern": {}}
    cases = {"plain": {}, "gpt2": {"target_modules": ["c_attn", "attn.c_proj", "mlp.c_fc"]},
             "both_projections": {"target_modules": ["c_proj"]}, "twice": {"target_modules": ["q_proj", "self_attn.q_proj"]},
             "all_linear": {"target_modules": "all-linear"}, "no_targets": {"target_modules": []},
             "other_module": {"target_modules": ["lm_head\u0007"]}, "number": {"target_modules": [7]}, "no_rank": {"r": 0},
             "dora": {"use_dora": True}, "bias": {"bias": "all"}, "saved": {"modules_to_save": ["embed_tokens"]},
             "ranks": {"rank_pattern": {"q_proj": 4}}, "alpha": {"lora_alpha": -1}, "start": {"init_lora_weights": "pissa"},
             "type": {"peft_type": "IA3"}, "dots": {"target_modules": [".", "..q_proj", ""]}}
    for name, change in cases.items():
        yield name, json.dumps(plain | change).encode()
    yield "nothing", b"{}"


def hf_index_seeds() -> Seeds:
    plain = {"metadata": {"total_size": 96}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    yield "plain", json.dumps(plain).encode()
    for name, weights in {"outside": {"a": "../model.safetensors"}, "absolute": {"a": "/model.safetensors"},
                          "nul": {"a": "model\0.safetensors"}, "pickle": {"a": "pytorch_model.bin"}, "number": {"a": 7},
                          "only_suffix": {"a": ".safetensors"}, "control": {"a": "\u0007" * 100}, "no_file": {},
                          "list": ["a.safetensors"], "text": "model.safetensors"}.items():
        yield name, json.dumps(plain | {"weight_map": weights}).encode()
    yield "nothing", b"{}"


def tuple_of(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"t"


def short_text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def pickled(kind: str = "FloatStorage", elements: bytes = b"K\x06", offset: bytes = b"K\0",
            shape: bytes = b"K\x02K\x03\x86", strides: bytes = b"K\x03K\x01\x86", key: str = "0") -> bytes:
    storage = tuple_of(short_text("storage"), b"ctorch\n" + kind.encode() + b"\nq\x01", short_text(key),
                       short_text("cpu"), elements) + b"Q"  # fmt: skip
    hooks = b"ccollections\nOrderedDict\n)R"
    return (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\0"
            + tuple_of(storage, offset, shape, strides, b"\x89", hooks) + b"Rq\x02.")  # fmt: skip


def archive(pickle: bytes, data: bytes = FLOATS, compression: int = zipfile.ZIP_STORED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as file:
        for name, content in (("data.pkl", pickle), ("byteorder", b"little"), ("data/0", data)):
            file.writestr(zipfile.ZipInfo(f"x/{name}"), content, compression)
    return packed.getvalue()


def pt_seeds() -> Seeds:
    plain = pickled()
    whole = archive(plain)
    yield "plain", whole
    yield "transposed", archive(pickled(shape=b"K\x03K\x02\x86", strides=b"K\x01K\x03\x86"))
    yield "view", archive(pickled(offset=b"M\x02\0", shape=b"J\x01\0\0\0\x85", strides=b"\x8a\x01\x01\x85"))
    yield "halves", archive(pickled("BFloat16Storage"), FLOATS[:12])
    yield "integers", archive(pickled("LongStorage"))
    yield "expanded", archive(pickled(shape=b"J\xff\xff\xff\x7fK\x03\x86", strides=b"K\0K\x01\x86"))
    yield "behind_the_end", archive(pickled(offset=b"K\x05"))
    yield "other_size", archive(pickled(elements=b"K\x07"))
    yield "no_such_storage", archive(pickled(key="1"))
    yield "memo", archive(plain.replace(b"K\x03K\x01\x86", b"h\x02"))
    yield "dictionary", archive(b"\x80\x02}q\0.")
    yield "code", archive(b"\x80\x02cbuiltins\nprint\nX\x01\0\0\0x\x85R.")
    yield "deep_tuples", archive(b"\x80\x02" + b")" + b"\x85" * 5000 + b".")
    yield "deep_lists", archive(b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".")
    yield "marks", archive(b"\x80\x02" + b"(" * 5000)
    yield "deflated", archive(plain, bytes(100_000), zipfile.ZIP_DEFLATED)
    yield "promises_4_gib", whole.replace(struct.pack("<II", len(FLOATS), len(FLOATS)), b"\xff" * 8)
    yield "no_archive", plain
    yield "cut", whole[:len(whole) - 30]
    yield "directory_outside", whole[:-6] + struct.pack("<IH", 2**31, 0)
    yield "nothing", b""


def tokenizer_seeds() -> Seeds:
    spaces = {"String": "\u2581"}
    llama2 = {
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        "added_tokens": [{"id": 1, "content": "<s>", "special": True, "lstrip": True},
                         {"id": 9, "content": "a", "normalized": True, "single_word": True}],
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
                  "vocab": {"<unk>": 0, "<s>": 1, "\u2581": 2, "b": 3, "\u2581b": 4, "<0xC3>": 5, "<0xA9>": 6},
                  "merges": ["\u2581 b"]},
        "post_processor": {"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": spaces, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}}
    words = {"type": "Split", "pattern": {"Regex": "(?i:'s)|\\p{L}+|\\s+(?!\\S)"}, "behavior": "Isolated"}
    bytes_of_words = {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, words, {"type": "ByteLevel", "add_prefix_space": True}]}
    gpt2 = {"normalizer": {"type": "NFC"}, "pre_tokenizer": bytes_of_words, "decoder": {"type": "ByteLevel"},
            "post_processor": {"type": "ByteLevel"},
            "model": {"vocab": {"\u0120": 0, "a": 1, "\u0120a": 2, "\u00c3": 3, "\u00a9": 4},
                      "merges": [["\u0120", "a"]], "ignore_merges": True}}
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    cases = {"llama2": llama2, "gpt2": gpt2, "metaspace": gpt2 | {"pre_tokenizer": metaspace, "decoder": metaspace},
             "growing": gpt2 | {"normalizer": {"type": "Sequence", "normalizers": [
                 {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 60}},
             "slow": gpt2 | {"pre_tokenizer": words | {"pattern": {"Regex": "(a|aa|\\s)+x| +"}}},
             "unknown_part": gpt2 | {"decoder": {"type": "WordPiece\u0007"}},
             "wrong_id": gpt2 | {"added_tokens": [{"id": 3, "content": "a"}]},
             "no_model": {"version": "1.0"}}
    for name, case in cases.items():
        yield name, json.dumps(case).encode()
    yield "deep", b'{"normalizer":' * 3000
    yield "nothing", b""


TARGETS = {"expression": expression_seeds, "graph": graph_seeds, "hf_adapter": hf_adapter_seeds,
           "hf_config": hf_config_seeds, "hf_index": hf_index_seeds, "manifest": manifest_seeds,
           "npy": npy_seeds, "program": program_seeds, "pt": pt_seeds, "safetensors": safetensors_seeds, "tokenizer": tokenizer_seeds,
           "upgrade_request": upgrade_seeds, "viewer_message": viewer_seeds,
           "record": record_seeds, "recording": recording_seeds}


def main() -> None:
    for target, seeds in TARGETS.items():
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if not old.name.startswith("regression-"):
                old.unlink()
        for name, data in seeds():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
