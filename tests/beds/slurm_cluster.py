"""A real Slurm cluster on this machine: slurmctld and some slurmd, started here and ended here.

    with SlurmCluster(nodes=2) as cluster:
        cluster.run(["sbatch", "-N", "2", "job.sbatch"])

Nodes share this machine's name and memory. Needs root, munge and Slurm, and says so where it may not.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path


def why_not():
    """Why this machine cannot have a cluster; nothing where it can."""
    if os.geteuid() != 0:
        return "not root"
    for program in ("slurmctld", "slurmd", "munged", "srun", "sbatch"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return None


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class SlurmCluster:
    def __init__(self, nodes):
        self.nodes = [f"n{i + 1}" for i in range(nodes)]
        self.folder = Path(tempfile.mkdtemp(prefix="lockstep-slurm-"))
        self.daemons = []
        self.own_munge = False

    def __enter__(self):
        try:
            self.write_configuration()
            self.start_munge()
            self.start(["slurmctld", "-D"])
            for node in self.nodes:
                self.start(["slurmd", "-D", "-N", node])
            self.wait_until_idle()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.daemons:
            subprocess.run(["scancel", "--user=root"], env=self.environment(), check=False, capture_output=True)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons = []
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self):
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def write_configuration(self):
        control, *ports = free_ports(1 + len(self.nodes))
        folder = self.folder
        lines = [
            "ClusterName=lockstep", "SlurmctldHost=localhost", "SlurmUser=root", f"SlurmctldPort={control}",
            f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool.%n", f"TmpFS={folder}/tmp.%n",
            f"SlurmctldPidFile={folder}/slurmctld.pid", f"SlurmdPidFile={folder}/slurmd.%n.pid",
            f"SlurmctldLogFile={folder}/slurmctld.log", f"SlurmdLogFile={folder}/slurmd.%n.log",
            f"AuthInfo=socket={folder}/munge.socket",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "SlurmdParameters=config_overrides",
            "ReturnToService=2", "MpiDefault=none",
        ]
        for node, port in zip(self.nodes, ports, strict=True):
            lines.append(f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=4 State=UNKNOWN")
            (folder / f"spool.{node}").mkdir()
            (folder / f"tmp.{node}").mkdir()
        lines.append("PartitionName=debug Nodes=ALL Default=YES State=UP")
        (folder / "state").mkdir()
        (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

    def start_munge(self):
        """With a key and a socket of its own, as root, so that a munge of the machine's is left alone."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.folder.chmod(0o755)
        self.start(["munged", "--foreground", f"--key-file={key}", f"--socket={self.folder}/munge.socket"]
                   + [f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log"]
                   + [f"--seed-file={self.folder}/munged.seed", "--force"])

    def start(self, command):
        log = open(self.folder / f"{command[0]}.out", "ab")
        self.daemons.append(subprocess.Popen(command, env=self.environment(), stdout=log, stderr=log))

    def run(self, command, **options):
        return subprocess.run(command, env=self.environment(), check=True, capture_output=True, text=True, **options).stdout

    def wait_until_idle(self, seconds=20):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], env=self.environment(),
                                   capture_output=True, text=True)
            if found.stdout.strip() == str(len(self.nodes)):
                return
            time.sleep(0.1)
        logs = "".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))
        raise RuntimeError(f"the cluster did not come up:\n{logs}")

    def wait_for_job(self, number, seconds=120):
        """`sbatch --wait` looks only every ten seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            state = self.run(["squeue", "-h", "-j", number, "-o", "%T", "--states=all"]).strip()
            if state and state not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
                return state
            time.sleep(0.2)
        raise RuntimeError(f"job {number} did not end in {seconds} s")
