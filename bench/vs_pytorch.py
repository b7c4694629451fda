#!/usr/bin/env python3
"""Training speed of one worker, against Python's PyTorch on the same machine.

    bench/vs_pytorch.py [--model resnet20] [--batch 32] [--steps 60] [--rounds 5] [--threads 1]

Both train the same network on CIFAR-10 with SGD and Nesterov momentum, one after the other,
`rounds` times over (the machine's speed drifts: only neighbours compare). Printed are the images/s of each round
and the ratio of the best ones. PyTorch gets its batches ready-made, in the faster of its two memory
formats; Lockstep loads, augments and normalises them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "docs")]
from networks import network

WARM_UP = 10


def lockstep_speed(options):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [ROOT / "build/release/lockstep", "train", "--data", "cifar10", "--model", options.model]
            + ["--batch", str(options.batch), "--shards", "1", "--steps", str(options.steps + WARM_UP), "--out", f"{folder}/run"]
            + ["--set", "log.every_steps=1", "--set", "optimizer.nesterov=true", "--set", "data.flip=true"]
            + ["--set", "data.shift=4", "--set", f"train.threads={options.threads}"],
            check=True, capture_output=True)
        events = map(json.loads, Path(folder, "run/events.jsonl").read_text().splitlines())
        times = {event["step"]: event["time"] for event in events if event["event"] == "step"}
    return options.batch * options.steps / (times[options.steps + WARM_UP] - times[WARM_UP])


class PyTorch:
    def __init__(self, options, memory_format):
        self.options = options
        self.format = memory_format
        self.net = network(options.model).to(memory_format=memory_format)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        self.x = torch.randn(4, options.batch, 3, 32, 32)
        self.y = torch.randint(0, 10, (4, options.batch))

    def step(self, i):
        self.optimizer.zero_grad()
        x = self.x[i % 4].contiguous(memory_format=self.format)
        loss = F.cross_entropy(self.net(x), self.y[i % 4])
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def speed(self):
        for i in range(WARM_UP):
            self.step(i)
        start = time.perf_counter()
        for i in range(self.options.steps):
            self.step(i)
        return self.options.batch * self.options.steps / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet20", choices=["convnet", "resnet18", "resnet20"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    peers = {"nchw": torch.contiguous_format, "channels_last": torch.channels_last}
    best = {}
    for _ in range(options.rounds):
        speeds = {name: PyTorch(options, layout).speed() for name, layout in peers.items()}
        speeds["lockstep"] = lockstep_speed(options)
        print("  ".join(f"{name} {speed:.1f} images/s" for name, speed in speeds.items()), flush=True)
        best = {name: max(speed, best.get(name, 0)) for name, speed in speeds.items()}
    peer = max(best["nchw"], best["channels_last"])
    print(f"best: lockstep {best['lockstep']:.1f}, pytorch {peer:.1f} images/s; ratio {best['lockstep'] / peer:.3f}")


if __name__ == "__main__":
    main()
