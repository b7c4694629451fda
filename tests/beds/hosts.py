"""Hosts that are network namespaces of this machine, joined by a bridge and shaped as asked.

    with Hosts(4, rate="1gbit") as hosts:
        hosts.run_all(["lockstep", "bench", ...])

Needs root, and says so where it may not. Everything is removed at the end, whatever happens; names
carry the process's number, so that two of these do not meet.
"""

import os
import shutil
import signal
import subprocess
import sys


def why_not():
    """Why this machine cannot have hosts; nothing where it can."""
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "iproute2 is not installed"
    if shutil.which("nft") is None:
        return "nftables is not installed"
    probe = f"lsprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode != 0:
        return "network namespaces may not be made: " + made.stderr.strip()
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return None


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Hosts:
    def __init__(self, count, rate=None):
        self.count = count
        self.rate = rate
        self.tag = f"ls{os.getpid()}"
        self.switch = f"{self.tag}sw"
        self.made = []

    def name(self, host):
        return f"{self.tag}h{host}"

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def __enter__(self):
        # Being told to end is no reason to leave hosts behind.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            self.add(self.switch)
            ip("-n", self.switch, "link", "add", "br0", "type", "bridge")
            ip("-n", self.switch, "link", "set", "br0", "up")
            for host in range(self.count):
                self.join(host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for namespace in reversed(self.made):
            subprocess.run(["ip", "netns", "del", namespace], check=False)
        self.made = []

    def add(self, namespace):
        ip("netns", "add", namespace)
        self.made.append(namespace)

    def join(self, host):
        name, port = self.name(host), f"p{host}"
        self.add(name)
        ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port, "netns", self.switch)
        ip("-n", self.switch, "link", "set", port, "master", "br0", "up")
        ip("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "set", "eth0", "up")
        if self.rate:
            self.shape(name, "eth0")
            self.shape(self.switch, port)

    def shape(self, namespace, device):
        """One direction of a link. The burst lets the kernel's large packets pass uncut: cutting them
        costs more processor than two cores have for eight hosts."""
        shape = ["tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf"]
        subprocess.run(shape + ["rate", self.rate, "burst", "128kb", "latency", "20ms"], check=True)

    def lose(self, percent):
        """Every host drops so many of the packets that reach it."""
        rules = f"""
            table ip loss {{
              chain input {{
                type filter hook input priority 0;
                iifname "eth0" numgen random mod 100 < {percent} drop
              }}
            }}
            """
        for host in range(self.count):
            enter = ["ip", "netns", "exec", self.name(host)]
            subprocess.run([*enter, "nft", "-f", "-"], input=rules, text=True, check=True)

    def cut(self, host):
        """Takes the host's link down, as if its cable were pulled."""
        ip("-n", self.switch, "link", "set", f"p{host}", "down")

    def mend(self, host):
        """Puts the cable back."""
        ip("-n", self.switch, "link", "set", f"p{host}", "up")

    def start(self, host, command, environment=(), **popen):
        """Starts a command on a host that has a name of its own."""
        inside = f"hostname host{host}; exec \"$@\""
        enter = ["nsenter", f"--net=/run/netns/{self.name(host)}", "unshare", "--uts", "--ipc", "sh", "-c", inside, "sh"]
        return subprocess.Popen(enter + command, env={**os.environ, **dict(environment)}, text=True, **popen)

    def run_all(self, command, per_host=1, timeout=300):
        """A worker per host (or several); returns what rank 0 wrote. Fails when any fails."""
        world = self.count * per_host
        workers = []
        for rank in range(world):
            environment = {
                "RANK": str(rank),
                "WORLD_SIZE": str(world),
                "LOCAL_RANK": str(rank % per_host),
                "MASTER_ADDR": self.address(0),
                "MASTER_PORT": "29500",
                "LOCKSTEP_JOB_KEY": self.tag,
            }
            workers.append(
                self.start(rank // per_host, command, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            )
        try:
            results = [worker.communicate(timeout=timeout) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
        for rank, (worker, (_, errors)) in enumerate(zip(workers, results)):
            if worker.returncode != 0:
                raise RuntimeError(f"rank {rank} ended with {worker.returncode}: {errors}")
        return results[0][0]
