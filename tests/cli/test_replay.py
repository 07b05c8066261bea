"""`python -m ishiki replay`: when minds would have spoken in a log."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ishiki.cli import main
from ishiki.cli.arguments import ReplayArguments
from ishiki.cli.replay import run_replay
from ishiki.contracts.events import MESSAGE_CREATED, MessageCreated, User
from ishiki.core.entries import EVENT, Entry, message_entry
from ishiki.core.messages import AssistantMessage, CustomMessage, ToolCallPart
from ishiki.storage.format import encode_entries, encode_header

NINE_MS = 1_735_693_200_000
"""2025-01-01 01:00 UTC, nine o'clock in Shanghai."""
AT = '<at id="1"/>'


def profile(wakeup: str, channel: str = "group:5", more: str = "") -> str:
    """Return a profile that wakes by `wakeup`."""
    return f'model: a:b\nchannels: {{"onebot:1": ["{channel}"]}}\ntimezone: Asia/Shanghai\nwakeup: {wakeup}\n{more}\n'


def said(seconds: float, content: str = "hi", *, user: str = "42", late: float = 0, number: str = "m") -> Entry:
    """Return what somebody said so many seconds after nine, and which was written down `late` seconds after that."""
    when = NINE_MS + round(seconds * 1000)
    created = MessageCreated(when, "onebot", "1", "group:5", number, content, False, User(user, "Rin"))
    return message_entry(CustomMessage(MESSAGE_CREATED, created.to_data()), timestamp=when + round(late * 1000))


def turn(seconds: float) -> list[Entry]:
    """Return a turn of the log, in which the mind says something."""
    when = NINE_MS + round(seconds * 1000)
    message = AssistantMessage([ToolCallPart("c", "send_message", {"messages": ["yes"]})], timestamp=when)
    ends = [Entry(EVENT, {"type": f"turn.{kind}", "turnId": "t"}, when, turn_id="t") for kind in ("start", "done")]
    return [ends[0], message_entry(message, timestamp=when, turn_id="t", step=0), ends[1]]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay said."""

    status: int
    out: list[str]
    err: str

    @property
    def wakes(self) -> list[str]:
        """The lines of single wakes, without the date."""
        return [line.removeprefix("2025-01-01 ") for line in self.out if line.startswith("2025-")]

    def row(self, name: str) -> list[str]:
        """Return the cells of a row of the table."""
        return next(line.split() for line in self.out if line.split()[:1] == [name])

    @property
    def summaries(self) -> list[str]:
        """What stands below the table."""
        return [line for line in self.out if " woke it " in line]


class Project:
    """A folder with profiles and a log."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        (folder / "bot.py").touch()

    def profile(self, profile_id: str, text: str) -> None:
        """Write a profile."""
        file = self.folder / "profiles" / profile_id / "profile.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def log(self, entries: Sequence[Entry], *, more: bytes = b"") -> None:
        """Write the log."""
        lines = [line.raw for entry in entries for line in encode_entries([entry])]
        (self.folder / "events.jsonl").write_bytes(b"".join([encode_header("onebot:1", "group:5"), *lines, more]))

    def replay(
        self,
        *profile_ids: str,
        svg: str | None = None,
        seed: int = 1,
        judge: float = 0.0,
        own_turns: bool = False,
        quiet: bool = False,
    ) -> Replayed:
        """Replay it."""
        arguments = ReplayArguments(
            Path("events.jsonl"),
            profile_ids or ("neko",),
            svg=None if svg is None else Path(svg),
            seed=seed,
            judge=judge,
            own_turns=own_turns,
            quiet=quiet,
        )
        self._capsys.readouterr()
        status = run_replay(arguments, folder=self.folder, environ={})
        captured = self._capsys.readouterr()
        return Replayed(status, captured.out.splitlines(), captured.err)


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    """A project whose profile `neko` wakes when it is spoken to."""
    made = Project(tmp_path, capsys)
    made.profile("neko", profile("{engine: standard}"))
    return made


def test_each_wake_is_a_line_with_time_message_and_reason(project: Project) -> None:
    """Issue, replay: prints when it would have spoken and why; times are those of the profile's zone."""
    project.log([said(0), said(60, AT, number="918"), said(3_600, AT, user="43", number="919")])
    replayed = project.replay()
    assert replayed.status == 0
    assert replayed.wakes == [
        "09:01:00  neko  message 918 of Rin: a mention of the account",
        "10:00:00  neko  message 919 of Rin: a mention of the account",
    ]
    assert (replayed.row("09"), replayed.row("10"), replayed.row("11")) == (
        ["09", "2", "1"],
        ["10", "1", "1"],
        ["11", "0", "0"],
    )
    assert replayed.row("all") == ["all", "3", "2"]
    assert replayed.out[2] == "4 lines, 3 messages, 2025-01-01 09:00 to 2025-01-01 10:00"
    assert replayed.summaries == ["neko (standard): 2 of 3 messages woke it (66.7%), 2.0 turns a day"]


