#!/usr/bin/python3 -B
"""How far the peaks of memory that `lockstep fit` predicts are from those of real training runs.

    bench/fit_accuracy.py [--lockstep build/release/lockstep] [--limit 4GiB]
                          [--max-devices 4] [MODEL:BATCH ...]

For each model and batch: runs `lockstep fit`, trains three steps with the command of every way that fits, with as
many devices as --max-devices at most, on images of CIFAR-10, and compares peaks. Evaluation computes as many samples
at once as a pass of training has, so that the peak is that of a step. Exits with 1 if a prediction is off by more than 5 %.
"""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

from few_images import few_images

ALLOWED = 0.05
CASES = ["convnet:17", "convnet:64", "resnet20:5", "resnet20:32", "resnet20:48", "resnet18:3", "resnet18:8"]


def lines_of(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}\n{result.stderr}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def measured_peak(lockstep, way, folder):
    at_once = f"evaluate.batch={way['samples_per_pass']}"
    flags = ["--steps", "3", "--json", "--out", folder, "--set", at_once, "--set", "train.drop_last=true"]
    return lines_of([lockstep, *shlex.split(way["command"])[1:], *flags])[-1]["memory"]["peak"]


def ways(lockstep, data, flags):
    for case in flags.cases:
        model, batch = case.split(":")
        asked = ["--data", data, "--model", model, "--batch", batch, "--device-memory", flags.limit]
        for way in lines_of([lockstep, "fit", "--json", "--max-devices", flags.max_devices, *asked]):
            if way["fits"] and way["devices"] <= int(flags.max_devices):
                yield model, batch, way


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default="build/release/lockstep", type=pathlib.Path)
    parser.add_argument("--limit", default="4GiB", help="memory of a device")
    parser.add_argument("--max-devices", default="4")
    parser.add_argument("cases", nargs="*", default=CASES, metavar="MODEL:BATCH")
    flags = parser.parse_args()
    lockstep = flags.lockstep.resolve()
    worst = 0.0
    print(f"{'model':<10} {'batch':>5}  {'way':<40} {'devices':>7} {'predicted':>12} {'measured':>12} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        data = few_images(lockstep, folder)
        for run, (model, batch, way) in enumerate(ways(lockstep, data, flags)):
            peak = measured_peak(lockstep, way, f"{folder}/run{run}")
            ratio = way["peak_bytes"] / peak
            worst = max(worst, abs(ratio - 1))
            print(f"{model:<10} {batch:>5}  {way['way']:<40} {way['devices']:>7} {way['peak_bytes']:>12} {peak:>12} "
                  f"{ratio:>6.3f}", flush=True)
    print(f"largest error: {100 * worst:.1f} %")
    sys.exit(0 if worst <= ALLOWED else 1)


if __name__ == "__main__":
    main()
