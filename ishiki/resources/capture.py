"""Capture: media in an incoming message become assets of the runtime, named by their source, fetched by nobody yet.

The line that a model reads then carries a short, stable URL instead of a platform's long and expiring one. What is
known of an asset stands in its sidecar, `resources/assets/<id>.json`; the source is never shown to a model.
Source: specification, resources; the id is the first 32 hexadecimal digits of the SHA-256 of the source URL.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio.to_thread
import orjson

from ishiki.content import Element, Node, parse, serialise
from ishiki.contracts.events import AttachmentItem
from ishiki.jsonvalue import JsonValue

__all__ = ["AssetRegistry", "asset_id"]

_MEDIA_HINTS = {"img": "image/*", "audio": "audio/*", "video": "video/*", "file": "application/octet-stream"}
"""What a tag tells of its bytes before anybody has seen them."""

_REMEMBERED = 1_000
"""Assets whose sidecar is known to exist, so that a picture repeated all day is written once."""

_KEPT_SCHEMES = ("asset:", "artifact:", "local:")


def asset_id(source: str) -> str:
    """Return the id of the asset behind a source URL."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(slots=True)
class AssetRegistry:
    """The captured media of one runtime.

    Attributes:
        folder: `<home>/resources/assets`; made when the first asset comes.
    """

    folder: Path
    _known: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])

    async def capture(self, content: str, now_ms: int) -> tuple[str, Sequence[AttachmentItem]]:
        """Register the media in `content`.

        Args:
            content: element markup.
            now_ms: for the sidecar, epoch milliseconds.

        Returns:
            The content with `asset://` URLs, and one item per piece of media in order; each URL once.

        Raises:
            OSError: a sidecar could not be written; nothing may be stored that refers to it.
        """
        if "src=" not in content:
            return content, ()
        items: dict[str, AttachmentItem] = {}
        sidecars: dict[str, dict[str, JsonValue]] = {}
        nodes = [self._rewritten(node, items, sidecars, now_ms) for node in parse(content)]
        if not items:
            return content, ()
        fresh = {name: data for name, data in sidecars.items() if name not in self._known}
        if fresh:
            await anyio.to_thread.run_sync(self._write, fresh)
        for name in sidecars:
            self._known[name] = None
            self._known.move_to_end(name)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return serialise(nodes), tuple(items.values())

    def _rewritten(
        self,
        node: Node,
        items: dict[str, AttachmentItem],
        sidecars: dict[str, dict[str, JsonValue]],
        now_ms: int,
    ) -> Node:
        if not isinstance(node, Element):
            return node
        children = tuple(self._rewritten(child, items, sidecars, now_ms) for child in node.children)
        source = node.get("src")
        if node.name not in _MEDIA_HINTS or not source or source.startswith(_KEPT_SCHEMES):
            return Element(node.name, node.attributes, children)
        name = asset_id(source)
        url = f"asset://{name}"
        others = {key: value for key, value in node.attributes if key != "src"}
        filename = others.get("filename") or others.get("file") or others.get("name") or ""
        items[url] = AttachmentItem(url, _MEDIA_HINTS[node.name], filename)
        sidecars[name] = {
            "format": "ishiki.asset",
            "version": 1,
            "id": name,
            "kind": node.name,
            "mediaType": _MEDIA_HINTS[node.name],
            "src": source,
            "filename": filename,
            "sourceInfo": others,
            "createdAt": now_ms,
        }
        attributes = tuple((key, url if key == "src" else value) for key, value in node.attributes)
        return Element(node.name, attributes, children)

    def _write(self, sidecars: dict[str, dict[str, JsonValue]]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, data in sidecars.items():
            path = self.folder / f"{name}.json"
            if path.exists():
                continue
            temporary = path.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_bytes(orjson.dumps(data))
            temporary.replace(path)
