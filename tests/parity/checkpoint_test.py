"""A checkpoint loads in PyTorch, and weights saved by PyTorch load here.

checkpoint_test.py LOCKSTEP
"""

import json
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
    result = subprocess.run([*command, "--out", folder / out, "--json", *flags], check=True, capture_output=True)
    return json.loads(result.stdout)


def pytorch_loss(net, about, x, y):
    net.eval()
    mean, deviation = (torch.tensor(about["inputs"][0][key]).reshape(-1, 1, 1) for key in ("mean", "deviation"))
    scores = net((torch.from_numpy(x) / 255.0 - mean) / deviation)
    return torch.nn.functional.cross_entropy(scores, torch.from_numpy(y)).item()


def main(lockstep):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        x = numpy.random.default_rng(1).integers(0, 256, (100, 3, 32, 32), numpy.uint8)
        y = numpy.arange(100) % 10
        for name, array in {"x": x, "y": y, "x_test": x, "y_test": y}.items():
            numpy.save(folder / f"{name}.npy", array)
        end = train(lockstep, folder, "a", "--steps", "4")
        net = network("resnet20")
        net.load_state_dict(load(folder / "a/checkpoints/step-00000004.safetensors")[0])
        tensors, about = load(folder / "a/model.safetensors")
        net.load_state_dict(tensors)
        loss = pytorch_loss(net, about, x, y)
        assert abs(loss - end["test_loss"]) < 1e-4 * loss, f"{loss} in PyTorch, {end['test_loss']} here"

        torch.manual_seed(3)
        theirs = network("resnet20")
        save(theirs.state_dict(), folder / "theirs.safetensors")
        train(lockstep, folder, "b", "--steps", "1", "--lr", "0", "--weights", folder / "theirs.safetensors")
        back, _ = load(folder / "b/model.safetensors")
        for name, parameter in theirs.named_parameters():
            assert torch.equal(parameter, back[name]), f"{name} came back changed"


if __name__ == "__main__":
    main(sys.argv[1])
