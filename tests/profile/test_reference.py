"""The reference page, the shipped profile and the guide say what the model says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from ishiki.config import load_yaml
from ishiki.jsonvalue import JsonValue
from ishiki.profile.loader import load_profiles
from ishiki.profile.reading import read_profile
from ishiki.profile.reference import key_rows, render_rows
from ishiki.profile.schema import ProfileConfig

from .folders import write_profile

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "profiles" / "default"
TEXT = (SHIPPED / "profile.yaml").read_text(encoding="utf-8")


def test_the_reference_page_lists_exactly_the_models_keys() -> None:
    """Design, docs: the reference is generated from the models and compared both ways."""
    page = (ROOT / "docs" / "reference" / "profile.md").read_text(encoding="utf-8")
    table = [line for line in page.splitlines() if line.startswith("|")]
    assert table == render_rows().splitlines(), "write render_rows() into docs/reference/profile.md"


def test_every_number_has_bounds() -> None:
    """Design, configuration: every field with description, unit, default, bounds."""
    unbounded = [row.key for row in key_rows() if re.fullmatch(r"[\d.]+", row.default) and not row.bounds]
    assert unbounded == []


def flat(value: JsonValue, prefix: str = "") -> dict[str, JsonValue]:
    """Return the leaves of nested mappings by dotted key."""
    if not isinstance(value, Mapping) or not value:
        return {prefix: value}
    items: dict[str, JsonValue] = {}
    for key, inner in value.items():
        items |= flat(inner, f"{prefix}.{key}" if prefix else key)
    return items


def test_the_shipped_profile_shows_every_key_with_its_default() -> None:
    """Our choice: the file teaches the keys, so it names all of them, and what it says is what holds."""
    # Keys without a default are commented out; every other key stands as it is.
    shown = yaml.safe_load(re.sub(r"^( *)# (attempts|timezone): .*$", r"\1\2: null", TEXT, flags=re.MULTILINE))
    for family in ("context", "wakeup"):
        del shown[family]["standard"]
    profile = ProfileConfig(model="main", channels={"onebot:*": ("*",)}, fallback=True)
    assert flat(shown) == flat(profile.model_dump(mode="json"))


def test_every_key_of_the_shipped_profile_stands_under_a_comment() -> None:
    """Our choice: each key says what it does."""
    lines = TEXT.splitlines()
    uncommented = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r" *[a-z_]+:( |$)", line) and not before.lstrip().startswith("#") and line.strip() != "standard:"
    ]
    assert uncommented == []


def commented_keys() -> Iterator[tuple[str, str]]:
    """Yield each key of the shipped profile but engines' own, dotted, with the comment above it."""
    section, comment = "", ""
    for line in TEXT.splitlines():
        found = re.match(r"(  )?(?:# (?=attempts|timezone))?([a-z_]+):", line)
        if found is None:
            comment = f"{comment} {line.strip().removeprefix('#')}" if line.lstrip().startswith("#") else ""
            continue
        section = section if found[1] else found[2]
        yield f"{section}.{found[2]}" if found[1] else found[2], comment
        comment = ""


def test_every_stated_default_is_the_models() -> None:
    """Our choice: a comment that lies is worse than none."""
    words = {"[]": "none", "{}": "none", '""': "none"}
    rows = {row.key: row for row in key_rows() if "<name>" not in row.key}
    comments = {key: comment for key, comment in commented_keys() if key in rows}
    assert comments.keys() == rows.keys()
    for key, comment in comments.items():
        default = rows[key].default
        if default == "required":
            assert "Required." in comment
        elif default == "unset":
            assert "Default: " in comment
        else:
            assert f"Default: {words.get(default, default.strip(chr(34)))}" in comment, key


def test_the_shipped_profile_owns_every_channel_and_yields() -> None:
    """Design, configuration: without configuration the shipped profile claims `onebot:*`."""
    loaded = load_profiles(SHIPPED.parent, {})
    assert loaded.problems == ()
    assert loaded.router().route("onebot:10001", "group:500") == "default"
    profile = loaded.get("default")
    assert profile is not None
    assert profile.config.fallback
    assert profile.memory_folder.is_dir()


async def test_the_shipped_persona_is_short() -> None:
    """Our choice: it stands in every request."""
    persona = await read_profile(SHIPPED, {}).persona()
    assert 200 < len(persona) < 1_500


def test_the_examples_of_the_guide_load(tmp_path: Path) -> None:
    """Our choice: every YAML block of the guide is valid, alone or behind the first one."""
    guide = (ROOT / "docs" / "guide" / "profiles.md").read_text(encoding="utf-8")
    blocks = [
        re.sub(r"^   ", "", block, flags=re.MULTILINE) for block in re.findall(r"```yaml\n(.*?) *```", guide, re.DOTALL)
    ]
    first, *others = blocks
    assert len(others) == 3
    for index, block in enumerate(others):
        read_profile(write_profile(tmp_path, f"p{index}", f"{first}\n{block}").parent, {})


def test_the_shipped_files_use_the_strict_readers_yaml() -> None:
    """Our choice: what the strict loader reads is what any YAML 1.1 reader reads, so editors show no surprise."""
    data: object = json.loads(json.dumps(load_yaml(SHIPPED / "profile.yaml").data))
    assert data == yaml.safe_load(TEXT)
