"""Training with Lockstep and with PyTorch in turns, for bench/vs_pytorch.py and bench/vs_pytorch_ddp.py.

In a *round* each contestant trains once, one after the other: the machine's speed drifts, so only speeds of one round
are compared. A *peer* is PyTorch in one of the forms that bench/pytorch_peer.py lists; its *kind* is `eager` or
`compiled`. From the second round on, only peers take part that were nearly as fast as the fastest one of their kind.
"""

import contextlib
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODELS = ["resnet20", "resnet18", "convnet"]
PEERS = ["nchw", "channels_last", "mkldnn", "compiled_nchw", "compiled_channels_last"]
CACHE = "TORCHINDUCTOR_CACHE_DIR"  # the variable that names the folder for what torch.compile has compiled
ALWAYS = PEERS[:2]  # these work with all versions of PyTorch
NEARLY = 0.9
WARM_UP = 5
LIMIT = 600  # seconds for a peer to start and compile, or to train


def kind(peer):
    return "compiled" if peer.startswith("compiled_") else "eager"


def add_options(parser, steps, rounds):
    parser.add_argument("--model", default="resnet20", choices=MODELS)
    parser.add_argument("--batch", type=int, default=32, help="images per worker and step")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--peers", type=lambda text: text.split(","), default=PEERS, help="some of " + ",".join(PEERS))
    parser.add_argument("--json", metavar="FILE", help="write all results to this file (-: to the output, as one line)")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def cores_of(worker, threads=1):
    """The first worker gets the last cores: interrupts are mostly handled by the first one."""
    cores = sorted(os.sched_getaffinity(0), reverse=True)
    return [cores[(worker * threads + i) % len(cores)] for i in range(threads)]


def lockstep_run(options, workers, threads=1, worker=0, shards=None):
    """Trains with Lockstep, with one shard a worker unless `shards` says how many there are. One worker, which may be one of several separate ones, is bound to its cores here;
    Lockstep binds several workers to a core each itself."""
    bind = (lambda: os.sched_setaffinity(0, cores_of(worker, threads))) if workers == 1 else None
    data = "fashion-mnist" if options.model == "convnet" else "cifar10"
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        done = subprocess.run(
            [ROOT / "build/release/lockstep", "train", "--data", data, "--model", options.model]
            + ["--workers", str(workers), "--shards", str(shards or workers), "--batch", str(options.batch * workers)]
            + ["--steps", "100000", "--stop-at-step", str(options.steps + WARM_UP), "--out", f"{folder}/run"]
            + ["--set", "log.every_steps=1", "--set", "optimizer.nesterov=true", "--set", "data.flip=true"]
            + ["--set", "data.shift=4", "--set", f"train.threads={threads}"],
            capture_output=True, text=True, preexec_fn=bind)
        if done.returncode != 0:
            sys.exit(f"lockstep train failed ({done.returncode}):\n{done.stderr}")
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


class PeerFailed(Exception):
    pass


