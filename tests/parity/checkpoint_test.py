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
from load_checkpoint import load, normalize
from networks import network, network_of
from save_checkpoint import save


def call(*command):
    return subprocess.run(command, check=True, capture_output=True).stdout


def train(lockstep, folder, out, model, *flags):
    command = [lockstep, "train", "--data", f"npy:{folder}", "--model", model, "--batch", "32"]
    return json.loads(call(*command, "--out", folder / out, "--json", *flags))


def pytorch_scores(net, about, x):
    net.eval()
    with torch.no_grad():
        return net(normalize(x, about["inputs"][0]))


def write_arrays(folder, shape):
    x = numpy.random.default_rng(1).integers(0, 256, (100, *shape), numpy.uint8)
    y = numpy.arange(100) % 10
    folder.mkdir(exist_ok=True)
    for name, array in {"x": x, "y": y, "x_test": x, "y_test": y}.items():
        numpy.save(folder / f"{name}.npy", array)
    return x, y


def check_loads_in_pytorch(lockstep, folder, model, shape, *flags):
    x, y = write_arrays(folder, shape)
    end = train(lockstep, folder, "a", model, "--steps", "4", *flags)
    tensors, about = load(folder / "a/model.safetensors")
    net = network_of(about)
    net.load_state_dict(load(folder / "a/checkpoints/step-00000004.safetensors")[0])
    net.load_state_dict(tensors)
    scores = pytorch_scores(net, about, x)
    loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(y)).item()
    assert abs(loss - end["test_loss"]) < 1e-4 * loss, f"{model}: {loss} in PyTorch, {end['test_loss']} here"
    lines = call(lockstep, "predict", folder / "a", folder / "x.npy", "--json").splitlines()
    here = torch.tensor([json.loads(line)["probabilities"] for line in lines])
    difference = (here - scores.softmax(1)).abs().max().item()
    assert difference < 1e-5, f"{model}: probabilities differ by {difference}"


def check_comes_back(lockstep, folder):
    write_arrays(folder, (3, 32, 32))
    torch.manual_seed(3)
    theirs = network("resnet20")
    save(theirs.state_dict(), folder / "theirs.safetensors")
    train(lockstep, folder, "b", "resnet20", "--steps", "1", "--lr", "0", "--weights", folder / "theirs.safetensors")
    back, _ = load(folder / "b/model.safetensors")
    for name, parameter in theirs.named_parameters():
        assert torch.equal(parameter, back[name]), f"{name} came back changed"


def check_types(folder):
    values = torch.tensor([[0.0, 1.5], [-2.0, 3.0]])
    types = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
    types += [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
    state = {str(type): values.abs().to(type) for type in types}
    state |= {"across": values.t(), "one": torch.tensor(3.0), "none": torch.empty(0, 2)}
    save(state, folder / "types.safetensors")
    back, about = load(folder / "types.safetensors")
    assert about == {} and back.keys() == state.keys()
    for name, tensor in state.items():
        assert back[name].dtype == tensor.dtype and torch.equal(back[name], tensor), name


def main(lockstep):
    models = {
        "resnet20": (3, 32, 32),
        "resnet18": (3, 16, 16),
        "resnet32": (3, 8, 8),
        "resnet110": (1, 8, 8),
        "convnet": (2, 14, 18),
        "mlp": (3, 5),
        "logistic": (7,),
        "convnet1d": (12, 5),
        "convnet3d": (6, 3, 8, 8),
    }
    with tempfile.TemporaryDirectory() as folder:
        for model, shape in models.items():
            check_loads_in_pytorch(lockstep, Path(folder) / model, model, shape)
        check_loads_in_pytorch(lockstep, Path(folder) / "plain", "mlp", (5,), "--set", "data.normalize=false")
        layout = ["--set", "data.options.layout=channels_last"]
        for model, shape in {"convnet": (14, 18, 2), "convnet3d": (6, 8, 8, 3), "mlp": (3, 5)}.items():
            check_loads_in_pytorch(lockstep, Path(folder) / f"{model}_last", model, shape, *layout)
        check_comes_back(lockstep, Path(folder) / "back")
        check_types(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1])