def test_two_profiles_are_compared_over_the_same_log(project: Project) -> None:
    """Issue, replay: --profile, and --profile again."""
    project.profile("shy", profile("{engine: willingness, willingness: {at_mention: 0}}", "group:6"))
    project.log([said(number * 5, AT) for number in range(3)])
    replayed = project.replay("neko", "shy", quiet=True)
    assert replayed.wakes == []
    assert replayed.row("hour") == ["hour", "messages", "neko", "shy"]
    assert replayed.row("all") == ["all", "3", "3", "0"]


def test_a_turn_takes_no_time_and_costs_what_it_costs(project: Project) -> None:
    """Our choice: a simulated turn begins and ends where the mind would have woken."""
    project.profile("neko", profile("{engine: willingness, willingness: {base: 0}}"))
    project.log([said(0, AT), said(1), said(2)])
    (first,) = project.replay(seed=5).wakes
    assert "score 100.0" in first
    project.profile("neko", profile("{engine: willingness, willingness: {base: 0, reply_cost: 0}}"))
    assert len(project.replay(seed=5).wakes) == 3


def test_the_same_seed_gives_the_same_replay_and_another_one_another(project: Project) -> None:
    """Issue, replay: a fixed seed."""
    project.profile("neko", profile("{engine: willingness}"))
    project.log([said(number * 20) for number in range(300)])
    once, again, other = project.replay(), project.replay(), project.replay(seed=2)
    assert once == again
    assert once.wakes != other.wakes


def test_with_own_turns_the_log_says_when_the_mind_spoke(project: Project) -> None:
    """Our choice: what it would have decided, given what it really did."""
    project.profile("neko", profile("{engine: willingness, willingness: {base: 0, reply_cost: 100}}"))
    project.log([said(0, AT), *turn(1), said(2, number="a"), said(3, AT, number="b"), said(4, number="c")])
    assert [line.split()[3] for line in project.replay().wakes] == ["m", "b"]
    assert [line.split()[3] for line in project.replay(own_turns=True).wakes] == ["m", "b", "c"]


def test_own_words_of_the_log_hold_the_judge_back(project: Project) -> None:
    """Our choice: jev's cooldown counts from what the log says, or from the simulated turn."""
    project.profile("neko", profile("{engine: jev, jev: {cooldown_ms: 30000}}"))
    project.log([said(0, number="a"), *turn(1), said(2, number="b"), said(40, number="c")])
    replayed = project.replay(own_turns=True, judge=0.9)
    assert [line.split()[3] for line in replayed.wakes] == ["a", "c"]
    assert "model chance=0.90 threshold=0.5 window=0" in replayed.wakes[0]
    assert replayed.summaries[0].endswith("the judge asked 2 times")
    project.log([said(0, number="a"), said(2, number="b"), said(40, number="c")])
    assert [line.split()[3] for line in project.replay(judge=0.9).wakes] == ["a", "c"]


def test_without_an_assumption_the_judge_wakes_nobody_and_needs_no_key(project: Project) -> None:
    """Issue, replay: without a model; nothing is asked over the network."""
    project.profile("neko", profile("{engine: jev}"))
    project.log([said(0), said(60), said(120, AT)])
    replayed = project.replay()
    assert [line.partition(": ")[2] for line in replayed.wakes] == ["rule: a mention of the account"]
    assert replayed.summaries[0].endswith("the judge asked 2 times")


def test_timers_keep_the_time_of_the_log(project: Project) -> None:
    """Issue, replay: a virtual clock driven by the log."""
    timers = "{cron: ['0 12 * * *'], quiet_hours: ['00:00-08:00'], base: {engine: standard}}"
    project.profile("neko", profile(f"{{engine: timers, timers: {timers}}}"))
    project.log([said(0), said(60, AT), said(2 * 86_400)])
    replayed = project.replay()
    assert replayed.wakes[:2] == [
        "09:01:00  neko  message m of Rin: a mention of the account",
        "12:00:00  neko  its own clock: cron 0 12 * * *",
    ]
    assert replayed.row("12") == ["12", "0", "2"]
    assert replayed.summaries == [
        "neko (timers): 1 of 3 messages woke it (33.3%), its clock 2 times, 1.5 turns a day",
    ]


def test_what_never_wakes_does_not_wake_in_a_replay_either(project: Project) -> None:
    """Design, one message in: stale facts and our own."""
    project.log([said(0, AT, late=301), said(400, AT, user="1"), said(500, AT, late=299)])
    assert [line.split()[0] for line in project.replay().wakes] == ["09:13:19"]


