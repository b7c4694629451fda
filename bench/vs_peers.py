#!/usr/bin/python3
"""All-reduce, Lockstep's against its peers': Open MPI's, MPICH's and Gloo's, side by side.

    scripts/build release -DLOCKSTEP_PEERS=ON -- lockstep_cli peers
    bench/vs_peers.py --workers 2 --bytes 1K,1M,25M --rounds 5

The machine is never as quiet as one would like, so all take turns, several times over, and the best
time of each counts. Every program sums floats in place and checks a sum; processes are bound to a
core each where there are enough of them. Each library gets the settings that suit it: of several
launch settings, and of several algorithms, the best counts too.
"""

import argparse
import json
import os
import subprocess
import sys

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

# Open MPI either copies through shared memory, or lets the kernel copy from one process to another.
OPENMPI_COPIES = ["cma", "none"]


def parse_bytes(text):
    scale = UNITS.get(text[-1:].upper(), 1)
    return int(text[:-1] if scale > 1 else text) * scale


def format_bytes(size):
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:g} {unit}"
    return f"{size} B"


def commands(options, size):
    """(name, command) of every contestant, for one size."""
    build, n = options.build, options.workers
    flags = ["--bytes", str(size), "--rounds", str(options.batches)]
    fits = n <= os.cpu_count()
    result = []
    for copies in OPENMPI_COPIES:
        launch = ["mpirun.openmpi", "--allow-run-as-root", "-np", str(n), "--mca", "pml", "ob1"]
        launch += ["--mca", "btl", "vader,self", "--mca", "btl_vader_single_copy_mechanism", copies]
        launch += ["--bind-to", "core"] if fits else ["--oversubscribe", "--bind-to", "none"]
        result.append(("openmpi", launch + [f"{build}/openmpi_all_reduce"] + flags))
    launch = ["mpiexec.mpich", "-n", str(n)] + (["-bind-to", "core"] if fits else [])
    result.append(("mpich", launch + [f"{build}/mpich_all_reduce"] + flags))
    result.append(("gloo", [f"{build}/gloo_all_reduce", "--workers", str(n)] + flags))
    if not options.peers_only:
        ours = [f"{build}/lockstep", "bench", "all_reduce", "-n", str(n), "-b", str(size), "-e"]
        ours += [str(size), "--algorithm", options.algorithm, "--transport", options.transport]
        result.append(("lockstep", ours + ["--check", "--json"]))
    return result


def run(name, command):
    """The objects that a contestant prints; ends everything when it fails or sums wrongly."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"vs_peers: {' '.join(command)} failed ({done.returncode}):\n{done.stderr}")
    for line in lines:
        if line["wrong"] not in (0, None):
            sys.exit(f"vs_peers: {name} summed wrongly: {line}")
    return lines


def measure(options):
    """{size: {name: best object}}, and progress on stderr."""
    best = {size: {} for size in options.bytes}
    for turn in range(options.rounds):
        print(f"round {turn + 1} of {options.rounds}", file=sys.stderr)
        for size in options.bytes:
            for name, command in commands(options, size):
                for found in run(name, command):
                    known = best[size].get(name)
                    if known is None or found["time_us"] < known["time_us"]:
                        best[size][name] = found
    return best


def print_table(options, best):
    names = ["lockstep", "openmpi", "mpich", "gloo"]
    if options.peers_only:
        names.remove("lockstep")
    others = [name for name in names if name != "lockstep"]
    print(f"all-reduce, f32 sum, {options.workers} workers, best of {options.rounds} rounds"
          + ("" if options.peers_only else f"; lockstep over {options.transport}"))
    header = f"{'size':>10}" + "".join(f"{name:>24}" for name in names)
    if not options.peers_only:
        header += "".join(f"{'/ ' + name:>12}" for name in others)
    print(header)
    for size, found in best.items():
        row = f"{format_bytes(size):>10}"
        for name in names:
            time, speed = found[name]["time_us"], size / found[name]["time_us"] / 1e3
            row += f"{time:>12.1f} us {speed:>4.2f} GB/s".rjust(24)
        if not options.peers_only:
            ours = found["lockstep"]["time_us"]
            row += "".join(f"{found[name]['time_us'] / ours:>11.2f}x" for name in others)
        print(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--bytes", default="1K,1M,25M", help="sizes, such as 1K,1M,25M")
    parser.add_argument("--rounds", type=int, default=5, help="how often each has its turn")
    parser.add_argument("--batches", type=int, default=10, help="timed batches in a turn of a peer")
    parser.add_argument("--transport", default="shm", help="of lockstep: shm or tcp")
    parser.add_argument("--algorithm", default="auto", help="of lockstep")
    parser.add_argument("--build", default="build/release", help="where the programs are")
    parser.add_argument("--peers-only", action="store_true", help="leave lockstep out")
    parser.add_argument("--json", action="store_true", help="print the best of each, one a line")
    options = parser.parse_args()
    options.bytes = [parse_bytes(text) for text in options.bytes.split(",")]
    best = measure(options)
    if not options.json:
        return print_table(options, best)
    for size, found in best.items():
        for name, one in found.items():
            print(json.dumps({"contestant": name, **one}))


if __name__ == "__main__":
    main()
