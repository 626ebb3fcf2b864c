"""Where the processes of a run listen: on loopback only, while all its ranks are on one node."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path

from program import binary
from run_harness import RANKS, started, two_ranks

LISTENS = "0A"  # a state in /proc/net/tcp


def address_of(text: str) -> str:
    """"0100007F:1F90" -> "127.0.0.1": words of four bytes, each the wrong way round."""
    words = bytes.fromhex(text.split(":")[0])
    address = b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4))
    return str(ipaddress.ip_address(address))


def listening(pid: int) -> set[str]:
    """The addresses on which this process listens."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        if match := re.fullmatch(r"socket:\[(\d+)\]", str(descriptor.readlink())):
            sockets.add(match[1])
    found = set()
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{family}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENS and inode in sockets:
                found.add(address_of(local))
    return found


def test_a_run_on_one_node_listens_on_loopback_only(tmp_path: Path) -> None:
    with started(two_ranks(tmp_path), tmp_path) as (run, _, _):
        programs = {pid: Path(f"/proc/{pid}/exe").resolve().name for pid in run.memory_mib()}
        ranks = [pid for pid, name in programs.items() if name == binary().name]
        assert len(ranks) == RANKS, programs
        addresses = {pid: listening(pid) for pid in programs}
        assert any(addresses.values()), "the hub listens"
        for pid, found in addresses.items():
            assert found <= {"127.0.0.1", "::1"}, f"{programs[pid]} listens on {found}"
