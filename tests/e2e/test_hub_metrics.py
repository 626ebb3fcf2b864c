"""What `/metrics` tells, and that Prometheus takes it."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import time
from typing import Any

import pytest
from hub_harness import REPOSITORY, RUN_ID, Hub, RawSocket, claim, make_record, sanitized, wait_until
from prometheus_client.parser import text_string_to_metric_families
from test_hub_access import ask

# The set-up's, where the package is not installed.
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=REPOSITORY / "build" / "tools")
STEP = {"step": 7, "loss": 3.25, "lr": 6e-4, "grad_norm": 1.5, "tokens_per_second": 5400.0,
        "step_ms": 380.0, "tracer_ms": 2.0, "consumed_tokens": 24576}  # fmt: skip


def get(hub: Hub, path: str, token: str | None = None) -> Any:
    return ask(hub, f"GET {path}", f"Authorization: Bearer {token or hub.viewer_token}\r\n")


def scrape(hub: Hub) -> dict[str, float]:
    """All samples as `name{label="value"}`; a sample that comes twice is an error."""
    answer = get(hub, "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples: dict[str, float] = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        assert family.name.startswith("tensor_tracer_") and family.documentation
        assert family.type in ("counter", "gauge", "histogram"), family.name
        for sample in family.samples:
            labels = ",".join(f'{k}="{v}"' for k, v in sorted(sample.labels.items()))
            key = sample.name.removeprefix("tensor_tracer_") + (f"{{{labels}}}" if labels else "")
            assert key not in samples, f"twice: {key}"
            samples[key] = sample.value
    return samples


def test_metrics_say_what_happened(hub: Hub) -> None:
    worker = hub.worker()
    worker.notify("state", phase="training", step=7)
    worker.notify("step", **(STEP | {"loss": "NaN", "grad_norm": "Infinity", "gather_ms": 250.0}))
    worker.notify("step", **STEP, gather_ms=250.0, encode_ms=1.0)
    worker.notify("dropped", records=5, where="trainer")
    worker.notify("link", send_seconds=1.5, queue_bytes=4096)
    stats = struct.pack("<10d", 9, 0, 0, 0, 0, 0, 0, 3, 2, 1)
    worker.connection.send(make_record(stats, dtype=1, compressor=3, shape=[10, 1, 1, 1]))
    worker.connection.send(make_record(sequence=1))
    worker.connection.send(make_record(sequence=2)[:100])
    viewer = hub.viewer()
    claim(viewer)
    wait_until(lambda: scrape(hub)["damaged_messages_total"] == 1, "the damaged record")
    ask(hub, "GET /metrics")
    seen = scrape(hub)
    expected = {
        "step": 7, "loss": 3.25, "learning_rate": 6e-4, "gradient_norm": 1.5,
        "tokens_per_second": 5400, "consumed_tokens": 24576, "last_step_duration_seconds": 0.38,
        'step_duration_seconds_bucket{le="0.25"}': 0, 'step_duration_seconds_bucket{le="0.5"}': 2,
        "step_duration_seconds_count": 2, "trace_cpu_seconds_total": 0.004,
        "trace_gather_seconds_total": 0.5, "trace_encode_seconds_total": 0.001,
        'nonfinite_steps_total{number="loss"}': 1, 'nonfinite_steps_total{number="gradient_norm"}': 1,
        'nonfinite_values_total{kind="NaN"}': 3, 'nonfinite_values_total{kind="+Inf"}': 2,
        'nonfinite_values_total{kind="-Inf"}': 1,
        'worker_send_seconds_total{rank="0"}': 1.5, 'worker_queue_bytes{rank="0"}': 4096,
        "viewers": 1, "workers": 1, "controller_held": 1, "leases_total": 1, "plan_number": 1,
        "records_received_total": 2, "damaged_messages_total": 1,
        'records_dropped_total{reason="trainer"}': 5, 'records_dropped_total{reason="viewer"}': 0,
        'records_dropped_total{reason="recorder"}': 0, "auth_failures_total": 1,
        "rate_limited_total": 0, "hub_errors_total": 0, "connections_total": 2,
        'http_requests_total{status="1xx"}': 2, 'http_requests_total{status="4xx"}': 1,
        'run_phase{phase="training"}': 1, 'run_phase{phase="lost"}': 0,
        f'run_info{{host="",name="test",run="{RUN_ID}"}}': 1,
    }  # fmt: skip
    assert {name: seen.get(name) for name in expected} == expected
    assert seen['worker_heartbeat_age_seconds{rank="0"}'] < 5
    assert seen['messages_received_total{role="worker"}'] == 9
    assert seen['sent_bytes_total{role="viewer"}'] > 100
    assert seen["process_resident_memory_bytes"] > 1e6 and seen["process_open_fds"] > 3
    families = {re.split(r"[{]|_bucket|_sum$|_count$", name)[0] for name in seen}
    assert len(families) >= 30, sorted(families)


def test_metrics_do_not_grow_with_what_clients_send(hub: Hub) -> None:
    worker = hub.worker()
    before = set(scrape(hub))
    for number in range(200):
        worker.notify(f"event{number}", **{f"m{number}": number})
        worker.notify("step", **(STEP | {f"extra{number}": number}))
    for path in ["/a", "/b", "/c?d=e"]:
        ask(hub, f"GET {path}")
    hub.viewer().request("no.such.method")
    wait_until(lambda: scrape(hub).get("step_duration_seconds_count") == 200, "the steps")
    grown = {name.split("{")[0] for name in set(scrape(hub)) - before}
    assert grown <= {"step", "loss", "learning_rate", "gradient_norm", "tokens_per_second",
                     "last_step_duration_seconds", "consumed_tokens"}, grown  # fmt: skip


def told_everything(hub: Hub) -> str:
    """The answer once the trainer has told all that it may."""
    worker = hub.worker(name='a "name"', host="back\\slash")
    worker.notify("step", **STEP, valid_loss=3.0, gather_ms=1.0, encode_ms=1.0)
    worker.notify("link", send_seconds=1.5, queue_bytes=4096)
    wait_until(lambda: 'worker_queue_bytes{rank="0"}' in scrape(hub), "the link")
    return get(hub, "/metrics").body.decode()


# Which kinds of samples a family of a type has; a name's ending must not promise another type.
ENDINGS = {"counter": {""}, "gauge": {""}, "histogram": {"_bucket", "_sum", "_count"}}


def faults(text: str) -> list[str]:
    """What Prometheus' own checker refuses or complains of, as far as an answer of ours can have it."""
    found, families, name, kind = [], set(), "", ""
    if not text.endswith("\n"):
        found.append("the last line is cut off")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, words = line.split(" ", 3)
            found += [f"twice: {name}"] * (name in families) + [f"no help: {name}"] * (not words)
            families.add(name)
            kind = ""
        elif line.startswith("# TYPE "):
            _, _, typed, kind = line.split(" ")
            found += [f"TYPE is not behind its HELP: {line}"] * (typed != name)
            found += [f"a counter ends in _total: {name}"] * ((kind == "counter") != name.endswith("_total"))
            unfit = re.search(r"[A-Z:]|_(bucket|count|sum|info_total|ms|milliseconds|minutes|hours|percent|bits)$", name)
            found += [f"a bad name: {name}"] * (unfit is not None)
        else:
            sample = re.fullmatch(
                r'([a-z_]+)(\{[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\[\\"n])*")*\})? (\S+)', line)
            if sample is None or not sample[1].startswith(name) or not kind:
                found.append(f"not a sample of {name}: {line}")
            elif sample[1].removeprefix(name) not in ENDINGS[kind]:
                found.append(f"not of a {kind}: {line}")
            elif re.search(r'[{,](le|quantile)="', sample[2] or "") and kind != "histogram":
                found.append(f"a label of histograms: {line}")
    return found


