#!/usr/bin/python3
"""Kills workers of elastic runs at random moments; every run must end with the model of an undisturbed one.

    tests/faults/elastic_kills.py [--kills 100] [--seed 1] [--lockstep build/release/lockstep]

Runs have 2 to 4 workers, over shm and tcp, and are killed (SIGKILL) again and again: while they meet,
compute, exchange, evaluate, write checkpoints, and while they recover from the kill before. Printed are
the median and the longest time from a kill to the next finished step, and the seed, which brings the same
kills again.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy

RECIPE = ["--model", "resnet20", "--batch", "32", "--shards", "8", "--epochs", "6", "--set", "log.every_steps=1",
          "--set", "checkpoint.every_steps=7"]
RUN_SECONDS = 240  # none takes so long unless it hangs
MOST_KILLS = 12  # of one run


def write_data(folder):
    dice = numpy.random.default_rng(1)
    numpy.save(folder / "x.npy", dice.random((480, 3, 16, 16), dtype=numpy.float32))
    numpy.save(folder / "y.npy", dice.integers(0, 3, 480))


def children(launcher):
    """The workers a launcher has started; its first child only watches over it."""
    listed = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
    return [int(pid) for pid in listed.read_text().split()][1:]


def events(run):
    """All whole lines so far."""
    path = run / "events.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


class Run:
    def __init__(self, lockstep, folder, name, flags):
        self.out = folder / name
        self.errors = open(folder / f"{name}.stderr", "w+")
        self.launcher = subprocess.Popen(
            [lockstep, "train", "--data", f"npy:{folder}", *RECIPE, "--out", str(self.out), *flags, "--json"],
            stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def running(self):
        return self.launcher.poll() is None

    def digest(self):
        try:
            result, _ = self.launcher.communicate(timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            self.launcher.kill()
            raise SystemExit(f"{self.out} hangs:\n{self.said()}")
        if self.launcher.returncode != 0:
            raise SystemExit(f"{self.out} ended with {self.launcher.returncode}:\n{self.said()}")
        return json.loads(result)["model_sha256"]

    def said(self):
        self.errors.seek(0)
        return "".join(self.errors.readlines()[-20:])


def kill_somebody(run, dice):
    """When, or nothing where there was nobody."""
    try:
        victim = dice.choice(children(run.launcher))
        os.kill(victim, signal.SIGKILL)
        return time.time()
    except (OSError, IndexError):
        return None


def kill_again_and_again(run, dice, kills):
    moments = []
    while run.running() and len(moments) < kills:
        # Every fourth one follows at once, while the others are still meeting anew.
        time.sleep(dice.uniform(0, 0.15) if dice.random() < 0.25 else dice.uniform(0.2, 1.5))
        if (moment := kill_somebody(run, dice)) is not None:
            moments.append(moment)
    return moments


def recoveries(run, kills):
    """Seconds from each kill to the next step that workers who met anew have finished."""
    told = events(run.out)
    seconds = []
    for kill in kills:
        met = next((e["time"] for e in told if e["event"] in ("workers", "resume") and e["time"] > kill), None)
        step = next((e["time"] for e in told if met and e["event"] == "step" and e["time"] > met), None)
        if step:
            seconds.append(step - kill)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--lockstep", default=str(Path(__file__).resolve().parents[2] / "build/release/lockstep"))
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_data(folder)
        undisturbed = Run(arguments.lockstep, folder, "undisturbed", []).digest()
        killed, seconds, runs = 0, [], 0
        while killed < arguments.kills:
            runs += 1
            workers, transport = dice.randint(2, 4), dice.choice(["shm", "tcp"])
            run = Run(arguments.lockstep, folder, f"run-{runs}",
                      ["--elastic", "--workers", str(workers), "--transport", transport])
            kills = kill_again_and_again(run, dice, min(MOST_KILLS, arguments.kills - killed))
            digest = run.digest()
            if digest != undisturbed:
                raise SystemExit(f"run {runs}: {workers} workers over {transport}, {len(kills)} kills: {digest}, "
                                 f"undisturbed {undisturbed}\n{run.said()}")
            killed += len(kills)
            seconds += recoveries(run, kills)
        print(f"{killed} kills in {runs} runs: all ended with {undisturbed}")
        print(f"from a kill to the next finished step: median {statistics.median(seconds):.2f} s, "
              f"longest {max(seconds):.2f} s")


if __name__ == "__main__":
    main()
