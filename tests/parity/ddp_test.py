"""100 steps of DistributedDataParallel on two workers must give PyTorch's losses.

ddp_test.py LOCKSTEP DDP_STEPS MODEL DATA
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
from torch.nn import functional as F

sys.path[:0] = [str(Path(__file__).parents[2] / "docs")]
from load_checkpoint import load
from networks import network

WORKERS, STEPS, BATCH, TOLERANCE = 2, 100, 8, 1e-4


def train(rank, name, folder, shape):
    torch.set_num_threads(1)
    # Through a file: Debian's PyTorch 2 has no libuv, which its server for TCP wants.
    store = f"file://{folder}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=WORKERS)
    net = network(name)
    net.load_state_dict(load(folder / "initial.safetensors")[0])
    net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    x = numpy.fromfile(folder / f"x.{rank}", numpy.float32).reshape(STEPS, BATCH, *shape)
    y = numpy.fromfile(folder / f"y.{rank}", numpy.int64).reshape(STEPS, BATCH)
    losses = []
    for step in range(STEPS):
        torch.manual_seed(step * WORKERS + rank)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(torch.from_numpy(x[step])), torch.from_numpy(y[step]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    (folder / f"pytorch.{rank}").write_text(json.dumps(losses))


def main(lockstep, ddp_steps, name, data):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        subprocess.run([lockstep, "run", "-n", str(WORKERS), "--", ddp_steps, name, data, str(STEPS), str(BATCH), folder],
                       check=True)
        ours = [json.loads((folder / f"losses.{rank}").read_text()) for rank in range(WORKERS)]
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        torch.multiprocessing.spawn(train, args=(name, folder, ours[0]["shape"]), nprocs=WORKERS)
        theirs = [json.loads((folder / f"pytorch.{rank}").read_text()) for rank in range(WORKERS)]
    worst = 0
    for rank in range(WORKERS):
        for step, (mine, peers) in enumerate(zip(ours[rank]["losses"], theirs[rank], strict=True)):
            error = abs(mine - peers) / abs(peers)
            worst = max(worst, error)
            assert error <= TOLERANCE, f"rank {rank}, step {step}: {mine} here, {peers} in PyTorch"
        first, last = sum(theirs[rank][:10]), sum(theirs[rank][-10:])
        assert last < first, "the losses did not fall: nothing was learned, so nothing was tested"
    print(f"{name}: largest relative error of {WORKERS * STEPS} losses: {worst:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
