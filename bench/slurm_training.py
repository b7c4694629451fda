#!/usr/bin/python3
"""The MNIST recipe by one worker and by a Slurm cluster of two nodes, over TCP and over MPI.

    bench/slurm_training.py        needs root, slurm-wlm, munge and MNIST (lockstep data get mnist)

The cluster is made and removed here (tests/beds/slurm_cluster.py); jobs are given to it by `sbatch -N 2` with
examples/slurm/train.sbatch. Printed are the accuracy, the model's digest and the seconds of each.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/beds")]
from slurm_cluster import SlurmCluster  # noqa: E402

RECIPE = ROOT / "recipes/mnist-convnet.toml"  # as examples/slurm/train.sbatch has it
LOCKSTEP = ROOT / "build/release/lockstep"
MPI = {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_mpi_yield_when_idle": "1", "SLURM_PMIX_FENCE": "ring",
       "SLURM_MPI_TYPE": "pmix"}


def tell(name, run):
    end = json.loads((run / "events.jsonl").read_text().splitlines()[-1])
    assert end["event"] == "end", end
    print(f"{name:<24} {end['workers']} workers  accuracy {100 * end['test_accuracy']:.2f} %  "
          f"{end['seconds']:.0f} s  {end['model_sha256']}", flush=True)
    return end["model_sha256"]


def submit(folder, transport, environment):
    os.environ.update(environment)
    with SlurmCluster(2) as cluster:
        path = f"{LOCKSTEP.parent}:{os.environ['PATH']}"
        exports = f"--export=ALL,PATH={path},OUT={folder}/{transport},MASTER_ADDR=127.0.0.1"
        job = cluster.run(["sbatch", "--parsable", "-N", "2", "--ntasks-per-node=1", f"--output={folder}/job.log",
                           exports, f"--chdir={ROOT}", ROOT / "examples/slurm/train.sbatch",
                           "--transport", transport]).strip()
        state = cluster.wait_for_job(job, 1200)
    assert state == "COMPLETED", (state, Path(folder, "job.log").read_text(errors="replace"))
    return tell(f"sbatch -N 2, {transport}", Path(folder, transport))


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        digests = {submit(folder, "tcp", {}), submit(folder, "mpi", MPI)}
        subprocess.run([LOCKSTEP, "train", RECIPE, "--out", f"{folder}/alone"], check=True, capture_output=True)
        digests.add(tell("one worker", Path(folder, "alone")))
    print("the same model" if len(digests) == 1 else "NOT the same model")
    return len(digests) - 1


if __name__ == "__main__":
    sys.exit(main())
