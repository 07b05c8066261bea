"""The one table of element tags that content markup knows, and what each stands for.

Who writes a tag: the intake, for what a platform sent; the model, for what it wants to send. A tag that is not in this
table is text. The vocabulary follows Satori's element names where one exists (`at`, `img`, `audio`, `video`, `file`,
`quote`, `message`); the rest is our choice:

* what a person does or shows has its own tag: `face`, `rps`, `dice`, `shake`, `poke`, `anonymous`;
* whatever a client draws as a box is a `card` with a `type`: json, xml, share, contact, location, music, keyboard. The
  card's text (its JSON, its description) is the element's content;
* `forward` holds `message` elements, one for each forwarded message; `markdown` holds the Markdown a bot sent;
* what nobody knows is `unknown` with the platform's name for it, so that nothing disappears.

The mapping from OneBot v11 segments is in `docs/formats/markup.md`. Attributes beyond the listed ones are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["TAGS", "TagSpec"]


@dataclass(frozen=True, slots=True)
class TagSpec:
    """What the parser and the previews know of one tag."""

    name: str
    """The tag, lower case; matched case-sensitively."""

    attributes: tuple[str, ...]
    """The attributes that have a meaning, the usual order."""

    meaning: str
    """One sentence for the documentation."""

    is_container: bool = False
    """Whether it may hold content. All others are empty; what stands in an empty one is moved behind it."""

    is_own_words: bool = False
    """Whether its content counts as what the sender said (mentions, keywords, typing time)."""

    aliases: tuple[tuple[str, str], ...] = ()
    """Names that models give to attributes, each with the one that is meant."""

    label: str = ""
    """The word a preview shows in brackets; empty where a preview has a form of its own."""

    detail: tuple[str, ...] = ()
    """Attributes whose first non-empty value follows the label in a preview."""


def _aliases(meant: str, *names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, meant) for name in names)


_ALL = (
    TagSpec(
        "at",
        ("id", "name", "type"),
        'Addresses a member; `type="all"` (without `id`) addresses everyone.',
        aliases=_aliases("id", "qq", "user_id", "userid", "user", "uid", "target", "target_id", "account", "member_id"),
    ),
    TagSpec(
        "img",
        ("src", "type", "summary", "file"),
        "A picture; `type` is absent for a photo, else `flash`, `sticker` or `mface`; `summary` is its caption.",
        label="image",
        detail=("summary",),
        aliases=_aliases("src", "url", "href"),
    ),
    TagSpec(
        "audio", ("src", "file"), "A voice message or sound.", label="audio", aliases=_aliases("src", "url", "href")
    ),
    TagSpec("video", ("src", "file"), "A video.", label="video"),
    TagSpec(
        "file",
        ("src", "name", "size", "id"),
        "A file; `size` in bytes, `id` the platform's handle.",
        label="file",
        detail=("name", "file"),
    ),
    TagSpec(
        "face",
        ("id", "name"),
        "A built-in emoticon of the platform.",
        label="face",
        detail=("name", "id"),
        aliases=_aliases("id", "face_id", "faceid"),
    ),
    TagSpec(
        "quote",
        ("id",),
        "The message replies to message `id`.",
        aliases=_aliases("id", "message_id", "messageid", "msg_id", "mid", "reply_to"),
    ),
    TagSpec(
        "forward",
        ("id",),
        "A bundle of forwarded messages; without content when it could not be fetched.",
        is_container=True,
        label="forward",
    ),
    TagSpec(
        "message",
        ("id", "user_id", "name", "time"),
        "One forwarded message; `time` in milliseconds since 1970 (UTC).",
        is_container=True,
        is_own_words=True,
    ),
    TagSpec(
        "card",
        ("type", "title", "summary", "url", "src", "id", "lat", "lon"),
        "A box drawn by the client; `type` is json, xml, share, contact, location, music or keyboard.",
        is_container=True,
        label="card",
        detail=("title", "summary", "type"),
    ),
    TagSpec("markdown", (), "Markdown sent by a bot; the content is its source.", is_container=True, is_own_words=True),
    TagSpec("rps", ("result",), "Rock, paper, scissors, thrown by the platform.", label="rps", detail=("result",)),
    TagSpec("dice", ("result",), "A die, thrown by the platform.", label="dice", detail=("result",)),
    TagSpec("shake", (), "Shakes the other's window.", label="shake"),
    TagSpec("poke", ("type", "id", "name"), "A poke; `id` is the kind within `type`.", label="poke", detail=("name",)),
    TagSpec("anonymous", (), "The message was sent anonymously.", label="anonymous"),
    TagSpec(
        "unknown",
        ("type",),
        "A segment nobody here knows; `type` is the platform's name.",
        label="unknown",
        detail=("type",),
    ),
)

TAGS: Mapping[str, TagSpec] = MappingProxyType({spec.name: spec for spec in _ALL})
"""Every known tag by its name."""
