#!/usr/bin/python3
"""Training speed against several versions of PyTorch, as a table.

    bench/pytorch_table.py [--systems here,trixie,forky] [--compiled-on forky] [--chroots FOLDER] [--rounds 3]
                           [--models resnet20,resnet18,convnet] [--json FILE]

Each version of PyTorch comes with a release of Debian: this machine's (`here`), or one in a chroot that
scripts/check-on makes in FOLDER/SYSTEM (without --chroots: in build/chroot-SYSTEM), which needs root. On each system,
first all packages are installed (scripts/packages-bench), the program is built and CIFAR-10 downloaded, if need be.
Then bench/vs_pytorch.py (one core) and bench/vs_pytorch_ddp.py (two workers, each on a core) run for each model, with
32 images per worker; with torch.compile, too, on the systems of --compiled-on (compiling takes minutes). Speeds are
compared only with those of the same system, where both trained in turns. Progress is printed to stderr, the table, in
Markdown, to the standard output: images/s, the best of all rounds, and behind each of PyTorch's speeds in parentheses
how many times as fast Lockstep is (the ratio of the best speeds; the median of the rounds' ratios).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from training_rounds import CACHE, PEERS, ROOT, fast_ones, kind

# So many that a measurement takes a few seconds.
STEPS = {"resnet20": 20, "resnet18": 4, "convnet": 100}
NAMES = {"resnet20": "ResNet-20", "resnet18": "ResNet-18", "convnet": "convnet"}
RELEASES = {"bookworm": "Debian 12", "trixie": "Debian 13", "forky": "Debian testing"}
PREPARE = """
scripts/install-packages scripts/packages-build scripts/packages-bench
[ -e build/release/CMakeCache.txt ] || without_tests=-DLOCKSTEP_TESTS=OFF
scripts/build release ${without_tests:-} -- lockstep_cli
build/release/lockstep data get cifar10
"""


def results_of(command, environment=None):
    """Runs a program that prints progress and, as lines of JSON, results: returns these."""
    results = []
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as program:
        for line in program.stdout:
            if line.startswith("{"):
                results.append(json.loads(line))
            else:
                print(line, end="", file=sys.stderr, flush=True)
    if program.returncode != 0:
        sys.exit(f"pytorch_table: {' '.join(map(str, command))} failed ({program.returncode})")
    return results


def measure_this_system(options):
    """Prints each result as a line of JSON."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ[CACHE] = cache  # PyTorch's headers are compiled once for all networks
        for model in options.models.split(","):
            measure_model(model, options)


def measure_model(model, options):
    settings = ["--model", model, "--steps", str(STEPS[model]), "--rounds", str(options.rounds), "--json", "-"]
    print(f"{model}, one core", flush=True)
    peers = [name for name in PEERS if kind(name) == "eager" or options.compiled_on]
    one, = results_of(["bench/vs_pytorch.py", *settings, "--peers", ",".join(peers)])
    print(json.dumps(one), flush=True)
    # Compiling takes long: for two workers, only the layout is compiled that was faster.
    fastest = [ratio["peer"] for ratio in one["ratios"].values()]
    fast = fast_ones({name: speed for name, speed in one["best"].items() if name != "lockstep"})
    peers = [name for name in fast if kind(name) == "eager" or name in fastest]
    print(f"{model}, two workers", flush=True)
    two, = results_of(["bench/vs_pytorch_ddp.py", *settings, "--only-speed", "--peers", ",".join(peers)])
    print(json.dumps(two), flush=True)


def measure(system, options):
    def command(*arguments):
        return arguments if system == "here" else ("scripts/check-on", system, *arguments)

    environment = dict(os.environ)
    if options.chroots:
        environment["CHROOT"] = str(options.chroots.resolve() / system)
    print(f"== {system}", file=sys.stderr)
    results_of(command("sh", "-ec", PREPARE), environment)
    began = time.time()
    compiled_on = system if system in options.compiled_on.split(",") else ""
    results = results_of(
        command("bench/pytorch_table.py", "--measure-this-system", "--rounds", str(options.rounds),
                "--models", options.models, "--compiled-on", compiled_on), environment)
    print(f"== {system}: measured in {(time.time() - began) / 60:.1f} minutes", file=sys.stderr)
    return results


def columns(results):
    """(system, kind) of each column; a kind of None is Lockstep's."""
    found = []
    for system in dict.fromkeys(result["system"] for result in results):
        found.append((system, None))
        kinds = [kind for result in results if result["system"] == system for kind in result["ratios"]]
        found += [(system, kind) for kind in ("eager", "compiled") if kind in kinds]
    return found


def title(results, system, kind):
    release = RELEASES.get(system, system)
    if kind is None:
        return f"Lockstep on {release}"
    version = next(result["torch"] for result in results if result["system"] == system)
    return f"PyTorch {version} {kind}"


def cell(results, row, system, kind):
    for result in results:
        if (result["model"], result["workers"], result["system"]) != (*row, system):
            continue
        if kind is None:
            return f"{result['best']['lockstep']:.1f}"
        if kind in result["ratios"]:
            ratio = result["ratios"][kind]
            return f"{result['best'][ratio['peer']]:.1f} ({ratio['best']:.2f}; {ratio['median']:.2f})"
    return "-"


def this_machine():
    about = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in about if line.startswith("model name")]
    vectors = ", AVX-512" if any(" avx512f " in line for line in about) else ""
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} cores{vectors}"


def print_table(results):
    shown = columns(results)
    print("| | " + " | ".join(title(results, *column) for column in shown) + " |")
    print("| --- " * (len(shown) + 1) + "|")
    for row in dict.fromkeys((result["model"], result["workers"]) for result in results):
        where = "one core" if row[1] == 1 else "two workers"
        print(f"| {NAMES[row[0]]}, {where} | " + " | ".join(cell(results, row, *column) for column in shown) + " |")
    print(f"\n{this_machine()}; 32 images per worker.")
    seconds = [taken for result in results if result["workers"] == 1 for taken in result["compile_seconds"].values()]
    if seconds:
        print(f"torch.compile took {min(seconds):.0f} to {max(seconds):.0f} s per network, which is not in the speeds.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default="here,trixie,forky")
    parser.add_argument("--compiled-on", default="forky", metavar="SYSTEMS")
    parser.add_argument("--models", default=",".join(STEPS))
    parser.add_argument("--chroots", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this file")
    parser.add_argument("--measure-this-system", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure_this_system:
        return measure_this_system(options)
    results = []
    for system in options.systems.split(","):
        results += measure(system, options)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    print_table(results)


if __name__ == "__main__":
    main()
