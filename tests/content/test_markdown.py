import pytest

from ishiki.content import flatten_markdown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain 文字", "plain 文字"),
        ("# Title #\n## Sub", "Title\nSub"),
        ("#tag is no heading", "#tag is no heading"),
        ("**bold** and *it* and __b__ and _i_ and ~~no~~ and ***both***", "bold and it and b and i and no and both"),
        ("这是**重点**。", "这是重点。"),
        ("2 * 3 * 4 and snake_case_name and a*b*c", "2 * 3 * 4 and snake_case_name and a*b*c"),
        ("¯\\_(ツ)_/¯", "¯\\_(ツ)_/¯"),
        ("`a*b*c` and ``x ` y``", "a*b*c and x ` y"),
        ("```python\nx = a * b * c\n# note\n```\ndone", "x = a * b * c\n# note\ndone"),
        ("```\nnever closed **x**", "never closed **x**"),
        ("* one\n+ two\n- three\n1. four", "- one\n- two\n- three\n1. four"),
        ("> quoted\n>> deeper", "quoted\ndeeper"),
        ("a\n\n---\nb", "a\n\nb"),
        (
            "[site](https://x.example/a_b_c) ![cat](c.png) ![](d.png)",
            "site (https://x.example/a_b_c) cat (c.png) d.png",
        ),
        ("[https://x.example](https://x.example)", "https://x.example"),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |", "| a | b |\n| 1 | 2 |"),
        ("\\*not emphasis\\* \\# x", "*not emphasis* # x"),
    ],
)
def test_markdown_loses_its_signs_and_keeps_its_words(text: str, expected: str) -> None:
    """Design, long replies: `plain_text: true` flattens Markdown; which signs is our choice."""
    assert flatten_markdown(text) == expected


def test_a_run_of_signs_is_not_slow() -> None:
    """Our choice: the run's time limit is the judge; an earlier form took more than a minute."""
    for sign in ("`", "![", "**", "_", "> ", "|-"):
        assert len(flatten_markdown(sign * 50_000)) <= 50_000 * len(sign)
