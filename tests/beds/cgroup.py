"""A control group with the time of so many cores, of version 1 or 2, whichever has the controller `cpu` here.

    with CoreLimit(1) as limit:
        subprocess.run(limit.inside([program, ...]))

Needs root. Where no hierarchy with this controller is mounted, one is mounted for as long as the group exists.
"""

import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

PERIOD_US = 100_000


def mounted():
    """The folder of a mounted hierarchy with the controller, and its version."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        folder = Path(before.split()[4])
        if kind == "cgroup" and "cpu" in options.split(","):
            return folder, 1
        if kind == "cgroup2" and "cpu" in (folder / "cgroup.controllers").read_text().split():
            return folder, 2
    return None


def why_not():
    """Why this machine cannot have such a group; nothing where it can."""
    if os.geteuid() != 0:
        return "not root"
    try:
        with CoreLimit(1):
            return None
    except (OSError, RuntimeError) as error:
        return str(error)


class CoreLimit:
    def __init__(self, cores):
        self.quota_us = int(cores * PERIOD_US)

    def __enter__(self):
        with ExitStack() as undo:
            folder, version = mounted() or self.mount(undo)
            if version == 2:
                (folder / "cgroup.subtree_control").write_text("+cpu")
            self.group = folder / f"lockstep-test-{os.getpid()}"
            self.group.mkdir()
            undo.callback(self.group.rmdir)
            if version == 2:
                (self.group / "cpu.max").write_text(f"{self.quota_us} {PERIOD_US}")
            else:
                (self.group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (self.group / "cpu.cfs_quota_us").write_text(str(self.quota_us))
            self.undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self.undo.close()

    def mount(self, undo):
        folder = undo.enter_context(tempfile.TemporaryDirectory())
        for version, words in ((2, ["-t", "cgroup2"]), (1, ["-t", "cgroup", "-o", "cpu"])):
            made = subprocess.run(["mount", *words, "cgroup", folder], capture_output=True, text=True)
            if made.returncode != 0:
                continue
            undo.callback(subprocess.run, ["umount", folder], check=True)
            if mounted():
                return mounted()
        raise RuntimeError("no hierarchy of control groups with the controller cpu is mounted or can be: " + made.stderr.strip())

    def inside(self, command):
        return ["sh", "-e", "-c", f'echo $$ > {self.group}/cgroup.procs; exec "$@"', "sh", *command]