def test_a_mind_for_all_channels_hears_each_of_them(project: Project) -> None:
    """Specification, cross mode: willingness per channel."""
    project.profile("neko", profile("{engine: willingness}", more="mode: cross"))
    other = said(1, AT)
    assert isinstance(other.message, CustomMessage)
    data = {**other.message.data, "channelId": "group:6"}
    entries = [said(0, AT), message_entry(CustomMessage(MESSAGE_CREATED, data), timestamp=other.timestamp)]
    project.log(entries)
    assert ["gain 100.0" in line for line in project.replay().wakes] == [True, True]


def test_a_broken_line_is_named_and_passed_over(project: Project) -> None:
    """Our choice: the doctor is for broken lines, a replay goes on."""
    broken = b'{"type":"message","data":{"type":"ishiki.message.created"\n' * 5
    project.log([said(0, AT)], more=broken + encode_entries([said(9, AT)])[0].raw)
    replayed = project.replay()
    assert len(replayed.wakes) == 2
    assert f"{project.folder / 'events.jsonl'}:3: this line is broken" in replayed.err
    assert replayed.err.count("is broken") == 3
    assert "5 lines are broken" in replayed.err


def test_a_log_of_the_original_without_a_header_is_read(project: Project) -> None:
    """Design, events.jsonl: a headerless file is version 0."""
    file = project.folder / "events.jsonl"
    file.write_bytes(encode_entries([said(0, AT)])[0].raw)
    assert len(project.replay().wakes) == 1


def test_an_empty_log_says_so(project: Project) -> None:
    """Our choice."""
    project.log([])
    replayed = project.replay(svg="plot.svg")
    assert (replayed.status, replayed.out[0]) == (0, "1 lines, and nobody says anything in them")
    assert "nobody says anything" in (project.folder / "plot.svg").read_text(encoding="utf-8")


def test_the_plot_is_an_svg_with_a_panel_for_each_mind(project: Project) -> None:
    """Issue, replay: plots to SVG."""
    project.profile("shy&<b>", profile("{engine: willingness}", "group:6"))
    project.log([said(number * 1800, AT) for number in range(500)])
    replayed = project.replay("neko", "shy&<b>", quiet=True, svg="plot.svg")
    assert replayed.out[-1] == f"plot: {project.folder / 'plot.svg'}"
    root = ET.fromstring((project.folder / "plot.svg").read_text(encoding="utf-8"))
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if "(" in text or "messages" in text] == [
        "500 messages",
        "neko (standard)",
        "shy&<b> (willingness)",
    ]
    assert len(root.findall(".//{http://www.w3.org/2000/svg}g")) == 3
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) > 50


@pytest.mark.parametrize(
    ("profile_id", "text", "says"),
    [
        ("nobody", "", "known: neko"),
        ("broken", "model: [\n", "broken/profile.yaml"),
        ("plugged", profile("{engine: rhythm}", "group:7"), "a replay loads none"),
        ("faulty", profile("{engine: willingness, willingness: {bass: 1}}", "group:8"), "willingness.bass"),
    ],
)
def test_a_profile_that_cannot_be_had_is_an_error(project: Project, profile_id: str, text: str, says: str) -> None:
    """Design: bad input gets a clear error that names file and key."""
    if text:
        project.profile(profile_id, text)
    project.log([said(0)])
    replayed = project.replay(profile_id)
    assert replayed.status == 1
    assert says in replayed.err


def test_a_log_that_is_not_there_is_an_error(project: Project) -> None:
    """Our choice."""
    replayed = project.replay()
    assert replayed.status == 1
    assert "events.jsonl: No such file" in replayed.err


def test_the_command_line_reaches_the_replay(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our choice: the flags are those of the guide."""
    project.log([said(0, AT)])
    monkeypatch.chdir(project.folder)
    monkeypatch.delenv("ISHIKI_PROFILES_DIR", raising=False)
    assert main(["replay", "events.jsonl", "--profile", "neko", "--judge", "0.5", "--seed", "3", "--own-turns"]) == 0
    for wrong in (["replay", "events.jsonl"], ["replay", "x", "--profile", "a", "--judge", "2"]):
        with pytest.raises(SystemExit) as ended:
            main(wrong)
        assert ended.value.code == 2


def test_the_guide_names_every_flag() -> None:
    """Our choice: docs/guide/tuning.md is complete."""
    guide = (Path(__file__).resolve().parents[2] / "docs/guide/tuning.md").read_text(encoding="utf-8")
    flags = ["--profile", "--profiles", "--svg", "--seed", "--judge", "--own-turns", "--quiet"]
    assert [flag for flag in flags if f"`{flag}" not in guide] == []
