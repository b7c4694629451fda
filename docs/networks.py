"""The same networks in Python, written from the papers, not from the C++ code."""

import torch
from torch import nn
from torch.nn import functional as F


class ConvNet(nn.Module):
    def __init__(self, channels=1, side=28, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        side = ((side - 2) // 2 - 2) // 2
        self.fc = nn.Linear(64 * side * side, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(F.dropout(x.flatten(1), 0.5, self.training))


class PadShortcut(nn.Module):
    def forward(self, x):
        extra = x.shape[1] // 2
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, extra, extra))


class Projection(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv = nn.Conv2d(before, after, 1, stride, bias=False)
        self.bn = nn.BatchNorm2d(after)

    def forward(self, x):
        return self.bn(self.conv(x))


class Block(nn.Module):
    def __init__(self, before, after, stride, project=False):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Identity()
        if stride == 2:
            self.shortcut = Projection(before, after, stride) if project else PadShortcut()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet20(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[Block(16, 16, 1) for _ in range(3)])
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1))
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


class ResNet18(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
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


def network(name):
    return {"convnet": ConvNet, "resnet20": ResNet20, "resnet18": ResNet18}[name]()
