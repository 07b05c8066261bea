"""The benchmarks themselves: verdicts, slack, the status of a miss, generated logs, and one budget on tiny input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from bench.__main__ import BUDGETS, main
from bench.budgets.opening import OPENING
from bench.budgets.prefix import shared_share
from bench.chatter import Chatter, DiskCount
from bench.judging import Budget, Limit, Options, Result, judge, median_ratio, percentile, table
from bench.logs import BLOCK, channel, size_of, write_log
from ishiki.contracts.events import MESSAGE_CREATED, MessageCreated
from ishiki.core.entries import CHECKPOINT, COMPACT, DELIVERY
from ishiki.core.messages import CustomMessage
from ishiki.jsonvalue import JsonValue
from ishiki.plugin.intake import normalise
from ishiki.storage import EventLog, LogFiles


def budget(*results: Result, name: str = "one", has_ratio: bool = True) -> Budget:
    """Return a budget that measures nothing and always comes to `results`."""

    async def measure(options: Options) -> Sequence[Result]:
        return results

    return Budget(name, measure, has_ratio)


@pytest.mark.parametrize(
    ("value", "limit", "slack", "is_kept"),
    [
        (10.0, Limit(10), 1.0, True),
        (10.1, Limit(10), 1.0, False),
        (12.9, Limit(10), 1.3, True),
        (13.1, Limit(10), 1.3, False),
        (8.0, Limit(10, is_least=True), 1.0, False),
        (8.0, Limit(10, is_least=True), 1.3, True),
        (0.999, Limit(1, is_least=True, is_exact=True), 1.3, False),
    ],
)
def test_a_limit_is_kept_up_to_its_slack(value: float, limit: Limit, slack: float, is_kept: bool) -> None:
    """Our choice: slack widens a limit to its own side; what is counted gets none."""
    (verdict,) = judge("one", [Result("a", value, "ms", limit)], slack=slack)
    assert (verdict.is_kept, verdict.word) == (is_kept, "ok" if is_kept else "MISSED")


def test_a_value_without_a_limit_is_shown_and_not_judged() -> None:
    """Our choice."""
    (verdict,) = judge("one", [Result("a", 5, "ms")])
    assert (verdict.is_kept, verdict.word) == (True, "-")
    assert "5 ms" in table([verdict])


def test_absolute_values_are_not_judged_where_only_ratios_count() -> None:
    """Our choice: a loaded machine says nothing about milliseconds."""
    results = [Result("a", 5, "ms", Limit(1)), Result("b", 5, "x", Limit(1), "ratio")]
    assert [one.word for one in judge("one", results, only_ratios=True)] == ["-", "MISSED"]


def test_a_miss_fails_a_check_and_only_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    """Design, budgets: `--check` fails on a miss."""
    missed = [budget(Result("a", 2, "x", Limit(1), "ratio"))]
    assert main(["--check"], missed) == 1
    assert main([], missed) == 0
    assert main(["--check", "--slack", "2"], missed) == 0
    assert "MISSED" in capsys.readouterr().out


def test_names_and_ratios_choose_what_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Our choice: without names everything is measured."""
    known = [budget(Result("a", 1, "x"), name="one"), budget(Result("b", 1, "x"), name="two", has_ratio=False)]
    assert main(["two"], known) == 0
    assert "two" in (out := capsys.readouterr().out)
    assert "one" not in out
    assert main(["--ratios"], known) == 0
    assert "two" not in capsys.readouterr().out


def test_a_wrong_name_or_slack_is_refused_with_what_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    """Our choice."""
    for arguments in (["nothing"], ["--slack", "0.5"]):
        with pytest.raises(SystemExit):
            main(arguments)
    told = capsys.readouterr().err
    assert "intake" in told
    assert "1 or more" in told


def test_the_json_file_holds_every_value_and_the_machine(tmp_path: Path) -> None:
    """Design, budgets: value, budget, verdict and machine."""
    file = tmp_path / "values.json"
    assert main(["--json", str(file)], [budget(Result("a", 2, "ms", Limit(1)))]) == 0
    found: JsonValue = orjson.loads(file.read_bytes())
    assert isinstance(found, dict)
    assert "cores" in str(found["machine"])
    assert found["results"] == [
        {
            "budget": "one",
            "what": "a",
            "value": 2,
            "unit": "ms",
            "kind": "absolute",
            "limit": 1,
            "isLeast": False,
            "verdict": "MISSED",
            "note": "",
        }
    ]


