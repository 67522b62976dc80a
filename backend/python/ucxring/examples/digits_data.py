"""The handwritten digits that scikit-learn ships (1,797 images of 8 × 8 pixels) and a small network for them."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import TensorDataset

TEST_SHARE = 0.2


def load(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """Training and test set, split at random by `seed`; the same in every process."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0
    labels = torch.tensor(digits.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    tests = int(len(labels) * TEST_SHARE)
    return _subset(images, labels, order[tests:]), _subset(images, labels, order[:tests])


def _subset(images: Tensor, labels: Tensor, order: Tensor) -> TensorDataset:
    return TensorDataset(images[order], labels[order])


def network(seed: int) -> nn.Module:
    """Two convolutions and two linear layers: 151,306 parameters, initial weights by `seed`.

    Smooth activations: with ReLU one rounding error can flip a unit, and loss curves that should be equal to float
    tolerance drift apart.
    """
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 32, kernel_size=3, padding=1),
        nn.SiLU(),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.SiLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 128),
        nn.SiLU(),
        nn.Linear(128, 10),
    )
