"""A grid of heads and halves of a page, by Kron, Reshape and Transpose; shares of attention."""
import torch
from typing import Dict
from vortex_torch.flow import vFlow, register
from vortex_torch.indexer import topK, GeMM, Kron, Max, Mean, Normalize, Softmax, Sum, Transpose, Reshape, Exp, Relu
from vortex_torch.cache import MaxInterleave as CMaxInterleave, L2NormInterleave as CL2NormInterleave
from vortex_torch.cache import Reshape as CReshape
from vortex_torch.abs import ContextBase


@register("grid_cls")
class Grid(vFlow):
    def __init__(self):
        super().__init__()
        self.dots = GeMM()
        self.flip = Transpose()
        self.share = Softmax(dim=0, scale=0.125)
        self.size = Normalize(dim=0)
        self.best = Max(dim=2)
        self.grid = Kron(dim=(1, 2))
        self.flat = Reshape(-1, 1, 8)
        self.positive = Relu(alpha=0.0, beta=0.001)
        self.grow = Exp(beta=0.5)
        self.total = Sum(dim=2)
        self.output_func = topK()
        self.halves = CMaxInterleave(dim=1, k=1)
        self.sizes = CL2NormInterleave(dim=1, k=1)
        self.mean_size = Mean(dim=2)
        self.narrow = CReshape(-1, 1, 1)

    def create_cache(self, block_size: int, head_dim: int):
        self.halves.k = self.sizes.k = block_size // 2
        self.narrow.x2, self.narrow.y2 = 2 * head_dim, 1
        return {"halves": (2, head_dim), "sizes": (2 * head_dim, 1)}

    def forward_cache(self, cache: Dict[str, torch.Tensor], loc: torch.Tensor, ctx: ContextBase):
        self.halves(cache["k"], cache["halves"], loc=loc, ctx=ctx)
        sizes = self.sizes(cache["v"], None, loc=loc, ctx=ctx)
        self.narrow(sizes, cache["sizes"], loc=loc, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx: ContextBase):
        dots = self.flip(self.dots(q, cache["halves"], ctx=ctx), ctx=ctx)          # [S, H_q, 2]
        self.share(dots, ctx=ctx)
        best = self.best(dots, ctx=ctx)                                            # [S, H_q, 1]
        grid = self.grid(best, self.grow(dots, ctx=ctx), ctx=ctx)                  # [S, H_q * H_q, 2]
        assert grid.shape[1] == q.shape[1] ** 2 and grid.shape[2] == 2
        self.flat.y2 = 2 * grid.shape[1]
        flat = self.positive(self.flat(grid, ctx=ctx), ctx=ctx)
        total = self.total(flat, ctx=ctx)
        self.size(total, ctx=ctx)
        self.output_func(total, o, ctx=ctx)
