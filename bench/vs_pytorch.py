#!/usr/bin/env python3
"""Training speed of one worker, against Python's PyTorch on the same machine.

    bench/vs_pytorch.py [--model resnet20] [--batch 32] [--steps 60] [--rounds 5] [--threads 1]

Both train the same network on CIFAR-10 (convnet: on Fashion-MNIST) with SGD and Nesterov momentum, one
after the other, `rounds` times over (the machine's speed drifts: only neighbours compare). Printed are
the images/s of each round and the ratio of the best ones. PyTorch gets its batches ready-made, in the
fastest of its layouts: its default (nchw), channels_last, and oneDNN's own, carried through the network
(mkldnn); Lockstep loads, augments and normalises them.
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
import networks
from networks import network

WARM_UP = 10


def lockstep_speed(options):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [ROOT / "build/release/lockstep", "train", "--data", "fashion-mnist" if options.model == "convnet" else "cifar10"]
            + ["--model", options.model]
            + ["--batch", str(options.batch), "--shards", "1", "--steps", str(options.steps + WARM_UP), "--out", f"{folder}/run"]
            + ["--set", "log.every_steps=1", "--set", "optimizer.nesterov=true", "--set", "data.flip=true"]
            + ["--set", "data.shift=4", "--set", f"train.threads={options.threads}"],
            check=True, capture_output=True)
        events = map(json.loads, Path(folder, "run/events.jsonl").read_text().splitlines())
        times = {event["step"]: event["time"] for event in events if event["event"] == "step"}
    return options.batch * options.steps / (times[options.steps + WARM_UP] - times[WARM_UP])


def in_onednn_layout(net):
    """The network with oneDNN's tensors from its input to its last pooling."""

    class PadShortcut(networks.PadShortcut):
        def forward(self, x):
            return super().forward(x.to_dense()).to_mkldnn()

    class ToDense(torch.nn.Module):
        def forward(self, x):
            return x.to_dense()

    for module in net.modules():
        if isinstance(module, networks.PadShortcut):
            module.__class__ = PadShortcut
    if isinstance(net, networks.ConvNet):
        def forward(x):
            x = F.max_pool2d(F.relu(net.conv1(x.to_mkldnn())), 2, 2)
            x = F.max_pool2d(F.relu(net.conv2(x)), 2, 2)
            return net.fc(F.dropout(x.to_dense().flatten(1), 0.5, True))
        net.forward = forward
        return net
    last = max(int(name[5:]) for name, _ in net.named_children() if name.startswith("layer"))
    getattr(net, f"layer{last}").append(ToDense())
    net.register_forward_pre_hook(lambda _, x: (x[0].to_mkldnn(),))
    return net


class PyTorch:
    def __init__(self, options, layout):
        self.options = options
        self.format = torch.channels_last if layout == "channels_last" else torch.contiguous_format
        self.net = network(options.model).to(memory_format=self.format)
        if layout == "mkldnn":
            self.net = in_onednn_layout(self.net)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        self.x = torch.randn(4, options.batch, *((1, 28, 28) if options.model == "convnet" else (3, 32, 32)))
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
    peers = ["nchw", "channels_last", "mkldnn"]
    best = {}
    for _ in range(options.rounds):
        speeds = {name: PyTorch(options, name).speed() for name in peers}
        speeds["lockstep"] = lockstep_speed(options)
        print("  ".join(f"{name} {speed:.1f} images/s" for name, speed in speeds.items()), flush=True)
        best = {name: max(speed, best.get(name, 0)) for name, speed in speeds.items()}
    peer = max(best[name] for name in peers)
    print(f"best: lockstep {best['lockstep']:.1f}, pytorch {peer:.1f} images/s; ratio {best['lockstep'] / peer:.3f}")


if __name__ == "__main__":
    main()
