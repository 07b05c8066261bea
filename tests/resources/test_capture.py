"""Capture: media of a message become assets with short names, and nothing is fetched."""

from __future__ import annotations

import json
from pathlib import Path

from ishiki.resources.capture import AssetRegistry, asset_id


async def test_media_become_assets_and_the_rest_of_the_message_stays(tmp_path: Path) -> None:
    """Reference, inbound capture: attributes are kept, the source stands in the sidecar only."""
    registry = AssetRegistry(tmp_path / "assets")
    source = "https://example.test/a.png?rkey=secret"
    content, items = await registry.capture(f'look <img src="{source}" file="a.png"/> &lt;here&gt;', 5)
    name = asset_id(source)
    assert content == f'look <img src="asset://{name}" file="a.png"/> &lt;here&gt;'
    assert [(item.url, item.media_type, item.filename) for item in items] == [(f"asset://{name}", "image/*", "a.png")]
    sidecar = json.loads((tmp_path / "assets" / f"{name}.json").read_text(encoding="utf-8"))
    assert (sidecar["src"], sidecar["createdAt"], sidecar["format"]) == (source, 5, "ishiki.asset")


async def test_the_same_source_is_one_asset_and_its_first_sidecar_stays(tmp_path: Path) -> None:
    """Reference: registration is idempotent per runtime, also after a restart."""
    picture = '<img src="https://example.test/a.png"/>'
    _, items = await AssetRegistry(tmp_path).capture(picture + picture, 1)
    assert len(items) == 1
    await AssetRegistry(tmp_path).capture(picture, 2)
    (sidecar,) = tmp_path.glob("*.json")
    assert json.loads(sidecar.read_text(encoding="utf-8"))["createdAt"] == 1


async def test_media_inside_a_forward_are_captured_too(tmp_path: Path) -> None:
    """Our choice: where a picture stands does not matter."""
    content, items = await AssetRegistry(tmp_path).capture(
        '<forward><message><audio src="https://example.test/a.amr"/></message></forward>', 1
    )
    assert len(items) == 1
    assert "example.test" not in content


async def test_text_that_only_looks_like_media_stays_text(tmp_path: Path) -> None:
    """Design, content: what a user typed never becomes markup."""
    typed = "&lt;img src=&quot;https://example.test/a.png&quot;/&gt; src="
    assert await AssetRegistry(tmp_path).capture(typed, 1) == (typed, ())
    assert list(tmp_path.iterdir()) == []
