"""What users are promised when workers fail: an end in time, a name, an exit code, nothing left behind.

    faults_test.py LOCKSTEP TEST [SEED]

LOCKSTEP_FAULTS=30 in the environment: so many random faults.
"""

import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
from named_tests import run_named  # noqa: E402
from random_faults import (  # noqa: E402
    DEAD_SECONDS,
    HANG_SECONDS,
    HOST,
    all_end_as_promised,
    random_fault,
    random_pipeline_fault,
    recipe,
)


def number_of_faults(usual):
    return int(os.environ.get("LOCKSTEP_FAULTS", usual))


def random_faults_end_as_promised(lockstep, seed=None):
    all_end_as_promised(lockstep, random_fault, number_of_faults(24), seed)


def random_faults_of_pipelines_end_as_promised(lockstep, seed=None):
    all_end_as_promised(lockstep, random_pipeline_fault, number_of_faults(4), seed)


def ended(process):
    """Its exit code and stderr."""
    try:
        _, errors = process.communicate(timeout=HANG_SECONDS)
        return process.returncode, errors
    finally:
        process.kill()
        process.wait()


def run_two(lockstep, script):
    process = subprocess.Popen([lockstep, "run", "-n", "2", "--", "sh", "-c", script], stderr=subprocess.PIPE, text=True)
    return ended(process)


def an_exit_code_of_a_program_is_passed_on(lockstep):
    begin = time.monotonic()
    code, errors = run_two(lockstep, "if [ $RANK = 1 ]; then echo no room >&2; exit 3; fi; sleep 60")
    assert code == 3, (code, errors)
    assert f"lockstep: rank 1 ({HOST}, pid " in errors, errors
    assert "ended with exit code 3; end of its stderr:\n  no room\n" in errors, errors
    assert time.monotonic() - begin < DEAD_SECONDS


def an_uncaught_exception_is_shown(lockstep):
    program = f"exec {sys.executable} -c 'raise ValueError(\"seven is too many\")'"
    code, errors = run_two(lockstep, f"if [ $RANK = 0 ]; then {program}; fi; sleep 60")
    assert code == 1, (code, errors)
    message = errors[errors.index(f"lockstep: rank 0 ({HOST}, pid ") :]
    assert "ended with exit code 1; end of its stderr:\n  Traceback" in message, errors
    assert message.endswith("  ValueError: seven is too many\n"), errors


def start_by_hand(environments, command):
    """Workers without a launcher; {RANK} in the command becomes the worker's rank."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "LOCKSTEP_JOB_KEY": "k"}
    return [
        subprocess.Popen(
            [word.format(**environment) for word in command],
            env={**os.environ, **meeting, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for environment in environments
    ]


def bench(lockstep):
    return [lockstep, "bench", "all_reduce", "-b", "4K", "-e", "4K", "--batches", "1"]


def all_refuse(processes, *pieces):
    for code, errors in [ended(process) for process in processes]:
        assert code == 1, (code, errors)
        assert all(piece in errors for piece in pieces), errors


def a_wrong_world_size_is_refused(lockstep):
    processes = start_by_hand([{"RANK": "0", "WORLD_SIZE": "2"}, {"RANK": "1", "WORLD_SIZE": "3"}], bench(lockstep))
    first, second = (f"rank {rank} ({HOST}, pid {process.pid})" for rank, process in enumerate(processes))
    all_refuse(processes, f"{second} was started for a world of 3, and {first} for a world of 2")


def two_workers_of_one_rank_are_refused(lockstep):
    processes = start_by_hand([{"RANK": rank, "WORLD_SIZE": "3"} for rank in "011"], bench(lockstep))
    both = [f"rank 1 ({HOST}, pid {process.pid})" for process in processes[1:]]
    all_refuse(processes, "two workers have rank 1: ", *both)


def a_rank_that_does_not_come_is_named(lockstep):
    """Soon. That the wait ends after 60 s is the business of tests/launch, where it can be shorter."""
    (process,) = start_by_hand([{"RANK": "0", "WORLD_SIZE": "2"}], bench(lockstep))
    try:
        assert "waiting for rank 1 at 127.0.0.1:" in process.stderr.readline()
    finally:
        process.kill()
        process.wait()


def different_recipes_are_refused(lockstep):
    with tempfile.TemporaryDirectory(prefix="lockstep-faults-") as folder:
        command = [lockstep, "train", *recipe("tcp"), "--out", f"{folder}/run", "--lr", "0.{RANK}5"]
        processes = start_by_hand([{"RANK": rank, "WORLD_SIZE": "2"} for rank in "01"], command)
        all_refuse(processes, "ranks disagree on optimizer.lr: rank 0 has 0.05, rank 1 has 0.15")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # SIGABRT would leave files
    run_named(
        random_faults_end_as_promised,
        random_faults_of_pipelines_end_as_promised,
        an_exit_code_of_a_program_is_passed_on,
        an_uncaught_exception_is_shown,
        a_wrong_world_size_is_refused,
        two_workers_of_one_rank_are_refused,
        a_rank_that_does_not_come_is_named,
        different_recipes_are_refused,
    )
