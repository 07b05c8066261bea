"""`python -m ishiki usage`: the table, the plot and the JSON over files as a bot writes them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from xml.etree import ElementTree

import orjson
import pytest

from ishiki.cli import main
from ishiki.cli.arguments import UsageArguments, parse_arguments
from ishiki.cli.usage import run_usage
from ishiki.cli.usage_table import compact, percent
from ishiki.jsonvalue import JsonObject, read_array, read_object
from ishiki.runtime.usage.tally import DayUsage, Tally, usage_folder
from ishiki.storage.replacing import replace_file
from ishiki.testing.clock import FakeClock

TODAY = date(2025, 11, 29)
GROUP, PRIVATE = "onebot:10001/group:500", "onebot:10001/private:42"
SVG = "{http://www.w3.org/2000/svg}"


class Data:
    """A project with usage files."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        (folder / "bot.py").touch()

    def put(self, days_ago: int, numbers: Mapping[str, Tally], *, profile: str = "neko", zone: str = "UTC") -> Path:
        """Write one day of a profile."""
        usage = DayUsage(profile, TODAY - timedelta(days=days_ago), zone)
        for name, tally in numbers.items():
            usage.channel(name).tally = tally
        file = usage_folder(self.folder / "data", profile) / f"{usage.day}.json"
        replace_file(file, orjson.dumps(usage.to_json()))
        return file

    def show(self, arguments: UsageArguments | None = None) -> tuple[int, str, str]:
        """Run the command; return status, output and errors."""
        environ = {"ISHIKI_TIMEZONE": "UTC"}
        status = run_usage(arguments or UsageArguments(), folder=self.folder, environ=environ, clock=FakeClock())
        found = self._capsys.readouterr()
        return status, found.out, found.err

    def row(self, head: str) -> list[str]:
        """Return the cells of a row of the table."""
        _, out, _ = self.show()
        (line,) = (line for line in out.splitlines() if line.startswith(head))
        return line.removeprefix(head).split()

    def draw(self, arguments: UsageArguments) -> ElementTree.Element:
        """Draw, and return the picture's root."""
        status, _, err = self.show(arguments)
        assert (status, err) == (0, "")
        assert arguments.svg is not None
        return ElementTree.fromstring((self.folder / arguments.svg).read_text(encoding="utf-8"))


@pytest.fixture
def data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Data:
    """Return a project without usage."""
    return Data(tmp_path, capsys)


def test_a_row_for_each_channel_with_a_column_for_each_day_and_the_share_cached(data: Data) -> None:
    """Issue: tokens per channel and day, as a table."""
    data.put(0, {GROUP: Tally(1, 2, 0, 4000, 500, 1000), PRIVATE: Tally(1, 1, 0, 90, 9)})
    data.put(2, {GROUP: Tally(3, 4, 0, 12_000, 300, 9000)})
    assert data.row("tokens") == ["11-23", "11-24", "11-25", "11-26", "11-27", "11-28", "11-29", "total", "cached"]
    assert data.row(GROUP) == ["-", "-", "-", "-", "12.3k", "-", "4.5k", "16.8k", "62%"]
    assert data.row(PRIVATE) == ["-", "-", "-", "-", "-", "-", "99", "99", "0%"]
    assert data.row("all channels") == ["-", "-", "-", "-", "12.3k", "-", "4.6k", "16.9k", "62%"]
    assert data.row("turns") == ["-", "-", "-", "-", "3", "-", "2", "5"]
    assert data.row("model calls") == ["-", "-", "-", "-", "4", "-", "3", "7"]
    assert data.row("output tokens") == ["-", "-", "-", "-", "300", "-", "509", "809"]


def test_estimates_are_marked(data: Data) -> None:
    """Our choice: nobody takes an estimate for a bill."""
    data.put(0, {GROUP: Tally(1, 2, 1, 4000, 500), PRIVATE: Tally(1, 1, 0, 90, 9)})
    assert data.row(GROUP)[-3:-1] == ["~4.5k", "~4.5k"]
    assert data.row(PRIVATE)[-3:-1] == ["99", "99"]
    _, out, _ = data.show()
    assert out.splitlines()[-1] == "~ with estimates: 1 of 3 calls came without usage"


def test_only_the_days_and_the_profile_asked_for_are_shown(data: Data) -> None:
    """Issue: --profile, --days."""
    data.put(0, {GROUP: Tally(1, 1, 0, 100, 1)})
    data.put(1, {GROUP: Tally(1, 1, 0, 1000, 1)})
    data.put(0, {GROUP: Tally(1, 1, 0, 7, 7)}, profile="mio")
    status, out, _ = data.show(UsageArguments(profile="neko", days=1))
    assert status == 0
    assert out.startswith("neko: 2025-11-29 to 2025-11-29, days of UTC")
    assert "mio" not in out
    assert "1k" not in out


def test_json_has_every_number_whole(data: Data) -> None:
    """Issue: --json; our choice of its form, docs/guide/guards.md."""
    data.put(0, {GROUP: Tally(1, 2, 1, 1_234_567, 500, 1000)}, zone="Asia/Shanghai")
    _, out, _ = data.show(UsageArguments(is_json=True))
    read: JsonObject = json.loads(out)
    (profile,) = read_array(read, "profiles")
    assert isinstance(profile, dict)
    assert (profile["profile"], profile["timezone"]) == ("neko", "Asia/Shanghai")
    assert (profile["from"], profile["to"]) == ("2025-11-23", "2025-11-29")
    channels = read_object(read_object(read_object(profile, "days"), "2025-11-29"), "channels")
    assert channels[GROUP] == profile["total"] == Tally(1, 2, 1, 1_234_567, 500, 1000).to_json()


