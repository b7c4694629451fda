#!/usr/bin/python3
"""Training speed of one worker, against Python's PyTorch on the same machine.

    bench/vs_pytorch.py [--model resnet20] [--batch 32] [--steps 60] [--rounds 5] [--threads 1] [--json FILE]

Both train the same network on CIFAR-10 (convnet: on Fashion-MNIST) with SGD and Nesterov momentum, on the
same core (or on as many as there are threads), one after the other, `rounds` times. Printed are the images/s of each
round; and against the fastest of PyTorch's eager and of its compiled forms, the ratio of the best speeds
and the median of the rounds' ratios. PyTorch gets prepared batches in memory. It trains in its default layout (nchw),
in channels_last, in oneDNN's own (mkldnn), and, since version 2, with torch.compile, whose time to compile is
printed separately. Lockstep loads, augments and normalizes its batches.
"""

import argparse

from training_rounds import add_options, compare, lockstep_run, print_comparison, run_rounds, started_peers, write_json


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, steps=60, rounds=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with started_peers(options, 1, options.threads) as peers:
        own = {"lockstep": lambda: lockstep_run(options, 1, options.threads)["speed"]}
        rounds = run_rounds(options, own, peers)
        result = compare(options, rounds, peers, 1)
    print_comparison(result)
    write_json(options, result)


if __name__ == "__main__":
    main()
