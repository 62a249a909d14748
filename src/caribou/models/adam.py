"""Adam with decoupled weight decay (Loshchilov and Hutter, 2019): the one optimiser of models that are fitted in seconds.

torch.optim imports torch's compiler when its first optimiser is made, which takes 1.4 CPU seconds: as long as such a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

FIRST, SECOND, SMALL = 0.9, 0.999, 1e-8
"""beta_1, beta_2 and the term in the denominator, as usual."""


class Adam:
    """w <- (1 - lr decay) w - lr m / (sqrt(v) + SMALL), with m and v the bias-corrected means of gradients and of their squares.

    Args:
        parameters: tensors with gradients; they are changed in place.
        learning_rate: lr of the next step; ``param_groups[0]["lr"]`` sets another, as in torch.optim.
        weight_decay: decay.

    >>> w = torch.tensor([1.0], requires_grad=True)
    >>> adam = Adam([w], learning_rate=0.1)
    >>> (3 * w).sum().backward()
    >>> adam.step()
    >>> round(w.item(), 4)
    0.9
    """

    def __init__(self, parameters: Sequence[Tensor], learning_rate: float, weight_decay: float = 0.0) -> None:
        self._parameters, self._decay, self._steps = list(parameters), weight_decay, 0
        self._means = [torch.zeros_like(p) for p in self._parameters]
        self._squares = [torch.zeros_like(p) for p in self._parameters]
        self.param_groups: list[dict[str, Any]] = [{"lr": learning_rate}]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One step along the present gradients."""
        self._steps += 1
        lr = self.param_groups[0]["lr"]
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if len(gradients) < len(self._parameters):
            raise ValueError("every parameter must have a gradient: call backward() first")
        torch._foreach_lerp_(self._means, gradients, 1 - FIRST)
        torch._foreach_mul_(self._squares, SECOND)
        torch._foreach_addcmul_(self._squares, gradients, gradients, 1 - SECOND)
        if self._decay:
            torch._foreach_mul_(self._parameters, 1 - lr * self._decay)
        roots = torch._foreach_sqrt(self._squares)
        torch._foreach_div_(roots, (1 - SECOND**self._steps) ** 0.5)
        torch._foreach_add_(roots, SMALL)
        torch._foreach_addcdiv_(self._parameters, self._means, roots, -lr / (1 - FIRST**self._steps))
