"""A bounded memory of normal patches: gathered image by image, thinned to a coreset, and searched exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

CHUNK = 1024  # queries compared at a time: 1024 x 8000 distances are 33 MB


@dataclass
class Memory:
    """M normal patches. features float32 (M, D); rows (M,) training image of each; cells (M,) its flat place there.

    neighbours: (M, b), each patch's b nearest of the memory, itself first.
    """

    features: Tensor
    rows: Tensor
    cells: Tensor
    neighbours: Tensor

    def __post_init__(self) -> None:
        self._centre = self.features.mean(0)  # products of centred features lose fewer digits
        self._centred = self.features - self._centre
        self._half_norms = self._centred.square().sum(1) / 2

    @classmethod
    def of(cls, features: Tensor, rows: Tensor, cells: Tensor, neighbours: int) -> Memory:
        found = cls(features, rows, cells, torch.zeros(len(features), 0, dtype=torch.long, device=features.device))
        wanted = min(neighbours, len(features))
        if wanted:
            found.neighbours = found.search(features, wanted)[1]
        return found

    def search(self, queries: Tensor, count: int = 1) -> tuple[Tensor, Tensor]:
        """queries (Q, D) -> distances (Q, count), nearest first, and indices into the memory (Q, count).

        All pairs are compared. The order comes from products; the distances given are then taken of differences, so
        that equal patches are at 0 exactly.
        """
        indices = []
        for part in (queries - self._centre).split(CHUNK):
            closeness = torch.addmm(self._half_norms.neg()[None], part, self._centred.T)  # |q|^2 is the same for all
            indices.append(closeness.argmax(1, keepdim=True) if count == 1 else closeness.topk(count, 1).indices)
        index = torch.cat(indices) if indices else torch.zeros(0, count, dtype=torch.long)
        distances = self.distances(queries, index)
        if count > 1:
            distances, order = distances.sort(1)
            index = index.gather(1, order)
        return distances, index

    def distances(self, queries: Tensor, index: Tensor) -> Tensor:
        """queries (Q, D), index (Q, c) into the memory -> Euclidean distances (Q, c)."""
        columns = [(queries - self.features[column]).square().sum(1) for column in index.T]
        return torch.stack(columns, 1).sqrt_() if columns else queries.new_zeros(len(queries), 0)

    def weights(self, queries: Tensor, distances: Tensor, index: Tensor) -> Tensor:
        """PatchCore's factor (Q,) of a score: 1 - exp(d*) / sum of exp(d) over the neighbours of the nearest patch.

        queries (Q, D); distances, index (Q,): of each one's nearest patch. Roth et al. 2022, Eq. 7.
        """
        if self.neighbours.shape[1] < 2:
            return torch.ones_like(distances)
        around = self.distances(queries, self.neighbours[index])
        return 1 - (distances - around.logsumexp(1)).exp()


class Pool:
    """Patches drawn from the images of a study for a memory to be chosen from: at most `limit`, whatever comes.

    Each image gives the same number of its cells, drawn from (seed, image); if there are more images than `limit`, one
    cell of some of them. So the pool does not depend on how the images are batched.
    """

    def __init__(self, limit: int, images: int, seed: int) -> None:
        self.seed = seed
        each, more = divmod(limit, images)
        self.quota = np.full(images, each)
        self.quota[np.random.default_rng(seed).permutation(images)[:more]] += 1
        self.drawn = 0
        self._room: tuple[Tensor, Tensor, Tensor] | None = None

    def add(self, features: Tensor, row: int, inside: np.ndarray | None) -> None:
        """features (P, D) of image `row`; inside: bool (P,), cells that may be drawn (all where it says none)."""
        cells = np.arange(len(features)) if inside is None or not inside.any() else np.flatnonzero(inside)
        drawn = np.random.default_rng([self.seed, row]).permutation(cells)[: self.quota[row]]
        index = torch.from_numpy(np.sort(drawn)).to(features.device)
        place = slice(self.drawn, self.drawn + len(index))
        room, rows, places = self._rooms(features)
        room[place], rows[place], places[place] = features[index], row, index
        self.drawn = place.stop

    def _rooms(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Room for all that will be drawn, taken at once: thousands of small tensors kept between the large ones of the
        encoder's passes would leave gaps that no later pass fits in (500 kB an image, measured).
        """
        if self._room is None:
            count = int(self.quota.sum())
            rows, cells = (torch.empty(count, dtype=torch.long, device=features.device) for _ in range(2))
            self._room = features.new_empty(count, features.shape[1]), rows, cells
        return self._room

    def all(self) -> tuple[Tensor, Tensor, Tensor]:
        """features (N, D), rows (N,), cells (N,). Raises ValueError before an image was added."""
        if self._room is None:
            raise ValueError("no patch was drawn")
        features, rows, cells = (room[: self.drawn] for room in self._room)
        return features, rows, cells
