"""The same networks in Python, written from the papers, not from the C++ code."""

import functools
import math

from torch import nn
from torch.nn import functional as F


class ConvNet(nn.Module):
    def __init__(self, shape=(1, 28, 28), classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        height, width = (((side - 2) // 2 - 2) // 2 for side in shape[1:])
        self.fc = nn.Linear(64 * height * width, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(F.dropout(x.flatten(1), 0.5, self.training))


class PadShortcut(nn.Module):
    def forward(self, x):
        extra = x.shape[1] // 2
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, extra, extra))


class Block(nn.Module):
    def __init__(self, before, after, stride, project=False):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample = nn.Identity()
        if stride == 2 and project:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        elif stride == 2:
            self.downsample = PadShortcut()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class SmallResNet(nn.Module):
    """resnet20, 32, 44, 56 and 110."""

    def __init__(self, layers, shape=(3, 32, 32), classes=10):
        super().__init__()
        more = (layers - 2) // 6 - 1
        self.conv1 = nn.Conv2d(shape[0], 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16, 1), *[Block(16, 16, 1) for _ in range(more)])
        self.layer2 = nn.Sequential(Block(16, 32, 2), *[Block(32, 32, 1) for _ in range(more)])
        self.layer3 = nn.Sequential(Block(32, 64, 2), *[Block(64, 64, 1) for _ in range(more)])
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


class ResNet18(nn.Module):
    def __init__(self, shape=(3, 32, 32), classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(Block(64, 64, 1), Block(64, 64, 1))
        self.layer2 = nn.Sequential(Block(64, 128, 2, project=True), Block(128, 128, 1))
        self.layer3 = nn.Sequential(Block(128, 256, 2, project=True), Block(256, 256, 1))
        self.layer4 = nn.Sequential(Block(256, 512, 2, project=True), Block(512, 512, 1))
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class ConvNetNd(nn.Module):
    """convnet1d for series (steps x features), convnet3d for videos (frames x channels x height x width)."""

    def __init__(self, conv, pool, channels, classes, width=32):
        super().__init__()
        self.conv1 = conv(channels, width, 3, padding=1)
        self.conv2 = conv(width, 2 * width, 3, padding=1)
        self.fc = nn.Linear(2 * width, classes)
        self.pool = pool

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x.transpose(1, 2))), 2)
        x = self.pool(F.relu(self.conv2(x)), 2)
        return self.fc(F.dropout(x.flatten(2).mean(2), 0.5, self.training))


class Dense(nn.Module):
    """logistic has one layer, fc; mlp has three: fc1, fc2 and fc3."""

    def __init__(self, sizes):
        super().__init__()
        self.names = ["fc"] if len(sizes) == 2 else [f"fc{i}" for i in range(1, len(sizes))]
        for name, before, after in zip(self.names, sizes, sizes[1:]):
            self.add_module(name, nn.Linear(before, after))

    def forward(self, x):
        x = x.flatten(1)
        for name in self.names:
            x = getattr(self, name)(x if name == self.names[0] else F.relu(x))
        return x


def network(name, shape=None, outputs=10, width=32):
    """The network `name` for samples of this shape. Without a shape: that of MNIST or CIFAR-10."""
    images = {"convnet": ConvNet, "resnet18": ResNet18}
    images |= {f"resnet{layers}": functools.partial(SmallResNet, layers) for layers in (20, 32, 44, 56, 110)}
    if name in images:
        return images[name](shape, outputs) if shape else images[name]()
    if name == "convnet1d":
        return ConvNetNd(nn.Conv1d, F.max_pool1d, shape[1], outputs, width)
    if name == "convnet3d":
        return ConvNetNd(nn.Conv3d, F.max_pool3d, shape[1], outputs, width)
    size = math.prod(shape)
    return Dense({"logistic": [size, outputs], "mlp": [size, 512, 512, outputs]}[name])


def network_of(about):
    """The network of a model.safetensors, given what load() says about it."""
    target = about["targets"][0]
    outputs = len(target["categories"]) or math.prod(target["shape"])
    options = {key: int(value) for key, value in about["options"].items() if key == "width"}
    return network(about["name"], about["inputs"][0]["shape"], outputs, **options)
