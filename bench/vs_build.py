#!/usr/bin/python3 -B
"""Compares two builds of Lockstep: training, all-reduce and start, in turns on the same machine.

    bench/vs_build.py OTHER_LOCKSTEP [--lockstep build/release/lockstep] [--rounds 10]

In a round both programs run one after the other, in alternating order. Printed is, per measurement, the
first quartile of the times of all rounds (of all steps, for training) and the ratio of the other build's
to this one's: above 1, this build is faster. Other programs on the machine only make steps longer, so
that the first quartile varies less than the mean. Ends with 1 if a ratio is below 0.98.
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


def step_seconds(lockstep, flags):
    """Of every step but the first three, which also prepare kernels and memory."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        steps = int(flags[flags.index("--steps") + 1])
        # Stopped one step before the end, so that nothing is evaluated.
        run(lockstep, "train", *flags, "--stop-at-step", steps - 1, "--out", out, "--set", "log.every_steps=1")
        events = map(json.loads, (out / "events.jsonl").read_text().splitlines())
        batch = int(flags[flags.index("--batch") + 1])
        totals = [batch * event["step"] / event["samples_per_second"] for event in events if event["event"] == "step"]
    return [after - before for before, after in zip(totals[2:], totals[3:])]


def reduction_seconds(lockstep, flags):
    lines = run(lockstep, "bench", "all_reduce", *flags, "--json").splitlines()
    return [json.loads(lines[-1])["time_us"] / 1e6]


def start_seconds(lockstep, flags):
    began = time.monotonic()
    run(lockstep, *flags)
    return [time.monotonic() - began]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other")
    parser.add_argument("--lockstep", default=Path(__file__).resolve().parents[1] / "build/release/lockstep")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    measurements = [
        *[(name, step_seconds, flags) for name, flags in TRAININGS.items()],
        *[(name, reduction_seconds, flags) for name, flags in ALL_REDUCES.items()],
        ("lockstep --version", start_seconds, ["--version"]),
        ("lockstep explain all_reduce -n 8", start_seconds, ["explain", "all_reduce", "-n", "8"]),
    ]
    worst = 1.0
    for name, measure, flags in measurements:
        seconds = {"this": [], "other": []}
        programs = [("other", given.other), ("this", given.lockstep)]
        for _ in range(given.rounds):
            for which, program in programs:
                seconds[which] += measure(program, flags)
            programs.reverse()
        this, other = (statistics.quantiles(seconds[which], n=4)[0] for which in ("this", "other"))
        worst = min(worst, other / this)
        print(f"{name:40} {1e3 * this:10.4g} ms  other {1e3 * other:10.4g} ms  ratio {other / this:.3f}", flush=True)
    sys.exit(1 if worst < LEAST else 0)


if __name__ == "__main__":
    main()
