#!/usr/bin/python3
"""Training speed of two workers, against Python's PyTorch DistributedDataParallel (Gloo).

    bench/vs_pytorch_ddp.py [--model resnet20] [--batch 32] [--steps 40] [--rounds 4] [--workers 2]

`batch` is per worker. Both train the same network on images of CIFAR-10's size with SGD and Nesterov
momentum, each worker with one thread on its own core, one library after the other, for `rounds` rounds
(the machine's speed drifts, so only measurements of one round are compared). PyTorch gets prepared
batches in memory, in the faster of its two memory formats; Lockstep loads, augments and normalises
them. Lockstep with one worker runs in the same rounds: the efficiency is the speed of all workers,
divided by that of one and by their number. So do as many separate one-worker runs at the same time:
their efficiency is what the machine itself allows. Also printed: the share of a step that workers wait
for each other, and the seconds from launch to the first finished step.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WARM_UP = 10


def lockstep(options, workers, core=0):
    """A single worker is pinned to one core, as each of several is."""
    one_core = (lambda: os.sched_setaffinity(0, {core})) if workers == 1 else None
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        subprocess.run(
            [ROOT / "build/release/lockstep", "train", "--data", "cifar10", "--model", options.model]
            + ["--workers", str(workers), "--shards", str(workers), "--batch", str(options.batch * workers)]
            + ["--steps", "100000", "--stop-at-step", str(options.steps + WARM_UP), "--out", f"{folder}/run"]
            + ["--set", "log.every_steps=1", "--set", "optimizer.nesterov=true", "--set", "data.flip=true"]
            + ["--set", "data.shift=4"],
            check=True, capture_output=True, preexec_fn=one_core)
        events = map(json.loads, Path(folder, "run/events.jsonl").read_text().splitlines())
        steps = {event["step"]: event for event in events if event["event"] == "step"}
    first, last = steps[WARM_UP], steps[options.steps + WARM_UP]
    seconds = last["time"] - first["time"]
    exchange = last["spans"]["exchange"] - first["spans"]["exchange"]
    return {
        "speed": options.batch * workers * options.steps / seconds,
        "exchange": exchange / seconds,
        "first_step": steps[1]["time"] - began,
    }


def independent(options):
    """The speed of as many separate one-worker runs at the same time, which is what the machine allows."""
    with ThreadPoolExecutor(options.workers) as pool:
        runs = pool.map(lambda core: lockstep(options, 1, core), range(options.workers))
        return sum(run["speed"] for run in runs)


def pytorch(options, layout):
    began = time.time()
    output = subprocess.run(
        [sys.executable, __file__, "--peer", layout, "--model", options.model, "--batch", str(options.batch)]
        + ["--steps", str(options.steps), "--workers", str(options.workers)],
        env={**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 20000),
             "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
             "USE_LIBUV": "0"},  # Debian's PyTorch 2 has none
        check=True, stdout=subprocess.PIPE, text=True).stdout
    result = json.loads(output)
    return {"speed": result["speed"], "first_step": result["first_step_at"] - began}


def start_peers(options):
    """As PyTorch's tutorial on DistributedDataParallel does it."""
    import torch.multiprocessing

    torch.multiprocessing.spawn(be_peer, args=(options,), nprocs=options.workers)


def be_peer(rank, options):
    import torch
    from torch.nn import functional as F

    sys.path[:0] = [str(ROOT / "docs")]
    from networks import network

    os.sched_setaffinity(0, {rank % os.cpu_count()})
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=options.workers)
    layout = {"nchw": torch.contiguous_format, "channels_last": torch.channels_last}[options.peer]
    net = torch.nn.parallel.DistributedDataParallel(
        network(options.model).to(memory_format=layout), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    xs = torch.randn(4, options.batch, 3, 32, 32)
    ys = torch.randint(0, 10, (4, options.batch))

    def step(i):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(xs[i % 4].contiguous(memory_format=layout)), ys[i % 4])
        loss.backward()
        optimizer.step()
        return loss.item()

    step(0)
    first_step_at = time.time()
    for i in range(1, WARM_UP):
        step(i)
    torch.distributed.barrier()
    began = time.perf_counter()
    for i in range(options.steps):
        step(i)
    torch.distributed.barrier()
    seconds = time.perf_counter() - began
    speed = options.batch * torch.distributed.get_world_size() * options.steps / seconds
    if torch.distributed.get_rank() == 0:
        print(json.dumps({"speed": speed, "first_step_at": first_step_at}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet20", choices=["resnet20", "resnet18"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return start_peers(options)
    best, exchange, efficiency, allowed = {}, [], [], []
    for _ in range(options.rounds):
        one = lockstep(options, 1)
        all_of_them = lockstep(options, options.workers)
        allowed.append(independent(options) / one["speed"] / options.workers)
        results = {"lockstep": all_of_them, "one worker": one}
        for layout in ("nchw", "channels_last"):
            results[f"pytorch {layout}"] = pytorch(options, layout)
        print("  ".join(f"{name} {result['speed']:.1f}/s" for name, result in results.items())
              + f"  efficiency {all_of_them['speed'] / one['speed'] / options.workers:.3f}"
              + f" (independent runs {allowed[-1]:.3f})"
              + f"  exchange {100 * all_of_them['exchange']:.1f} %", flush=True)
        for name, result in results.items():
            kept = best.setdefault(name, dict(result))
            kept["speed"] = max(kept["speed"], result["speed"])
            kept["first_step"] = min(kept["first_step"], result["first_step"])
        exchange.append(all_of_them["exchange"])
        efficiency.append(all_of_them["speed"] / one["speed"] / options.workers)
    peers = [best[name] for name in best if name.startswith("pytorch")]
    peer = max(result["speed"] for result in peers)
    start = min(result["first_step"] for result in peers)
    mine = best["lockstep"]
    print(f"{options.model}, {options.batch} images a worker, {options.workers} workers")
    print(f"images/s: lockstep {mine['speed']:.1f}, pytorch {peer:.1f}; ratio {mine['speed'] / peer:.2f}")
    print(f"efficiency: best {max(efficiency):.3f}, of the best speeds "
          f"{mine['speed'] / best['one worker']['speed'] / options.workers:.3f}; "
          f"of independent runs {min(allowed):.3f} to {max(allowed):.3f}")
    print(f"exchange: {100 * min(exchange):.1f} to {100 * max(exchange):.1f} % of a step")
    print(f"launch to first step: lockstep {mine['first_step']:.2f} s, pytorch {start:.2f} s; "
          f"ratio {start / mine['first_step']:.1f}")


if __name__ == "__main__":
    main()
