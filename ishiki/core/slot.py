"""`ModelSlot`: a model that stands for whichever one it points to. What wraps it stays right when that changes."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ishiki.core.model import LanguageModel, ModelInfo, ModelPart, ModelRequest

__all__ = ["ModelSlot"]


class ModelSlot:
    """Passes every call on to `target`, as it is at that time.

    Attributes:
        target: who answers the next call.
    """

    def __init__(self, target: LanguageModel) -> None:
        """Point to `target`."""
        self.target = target

    @property
    def ref(self) -> str:
        """The target's reference."""
        return self.target.ref

    @property
    def info(self) -> ModelInfo:
        """The target's info."""
        return self.target.info

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """Let the target answer."""
        return self.target.stream(request)
