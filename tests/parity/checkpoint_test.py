"""A checkpoint loads in PyTorch, and weights saved by PyTorch load here.

checkpoint_test.py LOCKSTEP
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch

sys.path[:0] = [str(Path(__file__).parents[2] / "docs")]
from load_checkpoint import load
from networks import network
from save_checkpoint import save


def train(lockstep, folder, out, *flags):
    command = [lockstep, "train", "--data", f"npy:{folder}", "--model", "resnet20", "--batch", "32"]
    subprocess.run([*command, "--out", folder / out, *flags], check=True, capture_output=True)


def main(lockstep):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        numpy.save(folder / "x.npy", numpy.random.default_rng(1).integers(0, 256, (100, 3, 32, 32), numpy.uint8))
        numpy.save(folder / "y.npy", numpy.arange(100) % 10)
        train(lockstep, folder, "a", "--steps", "2")
        net = network("resnet20")
        net.load_state_dict(load(folder / "a/checkpoints/step-00000002.safetensors"))
        net.load_state_dict(load(folder / "a/model.safetensors"))

        torch.manual_seed(3)
        theirs = network("resnet20")
        save(theirs.state_dict(), folder / "theirs.safetensors")
        train(lockstep, folder, "b", "--steps", "1", "--lr", "0", "--weights", folder / "theirs.safetensors")
        back = load(folder / "b/model.safetensors")
        for name, parameter in theirs.named_parameters():
            assert torch.equal(parameter, back[name]), f"{name} came back changed"


if __name__ == "__main__":
    main(sys.argv[1])
