#!/usr/bin/python3 -B
"""Where the processor's time of a training step goes, by what it computes.

    bench/step_profile.py [--model resnet20] [--batch 32] [--seconds 8] [--shards 1] [--json]

Trains with one thread on one core under `perf record` (Debian: linux-perf; software events, so that it works on virtual
machines, too), once for a few steps and once for many, and prints the difference: so what happens once is left out. A
group is a set of functions; `kernels` are Lockstep's own and those of oneDNN and BLAS, which its layers call.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FEW = 10
# The first that matches a symbol, or else its library. Those of kernels begin with "kernels: ".
GROUPS = {
    "kernels: Winograd's transforms": r"transform_(images|results|filters|back)<",
    "kernels: products of matrices": r"gather(_|<)|outer(_|<)",
    "kernels: weights' gradient of the first layer": r"strip|add_to_totals|thin_",
    "kernels: packing": r"kernels::.*(pack|copy<|transpose|take_pixels|spread_pixels)",
    "kernels: BatchNorm": r"statistics<|normalise|sum_gradients|write_input_gradient",
    "kernels: pooling and dropout": r"max_relu|kernels::.*mean|\bdrop\b",
    "kernels: oneDNN": r"libdnnl|\[JIT\]",
    "kernels: BLAS": r"libopenblas|libblas|libmkl",
    "optimizer": r"lockstep::optim|sgd_|adamw_|lars",
    "sums over shards and workers": r"lockstep::collective|lockstep::transport|FoldKernels|WideRegisters",
    "data": r"lockstep::data|libjpeg|libpng|libz\.",
    "digests": r"libcrypto|lockstep::.*[Dd]igest|lockstep::.*[Ff]ingerprint",
    "LibTorch": r"libtorch|libc10|at::|torch::|c10::",
    "Lockstep, other": r"liblockstep|lockstep::",
    "OpenMP": r"libgomp",
    "memory and C library": r"libc\.so|libstdc|libm\.",
    "dynamic linker": r"ld-linux",
    "kernel of the system": r"\[k\]|kernel",
}


def group_of(library, symbol):
    for name, pattern in GROUPS.items():
        if re.search(pattern, symbol):
            return name
    for name, pattern in GROUPS.items():
        if re.search(pattern, library):
            return name
    return "other"


def samples_by_group(options, steps, folder):
    recorded = Path(folder) / "perf.data"
    data = "fashion-mnist" if options.model == "convnet" else "cifar10"
    command = [ROOT / "build/release/lockstep", "train", "--data", data, "--model", options.model]
    command += ["--batch", options.batch, "--shards", options.shards, "--steps", "100000", "--stop-at-step", steps]
    command += ["--set", "train.threads=1", "--out", Path(folder) / f"run-{steps}"]
    core = max(os.sched_getaffinity(0))
    perf = ["perf", "record", "-q", "-o", recorded, "-e", "cpu-clock", "-F", "1000", "taskset", "-c", core]
    subprocess.run([str(word) for word in [*perf, *command]], check=True, capture_output=True)
    report = subprocess.run(
        ["perf", "report", "-i", recorded, "--no-children", "--stdio", "-q", "-n", "-t", "\t", "--sort", "dso,symbol"],
        check=True, capture_output=True, text=True).stdout
    groups = {}
    for line in report.splitlines():
        words = [word.strip() for word in line.split("\t")]
        if len(words) >= 4 and words[1].isdigit():
            group = group_of(words[2], words[3])
            groups[group] = groups.get(group, 0) + int(words[1])
    return groups


def steps_in(options, folder):
    """About how many steps take so many seconds."""
    events = (Path(folder) / f"run-{FEW}" / "events.jsonl").read_text().splitlines()
    last = [event for event in map(json.loads, events) if event["event"] == "step"][-1]
    return FEW + max(FEW, int(options.seconds * last["samples_per_second"] / options.batch))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        before = samples_by_group(options, FEW, folder)
        steps = steps_in(options, folder)
        after = samples_by_group(options, steps, folder)
    ms = {group: max(0, after.get(group, 0) - before.get(group, 0)) / (steps - FEW) for group in after}
    total = sum(ms.values())
    kernels = sum(time for group, time in ms.items() if group.startswith("kernels: "))
    if options.json:
        return print(json.dumps({"model": options.model, "batch": options.batch, "ms": ms, "kernels": kernels / total}))
    print(f"{options.model}, batch {options.batch}: {total:.2f} ms of processor time a step, "
          f"{100 * kernels / total:.1f} % in kernels")
    for group, time in sorted(ms.items(), key=lambda each: -each[1]):
        if time >= total / 1000:
            print(f"{time:9.3f} ms  {100 * time / total:5.1f} %  {group}")


if __name__ == "__main__":
    main()
