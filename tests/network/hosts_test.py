"""Workers on several hosts: network namespaces of this machine, made and removed here.

    hosts_test.py LOCKSTEP TEST

Ends with 77, which ctest shows as skipped, where hosts may not be made, and says why.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/beds"), str(ROOT / "tests")]
from hosts import Hosts, why_not  # noqa: E402
from named_tests import run_named  # noqa: E402


def bench(lockstep, *flags):
    return [lockstep, "bench", "all_reduce", "--json", "--batches", "2", *flags]


def rows_of(text):
    rows = [json.loads(line) for line in text.splitlines()]
    assert rows, "nothing was measured"
    return rows


def every_algorithm_adds_right(lockstep):
    with Hosts(4, rate="1gbit") as hosts:
        flags = ["--transport", "tcp", "--algorithm", "all", "-b", "4K", "-e", "1M", "-f", "256"]
        rows = rows_of(hosts.run_all(bench(lockstep, *flags)))
    assert len(rows) == 12, rows
    assert all(row["wrong"] == 0 and row["workers"] == 4 for row in rows), rows


def hybrid_adds_right(lockstep):
    with Hosts(2, rate="1gbit") as hosts:
        flags = ["--transport", "hybrid", "--algorithm", "all", "-b", "100K", "-e", "100K"]
        rows = rows_of(hosts.run_all(bench(lockstep, *flags), per_host=3))
        assert all(row["wrong"] == 0 and row["workers"] == 6 for row in rows), rows


def shm_refuses_other_hosts(lockstep):
    with Hosts(2) as hosts:
        try:
            hosts.run_all(bench(lockstep, "--transport", "shm", "-b", "4K", "-e", "4K"))
        except RuntimeError as error:
            assert "ended with 2" in str(error) and "share no memory" in str(error), error
            return
    raise AssertionError("two hosts shared memory")


def simulator_foretells_large_buckets(lockstep):
    """Loosely, since this machine may do other things at the time; bench/vs_simulator.py is strict."""
    with Hosts(4, rate="1gbit") as hosts:
        flags = ["--transport", "tcp", "--algorithm", "all", "-b", "8M", "-e", "8M"]
        rows = rows_of(hosts.run_all(bench(lockstep, *flags)))
    for row in rows:
        assert 0.6 < row["time_us"] / row["predicted_us"] < 1.7, row


def choosing_an_algorithm_ends_soon_where_packets_are_lost(lockstep):
    """It would take half a minute if it measured as much as on a good network. Loosely: 3 s are meant."""
    with Hosts(4) as hosts:
        hosts.lose(percent=2)
        command = bench(lockstep, "--transport", "tcp", "-b", "4K", "-e", "4K", "--verbose")
        environment = {"WORLD_SIZE": "4", "MASTER_ADDR": hosts.address(0), "MASTER_PORT": "29500", "LOCKSTEP_JOB_KEY": "k"}
        begin = time.monotonic()
        workers = [
            hosts.start(rank, command, {**environment, "RANK": str(rank)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for rank in range(4)
        ]
        said = []
        try:
            while not said or "auto: measured" not in said[-1]:
                said.append(workers[0].stderr.readline())
                assert said[-1], f"it has ended: {said}"
            seconds = time.monotonic() - begin
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()
    print(f"{seconds:.1f} s: {said}")
    assert seconds < 15, (seconds, said)


def a_cut_off_host_is_named(lockstep):
    silence = 2
    with Hosts(3) as hosts:
        command = bench(lockstep, "--transport", "tcp", "-b", "1M", "-e", "1M", "--silence", str(silence), "--verbose")
        command[command.index("--batches") + 1] = "1000000"
        environment = {"WORLD_SIZE": "3", "MASTER_ADDR": hosts.address(0), "MASTER_PORT": "29500", "LOCKSTEP_JOB_KEY": "k"}
        workers = [
            hosts.start(rank, command, {**environment, "RANK": str(rank)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for rank in range(3)
        ]
        try:
            assert "measured" in workers[0].stderr.readline()
            hosts.cut(2)
            begin = time.monotonic()
            errors = [None] * 3

            def wait(rank):
                errors[rank] = workers[rank].stderr.read()
                workers[rank].wait()

            threads = [threading.Thread(target=wait, args=(rank,)) for rank in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(timeout=30)
            seconds = time.monotonic() - begin
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
    assert seconds < silence + 3, seconds
    assert [worker.returncode for worker in workers] == [75, 75, 75], [workers, errors]
    for rank in (0, 1):
        assert "rank 2 (host2" in errors[rank], errors
    assert "rank 0 (host0" in errors[2] or "rank 1 (host1" in errors[2], errors


def four_hosts_train_to_the_model_of_one_worker(lockstep):
    recipe = ["--data", "fashion-mnist", "--model", "convnet", "--steps", "20", "--shards", "8"]
    with tempfile.TemporaryDirectory() as folder, Hosts(4) as hosts:
        command = [lockstep, "train", *recipe, "--workers", "2", "--nnodes", "4", "--master", hosts.address(0)]
        command += ["--out", f"{folder}/run"]
        launchers = [
            hosts.start(host, [*command, "--node-rank", str(host)], {"LOCKSTEP_JOB_KEY": "k"},
                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for host in range(4)
        ]
        errors = [launcher.communicate(timeout=100)[1] for launcher in launchers]
        assert [launcher.returncode for launcher in launchers] == [0] * 4, errors
        subprocess.run([lockstep, "train", *recipe, "--out", f"{folder}/alone"], check=True, capture_output=True)
        ends = [json.loads(open(f"{folder}/{run}/events.jsonl").readlines()[-1]) for run in ("run", "alone")]
    assert ends[0]["workers"] == 8, ends[0]
    assert ends[0]["model_sha256"] == ends[1]["model_sha256"], ends


def a_cut_off_host_stops_and_may_join_again(lockstep):
    """With --elastic: the rest go on, and the model is that of an undisturbed run."""
    silence = 1
    recipe = ["--data", "fashion-mnist", "--model", "convnet", "--steps", "350", "--shards", "8", "--set", "log.every_steps=1"]
    with tempfile.TemporaryDirectory() as folder, Hosts(4) as hosts:
        train = [lockstep, "train", *recipe, "--silence", str(silence), "--transport", "tcp", "--algorithm", "tree"]
        master = f"{hosts.address(0)}:29500"

        def start(host, *flags):
            return hosts.start(host, [*train, "--out", f"{folder}/host{host}", *flags], {"LOCKSTEP_JOB_KEY": "k"},
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

        def events():
            path = Path(folder, "host0/events.jsonl")
            return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

        def workers_and_step():
            told = events()
            return ([e["workers"] for e in told if "workers" in e] or [0])[-1], ([e["step"] for e in told if "step" in e] or [0])[-1]

        def wait_for(workers, step):
            deadline = time.monotonic() + 40
            while (now := workers_and_step()) < (workers, step) or now[0] != workers:
                assert time.monotonic() < deadline, f"waited for {workers} workers at step {step}, there are {now}"
                assert launchers[0].poll() is None, launchers[0].stderr.read()
                time.sleep(0.02)
            return now[1]

        elastic = ["--elastic", "--nnodes", "4", "--master", master]
        launchers = [start(host, *elastic, "--node-rank", str(host)) for host in range(4)]
        try:
            step = wait_for(4, 10)
            hosts.cut(3)
            step = wait_for(3, step + 10)
            said = launchers[3].communicate(timeout=4 * silence)[1]
            assert launchers[3].returncode == 75, said
            assert "coordinator" in said and "sent no heartbeat" in said, said
            hosts.mend(3)
            launchers[3] = start(3, "--join", master)
            wait_for(4, step + 10)
            said = [launcher.communicate(timeout=100)[1] for launcher in launchers]
            assert [launcher.returncode for launcher in launchers] == [0] * 4, said
        finally:
            for launcher in launchers:
                launcher.kill()
        subprocess.run([lockstep, "train", *recipe, "--workers", "2", "--out", f"{folder}/alone"], check=True, capture_output=True)
        alone = json.loads(Path(folder, "alone/events.jsonl").read_text().splitlines()[-1])
        assert events()[-1]["model_sha256"] == alone["model_sha256"]
        assert not Path(folder, "host3").exists(), "a host that was cut off wrote"


if __name__ == "__main__":
    run_named(
        every_algorithm_adds_right,
        hybrid_adds_right,
        shm_refuses_other_hosts,
        simulator_foretells_large_buckets,
        choosing_an_algorithm_ends_soon_where_packets_are_lost,
        a_cut_off_host_is_named,
        four_hosts_train_to_the_model_of_one_worker,
        a_cut_off_host_stops_and_may_join_again,
        needs="hosts",
        why_not=why_not,
    )
