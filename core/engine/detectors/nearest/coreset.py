"""Which patches a memory keeps: greedy k-centre, as in PatchCore (Roth et al. 2022, Algorithm 1), many at a time."""

from __future__ import annotations

import torch
from torch import Tensor

CANDIDATES = 256


def greedy_coreset(features: Tensor, count: int, generator: torch.Generator, width: int = 128) -> Tensor:
    """Indices (count,) of patches of which each is, when chosen, the farthest from those chosen before.

    features: float32 (N, D); beyond `width` values they are first projected at random (Johnson and Lindenstrauss). The
    first index is drawn. The choice is exactly that of one farthest patch after another, in rounds: as long as the
    best of the farthest CANDIDATES is no nearer than the last of them was at the round's start, no other patch can be
    farther, so only the candidates' distances need to be known. The others' follow in one product a round.
    """
    n = len(features)
    if count >= n:
        return torch.arange(n, device=features.device)
    x = _projected(features, width, generator)
    norms = x.square().sum(1)
    first = int(torch.randint(n, (1,), generator=generator))
    chosen = [first]
    away = _squared(x, norms, x[first : first + 1], norms[first : first + 1])[:, 0]  # (N,), to the nearest chosen
    away[first] = -1
    while len(chosen) < count:
        far, index = away.topk(min(CANDIDATES, n))
        candidates, floor = x[index], float(far[-1])
        between = _squared(candidates, norms[index], candidates, norms[index])
        picked: list[int] = []
        while len(chosen) + len(picked) < count:
            best = int(far.argmax())
            if picked and float(far[best]) < floor:
                break
            picked.append(best)
            far = torch.minimum(far, between[best])
            far[best] = -1
        taken = index[picked]
        away = torch.minimum(away, _squared(x, norms, x[taken], norms[taken]).amin(1))
        away[taken] = -1
        chosen += taken.tolist()
    return torch.tensor(chosen, device=features.device)


def _projected(features: Tensor, width: int, generator: torch.Generator) -> Tensor:
    x = features - features.mean(0)
    if x.shape[1] <= width:
        return x
    directions = torch.randn(x.shape[1], width, generator=generator).to(x)
    return x @ (directions / width**0.5)


def _squared(a: Tensor, a_norms: Tensor, b: Tensor, b_norms: Tensor) -> Tensor:
    """(N, D), (N,), (M, D), (M,) -> squared distances (N, M)."""
    return torch.addmm(b_norms[None], a, b.T, alpha=-2).add_(a_norms[:, None]).clamp_(min=0)
