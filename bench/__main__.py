"""`python -m bench`: measures budgets, prints values and verdicts, and with `--check` fails on a miss."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import orjson

from bench.budgets.endurance import ENDURANCE
from bench.budgets.eviction import EVICTION
from bench.budgets.idle import IDLE
from bench.budgets.intake import INTAKE
from bench.budgets.memory import MEMORY
from bench.budgets.opening import OPENING
from bench.budgets.prefix import PREFIX
from bench.budgets.resident import RESIDENT
from bench.budgets.start import START
from bench.budgets.turn import TURN
from bench.judging import Budget, Options, Verdict, judge, table, to_json
from bench.kernel import machine

__all__ = ["BUDGETS", "main"]

BUDGETS = (START, INTAKE, TURN, OPENING, PREFIX, MEMORY, IDLE, RESIDENT, EVICTION, ENDURANCE)


def main(arguments: Sequence[str] | None = None, budgets: Sequence[Budget] = BUDGETS) -> int:
    """Run as a program; return 1 where `--check` is given and a budget is missed."""
    parser = _parser(budgets)
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - {one.name for one in budgets}:
        parser.error(
            f"no budget is called {', '.join(sorted(unknown))}; there are {', '.join(b.name for b in budgets)}"
        )
    chosen = [one for one in budgets if one.name in given.names or not given.names]
    if given.ratios:
        chosen = [one for one in chosen if one.has_ratio]
    host, verdicts = machine(), list[Verdict]()
    for one in chosen:
        began = time.monotonic()
        results = anyio.run(one.measure, Options(is_quick=given.quick))
        verdicts += judge(one.name, results, slack=given.slack, only_ratios=given.ratios)
        print(f"{one.name}: measured in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(table(verdicts))
    print(f"\nmachine: {host}" + (f"; limits widened by {given.slack:g}" if given.slack != 1 else ""))
    if given.json is not None:
        given.json.write_bytes(orjson.dumps(to_json(verdicts, machine=host, slack=given.slack)) + b"\n")
    missed = [one for one in verdicts if not one.is_kept]
    if missed and given.check:
        print(f"{len(missed)} of {len(verdicts)} values miss their budget", file=sys.stderr)
        return 1
    return 0


def _parser(budgets: Sequence[Budget]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what Ishiki costs.")
    names = [one.name for one in budgets]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all, or: {' '.join(names)}")
    parser.add_argument("--check", action="store_true", help="end with status 1 when a budget is missed")
    parser.add_argument("--quick", action="store_true", help="smaller inputs, fewer repetitions")
    parser.add_argument("--ratios", action="store_true", help="judge ratios only, which hold on any machine")
    parser.add_argument("--slack", type=_slack, default=1.0, metavar="FACTOR", help="widen limits by this (1 or more)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the values there too")
    return parser


def _slack(text: str) -> float:
    value = float(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} would make limits narrower; give 1 or more")
    return value


if __name__ == "__main__":
    sys.exit(main())
