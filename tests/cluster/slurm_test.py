"""Training under Slurm: a cluster of two nodes, made and removed here.

    slurm_test.py LOCKSTEP TEST

Ends with 77, which ctest shows as skipped, where there can be no cluster, and says why.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/beds"), str(ROOT / "tests")]
from named_tests import SKIPPED, run_named  # noqa: E402
from slurm_cluster import SlurmCluster, why_not  # noqa: E402

SHORT = ["--data", "fashion-mnist", "--model", "convnet", "--steps", "20", "--shards", "8"]


def end_of(run):
    last = json.loads((run / "events.jsonl").read_text().splitlines()[-1])
    assert last["event"] == "end", last
    return last


def alone(lockstep, folder):
    recipe = ROOT / "recipes/mnist-convnet.toml"
    subprocess.run([lockstep, "train", recipe, *SHORT, "--out", folder / "alone"], check=True, capture_output=True)
    return end_of(folder / "alone")


def submit(cluster, lockstep, folder, flags, tasks):
    """Runs the batch script of the examples with this build's lockstep in the path. The names of these nodes are
    no hosts' names, so that the first one must be told."""
    script = ROOT / "examples/slurm/train.sbatch"
    path = f"{Path(lockstep).parent}:{os.environ['PATH']}"
    output = folder / "job.log"
    command = ["sbatch", "--parsable", "-N", "2", f"--ntasks-per-node={tasks}", f"--output={output}"]
    number = cluster.run([*command, f"--export=ALL,PATH={path},OUT={folder}/run,MASTER_ADDR=127.0.0.1", f"--chdir={ROOT}", script, *SHORT, *flags]).strip()
    state = cluster.wait_for_job(number)
    text = output.read_text(errors="replace") if output.exists() else ""
    return state, text


def two_nodes_train_over_tcp_to_the_model_of_one_worker(lockstep):
    with tempfile.TemporaryDirectory() as folder, SlurmCluster(2) as cluster:
        folder = Path(folder)
        state, text = submit(cluster, lockstep, folder, ["--transport", "tcp"], tasks=1)
        assert state == "COMPLETED", (state, text)
        end = end_of(folder / "run")
        assert end["workers"] == 2, end
        assert end["model_sha256"] == alone(lockstep, folder)["model_sha256"]


def two_nodes_train_over_mpi_to_the_model_of_one_worker(lockstep):
    # All nodes are this machine: Open MPI 5 finds no way from its network's interface to the same one.
    environment = {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_mpi_yield_when_idle": "1",
                   "SLURM_PMIX_FENCE": "ring", "SLURM_MPI_TYPE": "pmix"}
    os.environ.update(environment)
    with tempfile.TemporaryDirectory() as folder, SlurmCluster(2) as cluster:
        folder = Path(folder)
        state, text = submit(cluster, lockstep, folder, ["--transport", "mpi"], tasks=2)
        if "Invalid MPI type 'pmix'" in text:  # Debian testing
            print("no cluster here: its Slurm has no plugin for PMIx, by which Open MPI would be started")
            sys.exit(SKIPPED)
        assert state == "COMPLETED", (state, text)
        end = end_of(folder / "run")
        assert end["workers"] == 4, end
        assert end["model_sha256"] == alone(lockstep, folder)["model_sha256"]


def a_worker_that_fails_ends_the_job(lockstep):
    with tempfile.TemporaryDirectory() as folder, SlurmCluster(2) as cluster:
        folder = Path(folder)
        flags = ["--transport", "tcp", "--set", "optimizer.lr=1e6"]
        state, text = submit(cluster, lockstep, folder, flags, tasks=1)
        assert state == "FAILED", (state, text)
        assert "the loss is" in text and "lower optimizer.lr" in text, text


if __name__ == "__main__":
    run_named(
        two_nodes_train_over_tcp_to_the_model_of_one_worker,
        two_nodes_train_over_mpi_to_the_model_of_one_worker,
        a_worker_that_fails_ends_the_job,
        needs="cluster",
        why_not=why_not,
    )
