#!/usr/bin/python3 -B
"""Compares training with --zero and without, in turns on the same machine: time of a step and memory.

    bench/zero.py [--lockstep build/release/lockstep] [--rounds 10]

In a round both run one after the other, in alternating order. Printed are the first quartile of the times of
all steps of all rounds, as in bench/vs_build.py, the ratio of the time with --zero to that without, and the
optimizer's memory on a worker. Ends with 1 if a step takes more than 3 % longer with --zero, or if both do
not end with the same model.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from vs_build import run, step_seconds

MOST = 1.03

TRAININGS = {
    "convnet, sgd": ["--data", "fashion-mnist", "--model", "convnet", "--batch", "128", "--steps", "100"],
    "mlp, adamw": [
        *["--data", "fashion-mnist", "--model", "mlp", "--batch", "64", "--steps", "100"],
        *["--set", "optimizer.name=adamw", "--lr", "0.001"],
    ],
    "resnet18, adamw": [
        *["--data", "fashion-mnist", "--model", "resnet18", "--batch", "16", "--steps", "8"],
        *["--set", "optimizer.name=adamw", "--lr", "0.001"],
    ],
}
WORKERS = (2, 4)
WAYS = {"plain": [], "zero": ["--zero"]}


def end_of(lockstep, flags):
    """The result of a run of two steps."""
    with tempfile.TemporaryDirectory() as folder:
        steps = ["--set", "train.steps=2", "--set", "schedule.name=constant"]
        return json.loads(run(lockstep, "train", *flags, *steps, "--json", "--out", Path(folder) / "run"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default=Path(__file__).resolve().parents[1] / "build/release/lockstep")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    is_good = True
    for name, training in TRAININGS.items():
        for workers in WORKERS:
            flags = [*training, "--workers", str(workers), "--shards", str(workers)]
            seconds = {way: [] for way in WAYS}
            for turn in range(given.rounds):
                for way in sorted(WAYS, reverse=turn % 2 == 1):
                    seconds[way] += step_seconds(given.lockstep, [*flags, *WAYS[way]])
            plain, zero = (statistics.quantiles(seconds[way], n=4)[0] for way in WAYS)
            ends = {way: end_of(given.lockstep, [*flags, *WAYS[way]]) for way in WAYS}
            memory = [ends[way]["memory"]["optimizer"] / 2**20 for way in WAYS]
            same = ends["plain"]["model_sha256"] == ends["zero"]["model_sha256"]
            is_good = is_good and same and zero / plain <= MOST
            print(
                f"{name:16} {workers} workers: plain {1e3 * plain:8.4g} ms, {memory[0]:6.2f} MiB; "
                f"zero {1e3 * zero:8.4g} ms, {memory[1]:6.2f} MiB; ratio {zero / plain:.3f}"
                f"{'' if same else '; the models DIFFER'}",
                flush=True,
            )
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
