#!/usr/bin/python3 -B
"""One recipe on every number of workers, by every algorithm, over every transport, stopped and resumed.

    bench/same_bits.py [--steps 60] [--seed 1] [--lockstep build/release/lockstep] [--only MODEL]

`convnet` on Fashion-MNIST and `resnet20` on CIFAR-10 with 8 shards; `resnet18` on some of CIFAR-10's images with 4, cut
into stages on workers and on devices, with a tenth of the steps. Prints a line a run, and ends with 1
where one of them has another model than one worker has. Needs an mpirun, and root for hosts of its own
(hybrid).
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from few_images import few_images

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests/beds")]
from hosts import Hosts, why_not  # noqa: E402

MODELS = {"convnet": "fashion-mnist", "resnet20": "cifar10"}
STAGED = "resnet18"
CANONICAL = ["one_to_all", "tree", "butterfly", "halving_doubling", "direct"]


class Grid:
    def __init__(self, lockstep, folder, model, data, flags):
        self.train = [lockstep, "train", "--json"]
        self.recipe = ["--model", model, "--data", data, *flags]
        self.folder, self.model = folder, model
        self.runs, self.digest, self.others = 0, None, 0

    def out(self):
        self.runs += 1
        return ["--out", str(self.folder / f"{self.model}-{self.runs}")]

    def tell(self, what, digest):
        self.digest = self.digest or digest
        same = digest == self.digest
        self.others += not same
        print(f"{self.model:9} {what:44} {digest[:16]}{'' if same else '  ANOTHER MODEL'}", flush=True)

    def run(self, what, flags, launcher=()):
        command = [*launcher, *self.train, *self.recipe, *flags, *self.out()]
        self.tell(what, result_of(subprocess.run(command, capture_output=True, text=True)))

    def stopped_and_resumed(self, dice, steps):
        before, after, step = dice.randint(1, 8), dice.randint(1, 8), dice.randrange(1, steps)
        out = self.out()
        subprocess.run([*self.train, *self.recipe, *out, "--workers", str(before), "--stop-at-step", str(step)],
                       check=True, capture_output=True)
        resumed = subprocess.run([*self.train, "--resume", *out, "--workers", str(after)], capture_output=True, text=True)
        self.tell(f"{before} workers to step {step}, then {after}", result_of(resumed))

    def in_stages(self):
        self.run("1 worker", [])
        for workers, stages in ((2, 2), (4, 4), (4, 2)):
            for transport in ("shm", "tcp"):
                for schedule in ("1f1b", "gpipe"):
                    self.run(f"{workers} workers, {stages} stages, {transport}, {schedule}",
                             ["--workers", str(workers), "--stages", str(stages), "--transport", transport,
                              "--schedule", schedule])
        virtual = ["--device", "virtual", "--devices", "virtual:4"]
        self.run("4 stages on the CPU of one worker", ["--stages", "4"])
        for stages in (2, 4):
            self.run(f"{stages} stages on virtual devices of one worker", [*virtual, "--stages", str(stages)])
            self.run(f"{stages} stages on asynchronous devices of one worker",
                     [*virtual, "--stages", str(stages), "--set", "device.asynchronous=true"])
        self.run("2 workers x 2 stages, each a virtual device", [*virtual, "--workers", "4", "--stages", "2"])

    def on_two_hosts(self):
        with Hosts(2) as hosts:
            flags = [*self.train, *self.recipe, "--workers", "2", "--nnodes", "2", "--master", hosts.address(0),
                     "--transport", "hybrid", *self.out()]
            launchers = [
                hosts.start(host, [*flags, "--node-rank", str(host)], {"LOCKSTEP_JOB_KEY": "k"},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for host in range(2)
            ]
            said = [launcher.communicate() for launcher in launchers]
        if any(launcher.returncode for launcher in launchers):
            raise SystemExit(f"two hosts: {said}")
        self.tell("2 x 2 workers, hybrid", json.loads(said[0][0])["model_sha256"])


def result_of(run):
    if run.returncode != 0:
        raise SystemExit(f"{' '.join(run.args)} ended with {run.returncode}:\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])["model_sha256"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[*MODELS, STAGED], help="this model alone")
    parser.add_argument("--lockstep", default=str(Path(__file__).parent.parent / "build/release/lockstep"))
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]
    os.environ["OMP_NUM_THREADS"] = "1"
    others = 0
    with tempfile.TemporaryDirectory() as folder:
        def grid_of(model, data, *flags):
            return Grid(arguments.lockstep, Path(folder), model, data, flags)

        if arguments.only in (None, STAGED):
            grid = grid_of(STAGED, few_images(arguments.lockstep, Path(folder)), "--steps", str(arguments.steps // 10),
                           "--shards", "4", "--batch", "16", "--set", "train.kernels=torch")
            grid.in_stages()
            others += grid.others
        for model, data in MODELS.items():
            if arguments.only not in (None, model):
                continue
            grid = grid_of(model, data, "--steps", str(arguments.steps), "--shards", "8")
            for workers in (1, 2, 3, 4, 8):
                grid.run(f"{workers} workers, shm", ["--workers", str(workers)])
            for algorithm in CANONICAL:
                for transport in ("shm", "tcp"):
                    grid.run(f"3 workers, {transport}, {algorithm}",
                             ["--workers", "3", "--transport", transport, "--algorithm", algorithm])
            for workers in (2, 3):
                grid.run(f"{workers} workers, mpi", ["--transport", "mpi"], [*mpirun, str(workers)])
            if reason := why_not():
                print(f"no hybrid: {reason}")
            else:
                grid.on_two_hosts()
            for _ in range(3):
                grid.stopped_and_resumed(dice, arguments.steps)
            others += grid.others
    sys.exit(others > 0)


if __name__ == "__main__":
    main()
