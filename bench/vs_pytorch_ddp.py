#!/usr/bin/python3
"""Training speed of two workers, against Python's PyTorch DistributedDataParallel (Gloo).

    bench/vs_pytorch_ddp.py [--model resnet20] [--batch 32] [--steps 40] [--rounds 4] [--workers 2] [--shards 2]
                            [--json FILE] [--no-peers]

`batch` is per worker. Both train the same network on images of CIFAR-10's size (convnet: Fashion-MNIST's) with SGD
and Nesterov momentum, each worker with one thread on its own core, one library after the other, for `rounds` rounds
(the machine's speed drifts, so only measurements of one round are compared). PyTorch gets prepared
batches in memory, in the fastest of its layouts, eager and, since version 2, compiled; Lockstep loads, augments and
normalizes them. In the same rounds run *strangers*, as many separate one-worker runs at the same time, each with its
share of the shards: what they reach is what the machine allows. The figure that counts is the speed of all workers
divided by that of the strangers, the median of the rounds. Also printed: the speed divided by that of one worker alone and
by the number of workers, the share of a step that workers wait for each other, and the seconds from launch to the first
finished step. --only-speed leaves strangers and one worker out, --no-peers PyTorch.
"""

import argparse
import statistics
from concurrent.futures import ThreadPoolExecutor

from training_rounds import add_options, compare, kind, lockstep_run, print_comparison, run_rounds, started_peers
from training_rounds import write_json


def strangers(options):
    """The speed of as many separate one-worker runs at the same time, which is what the machine allows."""
    shards = max(1, options.shards // options.workers)
    with ThreadPoolExecutor(options.workers) as pool:
        runs = pool.map(lambda worker: lockstep_run(options, 1, worker=worker, shards=shards), range(options.workers))
        return sum(run["speed"] for run in runs)


def print_summary(options, ours, peers, rounds):
    exchange = [run["exchange"] for run in ours]
    print(f"exchange: {100 * min(exchange):.1f} to {100 * max(exchange):.1f} % of a step, "
          f"median {100 * statistics.median(exchange):.1f} %")
    first_step = min(run["first_step"] for run in ours)
    eager = [peer.first_step for name, peer in peers.items() if kind(name) == "eager"]
    if eager:
        print(f"launch to first step: lockstep {first_step:.2f} s, pytorch {min(eager):.2f} s; "
              f"ratio {min(eager) / first_step:.1f}")
    if options.only_speed:
        return
    of_strangers = [speeds["lockstep"] / speeds["strangers"] for speeds in rounds]
    print(f"against strangers: median {statistics.median(of_strangers):.3f}, "
          f"{min(of_strangers):.3f} to {max(of_strangers):.3f}")
    for name in ("lockstep", "strangers"):
        alone = [speeds[name] / speeds["one worker"] / options.workers for speeds in rounds]
        print(f"{name} against one worker alone: median {statistics.median(alone):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, steps=40, rounds=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shards", type=int, help="of all workers (one each)")
    parser.add_argument("--no-peers", action="store_true", help="without PyTorch")
    parser.add_argument("--only-speed", action="store_true", help="measure no efficiency")
    options = parser.parse_args()
    options.shards = options.shards or options.workers
    if options.no_peers:
        options.peers = []
    ours = []

    def all_workers():
        ours.append(lockstep_run(options, options.workers, shards=options.shards))
        return ours[-1]["speed"]

    own = {"lockstep": all_workers}
    if not options.only_speed:
        own["strangers"] = lambda: strangers(options)
        own["one worker"] = lambda: lockstep_run(options, 1, shards=max(1, options.shards // options.workers))["speed"]
    with started_peers(options, options.workers) as peers:
        rounds = run_rounds(options, own, peers)
        result = compare(options, rounds, peers, options.workers)
    print(f"{options.model}, {options.batch} images a worker, {options.workers} workers")
    print_comparison(result)
    print_summary(options, ours, peers, rounds)
    write_json(options, result)


if __name__ == "__main__":
    main()
