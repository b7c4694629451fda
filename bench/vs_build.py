#!/usr/bin/env python3
"""Compares two builds of Lockstep: training, all-reduce and start, in turns on the same machine.

    bench/vs_build.py OTHER_LOCKSTEP [--lockstep build/release/lockstep] [--rounds 10]

In a round both programs run one after the other, in alternating order. Prints a line per measurement
with the ratio of this build to the other one (above 1: this build is faster): that of the best figures of
all rounds, and the median of all rounds' ratios, since the machine's speed drifts. Ends with 1 if both
are below 0.98 for any measurement.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LEAST = 0.98

TRAININGS = {
    "convnet, batch 128": ["--data", "fashion-mnist", "--model", "convnet", "--batch", "128", "--steps", "60"],
    "resnet20, batch 32": ["--data", "cifar10", "--model", "resnet20", "--batch", "32", "--steps", "30"],
    "resnet18, batch 32": ["--data", "cifar10", "--model", "resnet18", "--batch", "32", "--steps", "6"],
    "convnet, batch 128, 2 workers": [
        *["--data", "fashion-mnist", "--model", "convnet", "--batch", "128", "--steps", "200"],
        *["--workers", "2", "--shards", "2"],
    ],
    "resnet20, batch 64, 2 workers": [
        *["--data", "cifar10", "--model", "resnet20", "--batch", "64", "--steps", "30"],
        *["--workers", "2", "--shards", "2"],
    ],
}
ALL_REDUCES = {
    f"all_reduce of {size}, 2 workers, {transport}": [
        *["-n", "2", "-b", size, "-e", size, "--transport", transport],
    ]
    for transport in ("shm", "tcp")
    for size in ("1K", "1M", "25M")
}


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{words} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def samples_per_second(lockstep, flags):
    """Of steps alone: without evaluation, checkpoints and loading."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        steps = next(flags[i + 1] for i, flag in enumerate(flags) if flag == "--steps")
        run(lockstep, "train", *flags, "--out", out, "--json", "--stop-at-step", int(steps) - 1)
        lines = (out / "events.jsonl").read_text().splitlines()
    last = [event for event in map(json.loads, lines) if event["event"] == "step"][-1]
    return last["samples_per_second"]


def reductions_per_second(lockstep, flags):
    lines = run(lockstep, "bench", "all_reduce", *flags, "--json").splitlines()
    return 1e6 / json.loads(lines[-1])["time_us"]


def starts_per_second(lockstep, flags):
    began = time.monotonic()
    run(lockstep, *flags)
    return 1 / (time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other")
    parser.add_argument("--lockstep", default=Path(__file__).resolve().parents[1] / "build/release/lockstep")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    measurements = [
        *[(name, samples_per_second, flags) for name, flags in TRAININGS.items()],
        *[(name, reductions_per_second, flags) for name, flags in ALL_REDUCES.items()],
        ("lockstep --version", starts_per_second, ["--version"]),
        ("lockstep explain all_reduce -n 8", starts_per_second, ["explain", "all_reduce", "-n", "8"]),
    ]
    worst = 1.0
    for name, measure, flags in measurements:
        figures = {"this": [], "other": []}
        programs = [("other", given.other), ("this", given.lockstep)]
        for _ in range(given.rounds):
            for which, program in programs:
                figures[which].append(measure(program, flags))
            programs.reverse()
        best = {which: max(all_figures) for which, all_figures in figures.items()}
        of_best = best["this"] / best["other"]
        median = statistics.median(this / other for this, other in zip(figures["this"], figures["other"]))
        worst = min(worst, max(of_best, median))
        print(f"{name:40} best {best['this']:10.4g} /s  other {best['other']:10.4g} /s  "
              f"ratio {of_best:.3f}, median {median:.3f}", flush=True)
    sys.exit(1 if worst < LEAST else 0)


if __name__ == "__main__":
    main()
