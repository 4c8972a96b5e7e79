"""Opacus: DP-SGD of one linear layer, noise by Opacus' own accountant."""

import warnings
from functools import cache

import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from protocol import Job, Probabilities, Rows, serve
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Records(Dataset):
    """Rows that are fetched a batch at a time."""

    def __init__(self, features: torch.Tensor, labels: torch.Tensor) -> None:
        self.features, self.labels = features, labels

    def __len__(self) -> int:
        """How many there are."""
        return len(self.features)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, torch.Tensor]:
        """One row."""
        return self.features[place], self.labels[place]

    def __getitems__(self, places: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Many rows."""
        return self.features[places], self.labels[places]


@cache
def noise_for(epsilon: float, delta: float, rate: float, epochs: int) -> float:
    """Return the noise multiplier by Opacus; fits that differ in their seed alone share it."""
    return get_noise_multiplier(
        target_epsilon=epsilon,
        target_delta=delta,
        sample_rate=rate,
        epochs=epochs,
        accountant="prv",
        epsilon_tolerance=epsilon / 200,
    )


def fit(job: Job, rows: Rows) -> Probabilities:
    """Train by SGD on Poisson batches, each record's gradient clipped."""
    torch.set_num_threads(1)
    torch.manual_seed(job.seed)
    wanted, count = job.settings, len(rows.train)
    batch = min(wanted["batch"], max(count // 4, 1))
    loader = DataLoader(
        Records(torch.tensor(rows.train, dtype=torch.float32), torch.tensor(rows.labels, dtype=torch.float32)),
        batch_size=batch,
        collate_fn=lambda both: both,
    )
    noise = noise_for(job.epsilon, job.delta, 1 / len(loader), wanted["epochs"])
    layer = nn.Linear(rows.train.shape[1], 1)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    optimiser = torch.optim.SGD(layer.parameters(), lr=wanted["lr"])
    layer, optimiser, loader = PrivacyEngine().make_private(
        module=layer,
        optimizer=optimiser,
        data_loader=loader,
        noise_multiplier=noise,
        max_grad_norm=wanted["clip"],
    )
    for _ in range(wanted["epochs"]):
        for features, labels in loader:
            optimiser.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(layer(features)[:, 0], labels).backward()
            optimiser.step()
    with torch.no_grad():
        scores = layer(torch.tensor(rows.everything, dtype=torch.float32))[:, 0]
    return torch.sigmoid(scores.double()).numpy()


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    serve(fit)
