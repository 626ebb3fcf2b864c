"""A Slurm cluster of one node on this machine's loopback, whose daemons live as long as the block.

Nothing is installed: the distribution's packages are unpacked into build/slurm.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from hub_harness import REPOSITORY

PACKAGES = ("munge", "slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins")
UNPACKED = REPOSITORY / "build" / "slurm"
PROGRAMS = UNPACKED / "usr" / "sbin"
TASKS = 8  # that the node takes, whatever it has

CONFIGURATION = """ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
PluginDir={plugins}
SlurmctldPort={control_port}
SlurmdPort={node_port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={tasks} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def unpack_packages() -> str:
    """Once for this checkout. Returns what keeps a cluster from running here; nothing if it can."""
    missing = [name for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        return f"{' and '.join(missing)} missing" if missing else "slurmd needs root"
    if UNPACKED.is_dir():
        return ""
    UNPACKED.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=UNPACKED.parent) as folder:
        line = ["apt-get", "download", *PACKAGES]
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"{' '.join(line)}: {done.stderr.strip().splitlines()[-1]}"
        for package in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, "root"], cwd=folder, check=True)
        (Path(folder) / "root").rename(UNPACKED)
    return ""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def slurm_cluster(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which srun finds the cluster. REQUIRES: unpack_packages() has no reason against it."""
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(parents=True, mode=0o700)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    host = socket.gethostname().split(".")[0]
    ports = {"control_port": free_port(), "node_port": free_port()}
    configuration = folder / "slurm.conf"
    [plugins] = UNPACKED.glob("usr/lib/*/slurm-wlm")
    configuration.write_text(
        CONFIGURATION.format(host=host, folder=folder, tasks=TASKS, plugins=plugins, **ports)
    )
    munge = [f"--{name}={folder}/munge/{name.split('-')[0]}"
             for name in ("key-file", "socket", "pid-file", "log-file", "seed-file")]
    lines = [["munged", "--foreground", "--force", *munge],
             ["slurmctld-wlm", "-D", "-f", str(configuration)],
             ["slurmd-wlm", "-D", "-f", str(configuration), "-N", host, "-d", str(PROGRAMS / "slurmstepd-wlm")]]
    environment = os.environ | {
        "SLURM_CONF": str(configuration), "LD_LIBRARY_PATH": str(plugins),
        "PATH": f"{UNPACKED / 'usr' / 'bin'}:{PROGRAMS}:{os.environ['PATH']}",
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        for line in lines:
            stack.enter_context(daemon(line, environment, folder))
            time.sleep(0.5)
        wait_until_idle(environment, folder)
        yield environment


@contextlib.contextmanager
def daemon(line: list[str], environment: dict[str, str], folder: Path) -> Iterator[None]:
    with open(folder / f"{line[0]}.out", "wb") as output:
        process = subprocess.Popen(line, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_idle(environment: dict[str, str], folder: Path) -> None:
    end = time.monotonic() + 30
    state = ""
    while time.monotonic() < end:
        state = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment,
                               capture_output=True, text=True, check=False).stdout.strip()
        if state == "idle":
            return
        time.sleep(0.2)
    told = "\n".join(path.read_text()[-1000:] for path in folder.glob("*.out"))
    raise TimeoutError(f"the node is {state!r} after 30 s\n{told}")