class Peer:
    """The processes of a peer. They wait between rounds, so that torch.compile compiles only once."""

    def __init__(self, name, options, workers, threads, cache):
        variables = {
            "WORLD_SIZE": str(workers), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
            "OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": "lo",
            "USE_LIBUV": "0",  # Debian's PyTorch 2 has none
            CACHE: cache,
        }
        if kind(name) == "compiled":
            # Generated code calls SLEEF, which Debian's PyTorch does not export. Without it, torch.compile finds that
            # vector instructions do not work, and generates code without them.
            variables["LD_PRELOAD"] = "libsleef.so.3"
        command = [sys.executable, ROOT / "bench/pytorch_peer.py", name, options.model]
        command += [str(options.batch), str(threads)]
        self.errors = tempfile.TemporaryFile("w+")
        began = time.time()
        self.processes = [
            subprocess.Popen(
                command + [str(core) for core in cores_of(rank, threads)], text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=self.errors, env={**os.environ, **variables, "RANK": str(rank)})
            for rank in range(workers)
        ]
        self.about = self.answer()
        self.first_step = self.about["first_step_at"] - began

    def answer(self):
        late = threading.Timer(LIMIT, self.close)  # a worker that fails may leave rank 0 waiting for it
        late.start()
        line = self.processes[0].stdout.readline()
        late.cancel()
        if line:
            return json.loads(line)
        self.close()
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if line.strip()]
        # Of a traceback its exception, which may have many lines; else what was printed last.
        exceptions = [line for line in lines if re.match(r"(\[rank\d+\]: )?[\w.]+(Error|Exception): ", line)]
        raise PeerFailed((exceptions or lines or ["ended without a message"])[-1][:160])

    def speed(self, steps):
        for process in self.processes:
            process.stdin.write(f"{steps}\n")
            process.stdin.flush()
        return self.answer()["speed"]

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def started_peers(options, workers, threads=1):
    """{name: Peer}, without those that do not work with this version of PyTorch. What they compile is kept only in the
    folder that the environment names, if it does."""
    peers = {}
    with tempfile.TemporaryDirectory() as temporary:
        cache = os.environ.get(CACHE, temporary)
        try:
            for name in options.peers:
                try:
                    peers[name] = Peer(name, options, workers, threads, cache)
                except PeerFailed as failure:
                    if name in ALWAYS:
                        sys.exit(f"PyTorch, {name}: {failure}; see scripts/packages-bench for what it needs")
                    print(f"{name} does not take part: {failure}", flush=True)
                    continue
                if kind(name) == "compiled":
                    print(f"{name} compiled in {peers[name].about['first_step_seconds']:.1f} s", flush=True)
            if options.peers and not peers:
                sys.exit("none of these peers works here: " + ", ".join(options.peers))
            yield peers
        finally:
            for peer in peers.values():
                peer.close()


def fast_ones(speeds):
    """The peers that are nearly as fast as the fastest one of their kind."""
    fastest = {}
    for name, speed in speeds.items():
        fastest[kind(name)] = max(speed, fastest.get(kind(name), 0))
    return [name for name, speed in speeds.items() if speed >= NEARLY * fastest[kind(name)]]


def run_rounds(options, own, peers):
    """Lets all train in turns, in alternating order: a list of {name: speed}. `own` has Lockstep's contestants, each a
    function that trains and returns its speed."""
    contestants = dict(own)
    for name, peer in peers.items():
        contestants[name] = lambda peer=peer: peer.speed(options.steps)
    rounds = []
    for i in range(options.rounds):
        names = list(contestants)
        speeds = {name: contestants[name]() for name in (reversed(names) if i % 2 else names)}
        rounds.append({name: speeds[name] for name in names})
        print("  ".join(f"{name} {speed:.1f}/s" for name, speed in rounds[i].items()), flush=True)
        if i == 0:
            kept = fast_ones({name: speeds[name] for name in peers})
            contestants = {name: contestants[name] for name in [*own, *kept]}
    return rounds


def compare(options, rounds, peers, workers):
    """The results of all rounds, and for each kind of peers Lockstep's speed divided by that of the fastest peer: the
    ratio of the best speeds, and the median of the rounds' ratios."""
    best = {name: max(speeds[name] for speeds in rounds if name in speeds) for name in rounds[0]}
    ratios = {}
    for name in sorted(peers, key=best.get):
        of_kind = [peer for peer in peers if kind(peer) == kind(name)]
        ratios[kind(name)] = {
            "peer": name,
            "best": best["lockstep"] / best[name],
            "median": statistics.median(
                speeds["lockstep"] / max(speeds[peer] for peer in of_kind if peer in speeds) for speeds in rounds),
        }
    return {
        "system": platform.freedesktop_os_release().get("VERSION_CODENAME", platform.platform()),
        "torch": next(iter(peers.values())).about["torch"] if peers else None,
        "model": options.model, "batch": options.batch, "workers": workers, "steps": options.steps,
        "rounds": rounds, "best": best, "ratios": ratios,
        "compile_seconds": {
            name: peer.about["first_step_seconds"] for name, peer in peers.items() if kind(name) == "compiled"},
    }


def print_comparison(result):
    for name, ratio in result["ratios"].items():
        print(f"best: lockstep {result['best']['lockstep']:.1f}, pytorch {result['torch']} {name} ({ratio['peer']}) "
              f"{result['best'][ratio['peer']]:.1f} images/s; ratio {ratio['best']:.3f}, median {ratio['median']:.3f}")


def write_json(options, result):
    if options.json == "-":
        print(json.dumps(result), flush=True)
    elif options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
