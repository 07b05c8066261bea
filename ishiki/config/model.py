"""The base class of every configuration model.

Owns the rules that all blocks share: which keys and which kinds of values are taken. Validating is `validation`'s.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = ["ConfigModel", "IdText"]


class ConfigModel(BaseModel):
    """A frozen block of configuration. Unknown keys are errors, and so is a value of another kind than its field.

    Keys are the snake_case field names; the camelCase spelling of each is accepted as well. Every field has a
    description (`Field(description=…)`) that says what it is and its unit; a class without one does not load. Write
    `default=` by name: type checkers do not see a positional default.

    Values are checked as JSON: a list fills a `tuple` or `frozenset` field, a whole number fills a `float` field, text
    never becomes a number or a boolean. A `mode="before"` validator of a whole model would take that away from its
    fields; use `mode="after"`.

    Example:
        >>> class Typing(ConfigModel):
        ...     base_delay: int = Field(default=500, ge=0, description="Milliseconds before each message.")
        >>> validate_config(Typing, {"baseDelay": 100}).base_delay
        100
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        # Errors name fields; `schema.locate` finds the spelling that the file uses.
        loc_by_alias=False,
        # Its texts hold the values, which may be secrets.
        hide_input_in_errors=True,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        """Refuse a model with an undescribed field."""
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if not (field.description or "").strip():
                raise TypeError(f"{cls.__qualname__}.{name} has no description; give it Field(description=…)")


def _id_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


IdText = Annotated[str, BeforeValidator(_id_text)]
"""Text that people also write as a bare number, such as a QQ number: `10001` reads as `"10001"`."""
