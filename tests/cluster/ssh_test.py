"""`lockstep run --hosts`: workers that are started over ssh, by a real sshd of the test's own.

    ssh_test.py LOCKSTEP TEST

Ends with 77, which ctest shows as skipped, where there is no sshd, and says why.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/beds"), str(ROOT / "tests")]
from named_tests import run_named  # noqa: E402
from ssh_server import SshServer, free_port, why_not  # noqa: E402

HANG_SECONDS = 60  # nothing here takes so long unless it hangs
TWO_HOSTS = "127.0.0.1 slots=2  # the first\n127.0.0.2\n"


STARTED = []


@contextmanager
def cluster(hosts=TWO_HOSTS):
    with SshServer() as server, tempfile.TemporaryDirectory() as folder:
        Path(folder, "hosts").write_text(hosts)
        try:
            yield server, Path(folder)
        finally:
            for process in STARTED:
                process.kill()
                process.wait()


def start(lockstep, server, folder, program, *flags, ssh=None, environment=()):
    command = [lockstep, "run", "--hosts", folder / "hosts", "--ssh", ssh or server.command(), *flags, "--", *program]
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, **dict(environment)}, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    STARTED.append(process)
    return process


def end(process):
    output, errors = process.communicate(timeout=HANG_SECONDS)
    return process.returncode, output, errors


def command_lines():
    """Of all processes, by their number."""
    lines = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines[int(path.parent.name)] = path.read_bytes()
        except OSError:  # it has ended
            continue
    return lines


def shell(text):
    return ["sh", "-c", text]


def workers_meet(lockstep):
    with cluster() as (server, folder):
        bench = [lockstep, "bench", "all_reduce", "--json", "-b", "4K", "-e", "4K"]
        code, output, errors = end(start(lockstep, server, folder, bench))
    assert code == 0, (code, errors)
    lines = output.splitlines()
    assert len(lines) == 1 and lines[0].startswith("[0] "), output
    row = json.loads(lines[0].removeprefix("[0] "))
    assert row["workers"] == 3 and row["wrong"] == 0, row


def workers_get_ranks_folder_and_variables(lockstep):
    program = shell('echo "$RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $WORLD_SIZE $MASTER_ADDR $PWD $LOCKSTEP_MINE"; echo also >&2; cat')
    with cluster() as (server, folder):
        code, output, errors = end(start(lockstep, server, folder, program, environment={"LOCKSTEP_MINE": "it's \"mine\""}))
        expected = [f"[{rank}] {rank} {local} {count} 3 127.0.0.1 {folder.resolve()} it's \"mine\""
                    for rank, local, count in ((0, 0, 2), (1, 1, 2), (2, 0, 1))]
    assert code == 0, (code, errors)
    assert sorted(output.splitlines()) == expected, (output, expected)
    assert sorted(errors.splitlines()) == [f"[{rank}] also" for rank in range(3)], errors


def the_key_is_on_no_command_line(lockstep):
    key = "a-key-that-nobody-else-has"
    with cluster() as (server, folder):
        process = start(lockstep, server, folder, shell("echo here; exec sleep 1000"), environment={"LOCKSTEP_JOB_KEY": key})
        for _ in range(3):
            assert process.stdout.readline().endswith("here\n")
        lines = command_lines().values()
        assert len(lines) > 5 and not [line for line in lines if key.encode() in line], lines


def the_exit_code_of_a_worker_is_that_of_the_job(lockstep):
    with cluster() as (server, folder):
        code, _, errors = end(start(lockstep, server, folder, shell('[ "$RANK" = 2 ] && exit 3; exec sleep 1000')))
    assert code == 3, (code, errors)
    assert "rank 2 (" in errors and "host 127.0.0.2 ended with exit code 3" in errors, errors


def signals_reach_the_workers(lockstep):
    program = shell('trap "echo stopped; exit 7" TERM; echo here; while :; do sleep 0.05; done')
    with cluster() as (server, folder):
        process = start(lockstep, server, folder, program)
        for _ in range(3):
            assert process.stdout.readline().endswith("here\n")
        process.send_signal(signal.SIGTERM)
        code, output, errors = end(process)
    assert code == 7, (code, output, errors)
    assert sorted(output.splitlines()) == [f"[{rank}] stopped" for rank in range(3)], output


def processes_with(word):
    """Those whose last argument this is."""
    return [pid for pid, line in command_lines().items() if line.rstrip(b"\0").split(b"\0")[-1] == word.encode()]


def wait_until(true):
    deadline = time.monotonic() + HANG_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it hangs"
        time.sleep(0.05)


def nobody_is_left_when(lockstep, kill):
    """Whoever is killed: the launcher, or a connection."""
    with cluster() as (server, folder):
        seconds = str(100000 + os.getpid())  # known to nobody else
        process = start(lockstep, server, folder, shell(f"sleep {seconds}"))
        wait_until(lambda: len(processes_with(seconds)) == 3)
        kill(process, server)
        wait_until(lambda: not processes_with(seconds))
        return end(process)


def no_worker_outlives_the_launcher(lockstep):
    nobody_is_left_when(lockstep, lambda process, _: process.kill())


def no_worker_outlives_its_connection(lockstep):
    def kill_ssh(_, server):
        ours = [pid for pid, line in command_lines().items()
                if line.startswith(b"ssh\0") and str(server.folder).encode() in line and b"\x00127.0.0.2\x00" in line]
        assert len(ours) == 1, ours
        os.kill(ours[0], signal.SIGKILL)

    code, _, errors = nobody_is_left_when(lockstep, kill_ssh)
    assert code == 69, (code, errors)
    assert "host 127.0.0.2: the connection over ssh was lost" in errors, errors


def a_host_that_refuses_the_login_is_named(lockstep):
    with cluster() as (server, folder):
        code, _, errors = end(start(lockstep, server, folder, ["true"], ssh=server.command(key="other_key")))
    assert code == 69, (code, errors)
    assert "host 127.0.0.1: ssh cannot connect: " in errors and "Permission denied" in errors, errors
    assert "works without a password" in errors, errors


def a_host_that_does_not_answer_is_named(lockstep):
    with cluster("127.0.0.1\n") as (server, folder):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            ssh = server.command(port=silent.getsockname()[1])
            code, _, errors = end(start(lockstep, server, folder, ["true"], "--connect-timeout", "1", ssh=ssh))
        assert code == 69 and "host 127.0.0.1: did not answer within 1 s" in errors, (code, errors)
        code, _, errors = end(start(lockstep, server, folder, ["true"], ssh=server.command(port=free_port())))
        assert code == 69 and "Connection refused" in errors, (code, errors)


def a_host_that_lacks_something_is_named(lockstep):
    with cluster() as (server, folder):
        code, _, errors = end(start(lockstep, server, folder, ["./nothing"]))
        assert code == 127 and "host 127.0.0.2: ./nothing: cannot be started: No such file" in errors, (code, errors)
        code, _, errors = end(start(lockstep, server, folder, ["true"], "--remote-lockstep", "/nowhere/lockstep"))
        assert code == 127 and "/nowhere/lockstep cannot be started there" in errors, (code, errors)
        assert "--remote-lockstep" in errors, errors


def a_wrong_list_is_refused(lockstep):
    with cluster("127.0.0.1\n127.0.0.2 slots=none\n") as (server, folder):
        code, _, errors = end(start(lockstep, server, folder, ["true"]))
    assert code == 2 and "hosts, line 2: slots=none" in errors, (code, errors)


if __name__ == "__main__":
    run_named(
        workers_meet,
        workers_get_ranks_folder_and_variables,
        the_key_is_on_no_command_line,
        the_exit_code_of_a_worker_is_that_of_the_job,
        signals_reach_the_workers,
        no_worker_outlives_the_launcher,
        no_worker_outlives_its_connection,
        a_host_that_refuses_the_login_is_named,
        a_host_that_does_not_answer_is_named,
        a_host_that_lacks_something_is_named,
        a_wrong_list_is_refused,
        needs="sshd",
        why_not=why_not,
    )
