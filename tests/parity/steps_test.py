"""20 SGD steps from the same weights on the same batches must give PyTorch's losses.

steps_test.py RECORD_STEPS MODEL DATA KERNELS

With LibTorch's kernels they are the same to the last bit. Ours round differently: the first loss agrees to
1e-6, and then ever fewer digits do, since a ReLU that was just above zero is just below it. Our dropout draws one
number (src/kernels/dropout_loops.h), here too.
"""

import json
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

STEPS, BATCH = 20, 32
FIRST_TOLERANCE = 1e-6
# Small steps of ours, so that they do not part too soon.
TOLERANCES = {"torch": 1e-6, "fused": 0.02}
RATES = {"torch": 0.05, "fused": 0.005}


def dropout(x, probability, training):
    """What lockstep::nn::dropout does in training."""
    seed = torch.empty((), dtype=torch.int64).random_(-(2**63), None).item() % 2**64
    i, part = numpy.arange(x.numel(), dtype=numpy.uint64), numpy.uint64(4096)
    place = numpy.uint64(seed) + i // part * numpy.uint64(0x9E3779B97F4A7C15)
    low, high = (half.astype(numpy.uint32) for half in (place, place >> numpy.uint64(32)))
    kept = mixed(mixed((i % part).astype(numpy.uint32) + low) ^ high) >= int(probability * 2**32)
    return x * torch.from_numpy(kept.astype(numpy.float32)).reshape(x.shape) / (1 - probability)


def mixed(x):
    x = (x ^ (x >> numpy.uint32(16))) * numpy.uint32(0x7FEB352D)
    x = (x ^ (x >> numpy.uint32(15))) * numpy.uint32(0x846CA68B)
    return x ^ (x >> numpy.uint32(16))


def pytorch_losses(name, folder, steps, rate, kernels):
    net = network(name)
    if kernels == "fused":
        F.dropout = dropout  # the networks call it
    net.load_state_dict(load(folder / "initial.safetensors")[0])
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=5e-4)
    x = numpy.fromfile(folder / "x.f32", numpy.float32).reshape(STEPS, BATCH, *steps["shape"])
    y = numpy.fromfile(folder / "y.i64", numpy.int64).reshape(STEPS, BATCH)
    losses = []
    for i in range(STEPS):
        torch.manual_seed(steps["seeds"][i])
        optimizer.zero_grad()
        loss = F.cross_entropy(net(torch.from_numpy(x[i])), torch.from_numpy(y[i]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return net, losses


def main(record_steps, name, data, kernels):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        subprocess.run([record_steps, name, data, kernels, str(RATES[kernels]), str(STEPS), str(BATCH), folder], check=True)
        steps = json.loads((folder / "steps.json").read_text())
        net, losses = pytorch_losses(name, folder, steps, RATES[kernels], kernels)
        final, _ = load(folder / "final.safetensors")
    for i, (ours, theirs) in enumerate(zip(steps["losses"], losses, strict=True)):
        error = abs(ours - theirs) / abs(theirs)
        print(f"step {i:2}  lockstep {ours:.7f}  pytorch {theirs:.7f}  relative error {error:.1e}")
        assert error <= (FIRST_TOLERANCE if i == 0 else TOLERANCES[kernels]), f"step {i}: {ours} here, {theirs} in PyTorch"
    assert losses[-1] < losses[0], "the losses did not fall: nothing was learned, so nothing was tested"
    if kernels == "fused":
        return
    for key, value in net.state_dict().items():
        torch.testing.assert_close(final[key], value, rtol=1e-3, atol=1e-4, msg=lambda m: f"{key}: {m}")


if __name__ == "__main__":
    main(*sys.argv[1:])
