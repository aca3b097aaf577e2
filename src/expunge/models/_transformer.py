"""A small causal transformer: the language model of the benchmark and of the tutorial."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge._kinds import Count, check_arguments


class SmallTransformer(nn.Module):
    """A decoder with learnt positions, normalised before each block; logits [B, T, V].

    Use it for experiments with language models that have to take minutes on a CPU.

    Reference: A. Radford et al., *Language Models are Unsupervised Multitask Learners*, 2019.

    Args:
        vocabulary: number of tokens.
        context: the longest row, in tokens.
        width: features per token, a multiple of ``heads``.
        layers, heads: blocks, and attention heads of each.

    Input and output embeddings are the same weights. Rows are padded on the right: under causal
    attention no token sees what comes after it, so there is no mask.

    >>> model = SmallTransformer(vocabulary=11, context=6, width=8, layers=1, heads=2)
    >>> model(torch.zeros(2, 5, dtype=torch.int64)).shape
    torch.Size([2, 5, 11])
    """

    def __init__(
        self,
        vocabulary: Count,
        context: Count,
        width: Count = 128,
        layers: Count = 2,
        heads: Count = 4,
    ) -> None:
        super().__init__()
        check_arguments(SmallTransformer.__init__, locals())
        if width % heads:
            raise InvalidInput(f"`width` should be a multiple of `heads`. (got {width}, {heads})")
        self.context = context
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the embeddings again; those that torch draws would be 50 times as large."""
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        if length > self.context:
            raise InvalidInput(f"Rows should have at most {self.context} tokens. (got {length})")
        x = self.tokens(tokens) + self.positions(torch.arange(length, device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


class _Block(nn.Module):
    """Attention, then two linear layers; both added to what comes in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_in = nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm_out = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        parts = self.attend(self.norm_in(x)).split(width, dim=2)
        query, key, value = (part.view(shape).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(batch, length, width))
        grown: Tensor = self.contract(F.gelu(self.expand(self.norm_out(x))))
        return x + grown
