#!/usr/bin/python3 -B
"""The bubble of a pipeline: measured, simulated from the measured times of its stages, and by formula.

    bench/pipeline_bubble.py [--lockstep build/release/lockstep] [--stages 2] [--micro-batches 2,4,8] [--rounds 3]

Trains with one worker for each stage, so use as many stages as there are cores. What stages waited for each other
(`bubble` in the `end` event) is compared with `lockstep explain pipeline`, to which the measured times of a forward and
a backward pass of each stage are given, and with the schedule's formula, which assumes stages that take equally long.
Rows are the rounds with the median of the measured bubble.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path


def lines_of(command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def measure(arguments, schedule, micro_batches):
    samples = arguments.samples
    with tempfile.TemporaryDirectory() as out:
        end = lines_of(
            [arguments.lockstep, "train", "--model", arguments.model, "--data", arguments.data, "--batch"]
            + [micro_batches * samples, "--shards", micro_batches, "--steps", arguments.steps, "--schedule", schedule]
            + ["--workers", arguments.stages, "--stages", arguments.stages, "--json", "--out", Path(out) / "run"]
        )[-1]
    passes = arguments.steps * micro_batches
    by_stage = sorted(end["spans_by_stage"], key=lambda times: times["stage"])
    return {
        "measured": end["bubble"],
        "forward": [times["forward"] / passes for times in by_stage],
        "backward": [times["backward"] / passes for times in by_stage],
    }


def simulated(arguments, schedule, micro_batches, row):
    flags = ["--stages", arguments.stages, "--micro-batches", micro_batches, "--schedule", schedule]
    for direction in ("forward", "backward"):
        flags += [f"--{direction}", ",".join(f"{seconds * 1e3:.6f}" for seconds in row[direction])]
    return lines_of([arguments.lockstep, "explain", "pipeline", "--json", *flags])[-1]["bubble"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", type=Path, default=Path(__file__).resolve().parents[1] / "build/release/lockstep")
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--micro-batches", default="2,4,8")
    parser.add_argument("--schedules", default="1f1b,gpipe")
    parser.add_argument("--samples", type=int, default=16, help="of a micro-batch")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    stages = arguments.stages
    cells = [(s, int(m)) for s in arguments.schedules.split(",") for m in arguments.micro_batches.split(",")]
    rounds = {cell: [] for cell in cells}
    for _ in range(arguments.rounds):
        for cell in cells:
            rounds[cell].append(measure(arguments, *cell))
    print(f"{arguments.model}, {stages} stages on as many workers, {arguments.samples} samples a micro-batch")
    print("schedule  micro-batches  measured  simulated  formula  ms a pass by stage")
    for (schedule, micro_batches), rows in rounds.items():
        row = sorted(rows, key=lambda one: one["measured"])[len(rows) // 2]
        busy = ", ".join(f"{1e3 * (f + b):.1f}" for f, b in zip(row["forward"], row["backward"]))
        formula = (stages - 1) / (micro_batches + stages - 1)
        print(
            f"{schedule:<9} {micro_batches:>13} {row['measured']:>8.1%} "
            f"{simulated(arguments, schedule, micro_batches, row):>9.1%} {formula:>8.1%}  {busy}"
        )


if __name__ == "__main__":
    main()