def test_metrics_keep_prometheus_rules(hub: Hub) -> None:
    text = told_everything(hub)
    assert text.count("# TYPE ") > 45 and faults(text) == []
    values = scrape(hub)
    buckets = [number for name, number in values.items() if name.startswith("step_duration_seconds_bucket")]
    assert buckets == sorted(buckets) and buckets[-1] == values["step_duration_seconds_count"]


HEAD = "# HELP tensor_tracer_a_total A.\n# TYPE tensor_tracer_a_total counter\n"
BAD = {
    "cut off": HEAD + "tensor_tracer_a_total 1",
    "twice": HEAD + "tensor_tracer_a_total 1\n" + HEAD,
    "another family": HEAD + "tensor_tracer_b 1\n",
    "a gauge that counts": HEAD.replace("counter", "gauge") + "tensor_tracer_a_total 1\n",
    "a counter without _total": HEAD.replace("_total", "") + "tensor_tracer_a 1\n",
    "milliseconds": HEAD.replace("_total", "_ms").replace("counter", "gauge") + "tensor_tracer_a_ms 1\n",
    "an open label": HEAD + 'tensor_tracer_a_total{x="y} 1\n',
    "a newline in a label": HEAD + 'tensor_tracer_a_total{x="y\nz"} 1\n',
    "a bucket": HEAD + 'tensor_tracer_a_total{le="1"} 1\n',
    "no help": HEAD.replace("A.", "") + "tensor_tracer_a_total 1\n",
}


@pytest.mark.parametrize("name", BAD)
def test_breaches_of_those_rules_are_found(name: str) -> None:
    assert faults(BAD[name])


@pytest.mark.skipif(PROMTOOL is None and "CI" not in os.environ, reason="no promtool here")
def test_prometheus_own_checker_finds_nothing(hub: Hub) -> None:
    command = [str(PROMTOOL), "check", "metrics"]
    checked = subprocess.run(command, input=told_everything(hub), capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    bad = subprocess.run(command, input=BAD["a counter without _total"], capture_output=True, text=True)
    assert bad.returncode != 0, "the checker itself"


def test_a_scrape_is_fast(hub: Hub) -> None:
    """The hub's CPU time for each, and the time of the quickest: others use this machine too."""
    told_everything(hub)
    times = []
    before = scrape(hub)["process_cpu_seconds_total"]
    for _ in range(100):
        start = time.monotonic()
        get(hub, "/metrics")
        times.append(time.monotonic() - start)
    cpu = (scrape(hub)["process_cpu_seconds_total"] - before) / len(times)
    print(f"a scrape takes {1e3 * min(times):.2f} to {1e3 * max(times):.2f} ms, {1e3 * cpu:.2f} ms of CPU")
    assert max(min(times), cpu) < (0.05 if sanitized() else 0.005)


def test_an_upgrade_that_is_refused_counts_as_such(hub: Hub) -> None:
    before = scrape(hub)
    refused = RawSocket(hub.port).http(
        f"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\nSec-WebSocket-Version: 8\r\n"
        f"Authorization: Bearer {hub.token}\r\n\r\n".encode()
    )
    assert refused.status == 426
    after = scrape(hub)
    for status, more in [("1xx", 0), ("4xx", 1)]:
        name = f'http_requests_total{{status="{status}"}}'
        assert after[name] - before[name] == more, status
