#!/usr/bin/python3
"""All-reduce on real sockets between hosts, against what the simulator says it takes.

    bench/vs_simulator.py --hosts 4,8 --bytes 4K,16M --rounds 3

Hosts are network namespaces of this machine, joined by a bridge and shaped to 1 Gbit/s in both
directions (tests/beds/hosts.py; needs root). Each round starts the workers, lets them calibrate the model
on this network, and measures every algorithm; the median of rounds counts, of what was measured and
of what was predicted. Ends with 1 if something is off by more than --tolerance, if two algorithms
come in another order than predicted though they should be further apart than that, or if what `auto`
takes is slower than the best by more than --regret.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests/beds")]
from hosts import Hosts, why_not  # noqa: E402

UNITS = {"K": 1 << 10, "M": 1 << 20}
HERE = os.path.dirname(os.path.abspath(__file__))
# In an order of their own, which `auto` does not take.
NOT_CANONICAL = {"ring"}


def parse_bytes(text):
    scale = UNITS.get(text[-1:].upper(), 1)
    return int(text[:-1] if scale > 1 else text) * scale


def measure(options, count, size):
    """{algorithm: (measured, predicted)} in microseconds, and which one auto takes."""
    rows = []
    chosen = []
    for _ in range(options.rounds):
        with Hosts(count, options.rate) as hosts:
            command = [options.lockstep, "bench", "all_reduce", "--transport", "tcp", "--json"]
            command += ["-b", str(size), "-e", str(size), "--algorithm", "all", "--batches", str(options.batches)]
            rows += [json.loads(line) for line in hosts.run_all(command).splitlines()]
            command[command.index("all")] = "auto"
            chosen += [json.loads(line)["algorithm"] for line in hosts.run_all(command).splitlines()]
    if any(row["wrong"] for row in rows):
        raise RuntimeError(f"wrong sums: {rows}")
    result = {}
    for name in {row["algorithm"] for row in rows}:
        mine = [row for row in rows if row["algorithm"] == name]
        result[name] = tuple(statistics.median(row[key] for row in mine) for key in ("time_us", "predicted_us"))
    return result, statistics.mode(chosen)


def complaints(table, chosen, options):
    """What is not as predicted."""
    found = []
    for name, (measured, predicted) in table.items():
        if abs(measured / predicted - 1) > options.tolerance:
            found.append(f"{name} took {measured / predicted:.2f} times what was predicted")
    for a, b in itertools.combinations(table, 2):
        apart = table[a][1] / table[b][1]
        if max(apart, 1 / apart) > 1 + options.tolerance and (apart > 1) != (table[a][0] > table[b][0]):
            found.append(f"{a} and {b} came in another order than predicted")
    canonical = {name: times for name, times in table.items() if name not in NOT_CANONICAL}
    regret = canonical[chosen][0] / min(times[0] for times in canonical.values()) - 1
    if regret > options.regret:
        found.append(f"auto takes {chosen}, {100 * regret:.0f} % slower than the best")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default=os.path.join(HERE, "../build/release/lockstep"))
    parser.add_argument("--hosts", default="4,8")
    parser.add_argument("--bytes", default="4K,16M")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--tolerance", type=float, default=0.15)
    parser.add_argument("--regret", type=float, default=0.10)
    options = parser.parse_args()
    reason = why_not()
    if reason:
        sys.exit(f"vs_simulator: no hosts here: {reason}")
    wrong = 0
    for count in map(int, options.hosts.split(",")):
        for size in map(parse_bytes, options.bytes.split(",")):
            table, chosen = measure(options, count, size)
            print(f"\n{count} hosts, {size} bytes{'':>14} measured (us)  predicted (us)  ratio")
            for name, (measured, predicted) in sorted(table.items(), key=lambda item: item[1][1]):
                print(f"  {name:<36} {measured:>11.1f} {predicted:>15.1f} {measured / predicted:>6.2f}")
            print(f"  auto takes {chosen}")
            for text in complaints(table, chosen, options):
                print(f"  ! {text}")
                wrong += 1
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
