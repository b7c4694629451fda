#!/usr/bin/python3
"""One worker of Python's PyTorch, as bench/training_rounds.py starts it.

    bench/pytorch_peer.py PEER MODEL BATCH THREADS CORE...

It trains the network of docs/networks.py on prepared batches in memory. PEER says how:

    nchw, channels_last                        PyTorch's memory formats
    mkldnn                                     oneDNN's own layout, from the input to the last pooling
    compiled_nchw, compiled_channels_last      torch.compile (since PyTorch 2)

The environment has RANK, WORLD_SIZE and the address of rank 0. Several workers use DistributedDataParallel over Gloo.
After the first steps, in which torch.compile compiles, the worker binds itself to its cores. Then it reads a number
of steps per line of its input, and trains that many. Rank 0 prints a line of JSON when it is ready and after each of
these trainings.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch.nn import functional as F

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "docs")]
import networks

WARM_UP = 2
VERSION = ".".join(torch.__version__.split(".")[:2])


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


def sgd(parameters):
    settings = {"lr": 0.05, "momentum": 0.9, "nesterov": True}
    try:
        return torch.optim.SGD(parameters, **settings, fused=True)
    except (TypeError, RuntimeError):  # PyTorch before 2.4 has none for processors
        return torch.optim.SGD(parameters, **settings)


class Training:
    def __init__(self, peer, model, batch, workers):
        self.format = torch.channels_last if peer.endswith("channels_last") else torch.contiguous_format
        self.net = networks.network(model).to(memory_format=self.format)
        if peer == "mkldnn":
            self.net = in_onednn_layout(self.net)
        if peer.startswith("compiled_"):
            self.net.compile()  # before DistributedDataParallel, as PyTorch's documentation recommends
        if workers > 1:
            self.net = torch.nn.parallel.DistributedDataParallel(self.net, gradient_as_bucket_view=True)
        self.optimizer = sgd(self.net.parameters())
        self.x = torch.randn(4, batch, *((1, 28, 28) if model == "convnet" else (3, 32, 32)))
        self.y = torch.randint(0, 10, (4, batch))

    def train(self, steps):
        for i in range(steps):
            self.optimizer.zero_grad(set_to_none=True)
            x = self.x[i % 4].contiguous(memory_format=self.format)
            loss = F.cross_entropy(self.net(x), self.y[i % 4])
            loss.backward()
            self.optimizer.step()
            loss.item()


def check_compiler():
    if int(VERSION.split(".")[0]) < 2:
        sys.exit(f"PyTorch {VERSION} has no torch.compile")
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    if not pick_vec_isa():
        sys.exit("torch.compile would use no vector instructions; run: scripts/install-packages scripts/packages-bench")


def bind_threads(cores):
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cores)


def main():
    peer, model, batch, threads, *cores = sys.argv[1:]
    rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(int(threads))
    if peer.startswith("compiled_"):
        check_compiler()
    if workers > 1:
        torch.distributed.init_process_group("gloo", rank=rank, world_size=workers)
    barrier = torch.distributed.barrier if workers > 1 else lambda: None

    def report(**values):
        if rank == 0:
            print(json.dumps(values), flush=True)

    training = Training(peer, model, int(batch), workers)
    began = time.time()
    training.train(1)
    first_step_at = time.time()
    training.train(WARM_UP)
    bind_threads({int(core) for core in cores})
    report(torch=VERSION, first_step_at=first_step_at, first_step_seconds=first_step_at - began)
    for line in sys.stdin:
        steps = int(line)
        training.train(WARM_UP)
        barrier()
        began = time.perf_counter()
        training.train(steps)
        barrier()
        report(speed=int(batch) * workers * steps / (time.perf_counter() - began))


if __name__ == "__main__":
    main()
