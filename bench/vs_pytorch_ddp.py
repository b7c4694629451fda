#!/usr/bin/python3
"""Training speed of two workers, against Python's PyTorch DistributedDataParallel (Gloo).

    bench/vs_pytorch_ddp.py [--model resnet20] [--batch 32] [--steps 40] [--rounds 4] [--workers 2] [--json FILE]

`batch` is per worker. Both train the same network on images of CIFAR-10's size (convnet: Fashion-MNIST's) with SGD
and Nesterov momentum, each worker with one thread on its own core, one library after the other, for `rounds` rounds
(the machine's speed drifts, so only measurements of one round are compared). PyTorch gets prepared
batches in memory, in the fastest of its layouts, eager and, since version 2, compiled; Lockstep loads, augments and
normalizes them. Lockstep with one worker runs in the same rounds: the efficiency is the speed of all workers,
divided by that of one and by their number. So do as many separate one-worker runs at the same time:
their efficiency is what the machine itself allows. --only-speed leaves these out. Also printed: the share of a step
that workers wait for each other, and the seconds from launch to the first finished step.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor

from training_rounds import add_options, compare, kind, lockstep_run, print_comparison, run_rounds, started_peers
from training_rounds import write_json


def independent(options):
    """The speed of as many separate one-worker runs at the same time, which is what the machine allows."""
    with ThreadPoolExecutor(options.workers) as pool:
        runs = pool.map(lambda worker: lockstep_run(options, 1, worker=worker), range(options.workers))
        return sum(run["speed"] for run in runs)


def print_summary(options, ours, peers, rounds):
    exchange = [run["exchange"] for run in ours]
    print(f"exchange: {100 * min(exchange):.1f} to {100 * max(exchange):.1f} % of a step")
    first_step = min(run["first_step"] for run in ours)
    eager = [peer.first_step for name, peer in peers.items() if kind(name) == "eager"]
    if eager:
        print(f"launch to first step: lockstep {first_step:.2f} s, pytorch {min(eager):.2f} s; "
              f"ratio {min(eager) / first_step:.1f}")
    if options.only_speed:
        return
    efficiency = [speeds["lockstep"] / speeds["one worker"] / options.workers for speeds in rounds]
    allowed = [speeds["independent"] / speeds["one worker"] / options.workers for speeds in rounds]
    of_best = max(speeds["lockstep"] for speeds in rounds) / max(speeds["one worker"] for speeds in rounds)
    print(f"efficiency: {min(efficiency):.3f} to {max(efficiency):.3f}, of the best speeds "
          f"{of_best / options.workers:.3f}; of independent runs {min(allowed):.3f} to {max(allowed):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, steps=40, rounds=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only-speed", action="store_true", help="measure no efficiency")
    options = parser.parse_args()
    ours = []

    def all_workers():
        ours.append(lockstep_run(options, options.workers))
        return ours[-1]["speed"]

    own = {"lockstep": all_workers}
    if not options.only_speed:
        own["one worker"] = lambda: lockstep_run(options, 1)["speed"]
        own["independent"] = lambda: independent(options)
    with started_peers(options, options.workers) as peers:
        rounds = run_rounds(options, own, peers)
        result = compare(options, rounds, peers, options.workers)
    print(f"{options.model}, {options.batch} images a worker, {options.workers} workers")
    print_comparison(result)
    print_summary(options, ours, peers, rounds)
    write_json(options, result)


if __name__ == "__main__":
    main()
