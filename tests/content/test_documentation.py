import re
from pathlib import Path

from ishiki.content import TAGS

FORMATS = Path(__file__).parents[2] / "docs" / "formats"


def test_the_page_lists_every_tag_as_the_table_has_it() -> None:
    """Our choice: the vocabulary is written down once for readers, and it is this one."""
    page = (FORMATS / "markup.md").read_text(encoding="utf-8")
    tags = page.split("## Tags")[1].split("##")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (none|yes) \| (.*) \|$", tags, re.MULTILINE)
    documented = [
        (name, tuple(re.findall(r"`(\w+)`", found)), content == "yes", text) for name, found, content, text in rows
    ]
    assert documented == [(tag.name, tag.attributes, tag.is_container, tag.meaning) for tag in TAGS.values()]