def test_ratios_are_medians_of_pairs() -> None:
    """Design, budgets: ratios are taken in one run; one disturbed pair decides nothing."""
    assert median_ratio([(1, 2), (2, 4), (1, 90)]) == 2
    assert percentile([1, 2, 3, 4], 0.95) == 4
    assert percentile([7], 0.5) == 7


async def test_a_generated_log_opens_and_holds_every_kind_of_entry(tmp_path: Path) -> None:
    """Design, budgets: entries of 350 to 600 bytes of all types, turns, compactions, recalls, joined facts."""
    path = tmp_path / "events.jsonl"
    write_log(path, 3 * BLOCK + 500, group=7)
    place, files = channel(7), LogFiles(fsync="never")
    log = await EventLog.open(path, sid=place.sid, channel_id=place.channel_id, files=files)
    entries = log.window()
    kinds = {entry.type for entry in entries}
    assert {"message", "event", CHECKPOINT, COMPACT, DELIVERY} <= kinds
    assert any(entry.joins for entry in entries)
    assert len({entry.id for entry in entries}) == len(entries) == 3 * BLOCK + 500
    assert [entry.timestamp for entry in entries if not entry.joins] == sorted(
        entry.timestamp for entry in entries if not entry.joins
    )
    facts = [
        MessageCreated.from_data(entry.message.data)
        for entry in entries
        if isinstance(entry.message, CustomMessage) and entry.message.type == MESSAGE_CREATED
    ]
    assert {fact.channel for fact in facts} == {place}
    assert len({fact.message_id for fact in facts}) == len(facts)
    await log.aclose()
    await files.aclose()
    assert 350 <= size_of(BLOCK - 1) <= 600


def test_the_count_on_disk_is_of_whole_lines_written_since(tmp_path: Path) -> None:
    """Design, budgets: facts are counted on disk."""
    path = tmp_path / "events.jsonl"
    write_log(path, 20)
    disk = DiskCount([path, tmp_path / "new.jsonl"])
    line = b'{"data":{"type":"ishiki.message.created"}}\n'
    with path.open("ab") as file:
        file.write(line + line[:-5])
    (tmp_path / "new.jsonl").write_bytes(line)
    assert disk.look() == 2
    with path.open("ab") as file:
        file.write(line[-5:])
    assert disk.look() == 3


def test_everything_that_is_said_to_measure_intake_is_a_fact() -> None:
    """Our choice: a frame that intake drops would make it look cheap."""
    frames = [orjson.loads(frame) for frame in Chatter([500, 501]).frames(40)]
    facts = [normalise(frame, now_ms=1) for frame in frames]
    assert all(isinstance(fact, MessageCreated) for fact in facts)
    assert len({frame["message_id"] for frame in frames}) == 40


def test_a_changed_beginning_of_a_request_is_seen() -> None:
    """Design, budgets, prefix: every earlier message byte for byte, and the tools."""
    first: JsonValue = {"role": "user", "content": "one"}
    second: JsonValue = {"role": "user", "content": "two"}
    assert shared_share({"messages": [first]}, {"messages": [first, second]}) == 1
    assert shared_share({"messages": [first]}, {"messages": [second, first]}) < 1
    assert shared_share({"messages": [first], "tools": []}, {"messages": [first, second]}) == 0


async def test_a_budget_is_measured_on_tiny_input() -> None:
    """Our choice: openings of two small logs, through the whole runtime."""
    results = await OPENING.measure(Options(is_quick=True, scale=0.01))
    assert [one.kind for one in results] == ["absolute", "ratio", "ratio"]
    assert all(one.value > 0 for one in results)


def test_every_module_of_a_budget_is_on_the_command_line() -> None:
    """Our choice: no budget is forgotten."""
    folder = Path(__file__).resolve().parents[2] / "bench" / "budgets"
    assert {one.name for one in BUDGETS} == {path.stem for path in folder.glob("*.py") if path.stem != "__init__"}