def test_the_plot_is_well_formed_and_stacks_each_day_to_its_sum(data: Data) -> None:
    """Issue: a plot as SVG."""
    data.put(0, {GROUP: Tally(1, 1, 0, 3000, 1000, 1000)})
    data.put(1, {GROUP: Tally(1, 1, 0, 1500, 500, 500)})
    root = data.draw(UsageArguments(svg=Path("usage.svg"), days=2))
    bars = [group for group in root.iter(f"{SVG}g") if group.find(f"{SVG}title") is not None]
    heights = [[float(bar.get("height", "")) for bar in group.findall(f"{SVG}rect")] for group in bars]
    assert [len(stack) for stack in heights] == [3, 3]
    yesterday, today = heights
    assert sum(today) == pytest.approx(2 * sum(yesterday), abs=0.5)
    assert today == pytest.approx([sum(today) * share for share in (0.5, 0.25, 0.25)], abs=0.2)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"neko", "input", "input, cached", "output", "11-28", "11-29", "0", "4k"} <= set(texts)


def test_no_name_can_break_the_plot(data: Data) -> None:
    """Our choice: names come from folders and files, and may hold anything."""
    name = "<script>&\x07\"'\ufffe" + "x" * 100
    file = data.put(0, {"<&>": Tally(1, 1, 0, 10, 1)}, profile="odd")
    file.write_bytes(file.read_bytes().replace(b'"odd"', orjson.dumps(name)))
    root = data.draw(UsageArguments(svg=Path("usage.svg")))
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert any(text.startswith("<script>&\ufffd\"'\ufffd") for text in texts)


def test_a_plot_of_a_year_and_one_of_nothing_can_be_drawn(data: Data) -> None:
    """Our choice."""
    empty = data.draw(UsageArguments(svg=Path("empty.svg")))
    assert [text.text for text in empty.iter(f"{SVG}text")] == ["no usage yet"]
    for days_ago in range(0, 366, 5):
        data.put(days_ago, {GROUP: Tally(1, 1, 0, 10**days_ago if days_ago < 12 else 5, 1)})
    year = data.draw(UsageArguments(svg=Path("year.svg"), days=366))
    labels = [text.text for text in year.iter(f"{SVG}text") if (text.text or "")[2:3] == "-"]
    assert 5 < len(labels) <= 15
    assert labels[-1] == "11-29"


def test_without_usage_it_says_so(data: Data) -> None:
    """Our choice."""
    status, out, _ = data.show()
    assert status == 0
    assert out.startswith("no usage is kept in")
    data.put(100, {GROUP: Tally(1, 1, 0, 10, 1)})
    _, out, _ = data.show()
    assert out == "neko: nothing was used from 2025-11-23 to 2025-11-29; the newest day is 2025-08-21\n"


def test_an_unknown_profile_is_an_error(data: Data) -> None:
    """Our choice: a mistyped name is no empty table."""
    data.put(0, {GROUP: Tally(1, 1, 0, 10, 1)})
    status, out, err = data.show(UsageArguments(profile="nekko"))
    assert (status, out) == (1, "")
    assert "'nekko'" in err


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_shown(data: Data) -> None:
    """Our choice."""
    broken = data.put(0, {GROUP: Tally(1, 1, 0, 10, 1)})
    broken.write_bytes(b"{")
    data.put(1, {GROUP: Tally(1, 1, 0, 20, 2)})
    status, out, err = data.show()
    assert status == 1
    assert str(broken) in err
    assert GROUP in out


def test_a_plot_that_cannot_be_written_is_an_error(data: Data) -> None:
    """Our choice."""
    status, _, err = data.show(UsageArguments(svg=Path("no/such/folder/usage.svg")))
    assert status == 1
    assert "usage.svg" in err


def test_a_profile_whose_zone_has_begun_the_next_day_shows_it(data: Data) -> None:
    """Our choice: its newest day is what people look for."""
    data.put(-1, {GROUP: Tally(1, 1, 0, 10, 1)}, zone="Asia/Tokyo")
    assert data.row("tokens")[-3] == "11-30"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (1234, "1.23k"),
        (9_999, "10k"),
        (12_345, "12.3k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (1_234_567, "1.23M"),
        (123_456_789_012, "123G"),
    ],
)
def test_numbers_are_short_in_the_table(number: int, expected: str) -> None:
    """Our choice: a week fits a terminal."""
    assert compact(number) == expected


def test_a_share_of_nothing_is_a_dash() -> None:
    """Our choice."""
    assert [percent(0, 0), percent(1, 3), percent(3, 3)] == ["-", "33%", "100%"]


def test_flags_of_usage_are_read() -> None:
    """Issue: the command's flags."""
    found = parse_arguments(["usage", "--profile", "neko", "--days", "30", "--svg", "a.svg", "--json"])
    assert found == UsageArguments(profile="neko", days=30, svg=Path("a.svg"), is_json=True)


@pytest.mark.parametrize("days", ["0", "-1", "x", "367"])
def test_a_wrong_number_of_days_ends_with_status_2(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Our choice: argparse's own status for wrong usage."""
    with pytest.raises(SystemExit) as ended:
        main(["usage", "--days", days])
    assert ended.value.code == 2
    assert "number of days" in capsys.readouterr().err


def test_it_loads_neither_the_host_nor_the_model_library() -> None:
    """Design, who may import whom."""
    code = "import sys, ishiki.cli.usage; print(*(n for n in ('nonebot', 'litellm', 'pytest') if n in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.split() == []
