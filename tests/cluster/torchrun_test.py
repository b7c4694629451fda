"""Workers that torchrun starts: Debian's python3-torch.

    torchrun_test.py LOCKSTEP TEST
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from named_tests import run_named  # noqa: E402

# Two defects of Debian's torchrun, with which it starts no worker. This is all that is changed.
# - torch 1.13 finds its flag with the value 0 by iterating over all flags, which leaves out 0 since Python 3.11.
# - torch 2 asks its stores for libuv, without which Debian builds it.
TORCHRUN = """
import torch
class Store(torch.distributed.TCPStore):
    def __init__(self, *values, **options):
        super().__init__(*values, **{**options, "use_libuv": False})
if int(torch.__version__.split(".")[0]) >= 2:
    torch.distributed.TCPStore = Store
from torch.distributed.elastic.multiprocessing import api
if api.Std.from_str("0") is None:
    api.Std.from_str = classmethod(lambda cls, text: cls(int(text)))
from torch.distributed.run import main
main()
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def bench(lockstep):
    return [lockstep, "bench", "all_reduce", "--json", "--transport", "tcp", "-b", "4K", "-e", "4K"]


def start(flags, command):
    """Workers notice a lost one at once, so torchrun need not look for it any later."""
    torchrun = [sys.executable, "-c", TORCHRUN, "--monitor_interval", "0.2", "--no_python", *flags]
    environment = {name: value for name, value in os.environ.items() if name != "LOCKSTEP_JOB_KEY"}
    return subprocess.Popen(torchrun + command, env=environment, start_new_session=True, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(*launchers):
    """What they wrote, together, of which each must end with 0."""
    try:
        results = [launcher.communicate(timeout=100) for launcher in launchers]
    finally:
        for launcher in launchers:
            if launcher.poll() is None:
                os.killpg(launcher.pid, signal.SIGKILL)  # with its workers
    assert [launcher.returncode for launcher in launchers] == [0] * len(launchers), results
    return "".join(output for output, _ in results)


def expect_workers(text, workers):
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert len(rows) == 1 and rows[0]["workers"] == workers and rows[0]["wrong"] == 0, text


def workers_meet_beside_the_store_of_torchrun(lockstep):
    flags = ["--nproc_per_node", "3", "--master_port", str(free_port())]
    expect_workers(finish(start(flags, bench(lockstep))), 3)


def workers_of_a_standalone_torchrun_meet(lockstep):
    expect_workers(finish(start(["--standalone", "--nnodes", "1", "--nproc_per_node", "2"], bench(lockstep))), 2)


def workers_of_two_nodes_meet(lockstep):
    flags = ["--nnodes", "2", "--nproc_per_node", "2", "--master_addr", "127.0.0.1", "--master_port", str(free_port())]
    nodes = [start([*flags, "--node_rank", str(node)], bench(lockstep)) for node in range(2)]
    expect_workers(finish(*nodes), 4)


def two_jobs_at_once_meet_each_their_own(lockstep):
    first = start(["--nproc_per_node", "2", "--master_port", str(free_port())], bench(lockstep))
    second = start(["--nproc_per_node", "3", "--master_port", str(free_port())], bench(lockstep))
    expect_workers(finish(first), 2)
    expect_workers(finish(second), 3)


def a_second_attempt_meets_if_a_worker_died_before_it_met(lockstep):
    flags = ["--nproc_per_node", "2", "--max_restarts", "1", "--master_port", str(free_port())]
    script = 'if [ "$RANK $TORCHELASTIC_RESTART_COUNT" = "1 0" ]; then kill -9 $$; fi; exec "$@"'
    expect_workers(finish(start(flags, ["sh", "-c", script, "sh", *bench(lockstep)])), 2)


def a_second_attempt_of_two_nodes_meets_if_a_worker_died(lockstep):
    """Rank 0 dies in the middle of the first attempt, which would not end by itself."""
    flags = ["--nnodes", "2", "--nproc_per_node", "1", "--max_restarts", "1", "--master_addr", "127.0.0.1"]
    flags += ["--master_port", str(free_port())]
    with tempfile.TemporaryDirectory() as folder:
        script = f"""
            if [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]; then exec "$@"; fi
            if [ "$RANK" = 1 ]; then exec "$@" --batches 1000000; fi
            mkfifo {folder}/said
            "$@" --batches 1000000 --verbose 2>{folder}/said &
            read measured <{folder}/said
            kill -9 $! $$"""
        nodes = [start([*flags, "--node_rank", str(node)], ["sh", "-c", script, "sh", *bench(lockstep)]) for node in range(2)]
        expect_workers(finish(*nodes), 2)


if __name__ == "__main__":
    run_named(
        workers_meet_beside_the_store_of_torchrun,
        workers_of_a_standalone_torchrun_meet,
        workers_of_two_nodes_meet,
        two_jobs_at_once_meet_each_their_own,
        a_second_attempt_meets_if_a_worker_died_before_it_met,
        a_second_attempt_of_two_nodes_meets_if_a_worker_died,
    )
