"""Faults at random moments while several people work; then an independent look at what is left.

    python -m tests.chaos.run [--minutes 3] [--seed 7] [--store sqlite] [--faults kill,disk] [--report FILE]

Exit code 0 says: nothing that was acknowledged was lost, doubled or changed, history is consistent, the server came
back after every fault, the study opens and `check` is clean. With `--each`, every fault happens once, in order; with
`--short`, every kind once, several at a time.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.chaos import commands, journal
from tests.chaos.checker import check
from tests.chaos.faults import FAULTS, SHORT, Fault, named
from tests.chaos.world import World

__all__ = ["main"]


def strike(world: World, kinds: list[type[Fault]], rng: random.Random) -> float:
    """Faults together, from beginning to end; gives the seconds from mending them until everybody works again."""
    name = " + ".join(kind.name for kind in kinds)
    faults = [kind(world, rng) for kind in kinds]
    try:
        for fault in faults:
            fault.strike()
    except Exception as error:  # whatever the fault itself stumbled over: it is told, and the run goes on
        world.complain(f"{name}: {error!r}")
    mended = time.monotonic()
    for fault in faults:
        fault.mend()
    try:
        world.wait_for_progress()
    except TimeoutError as error:
        world.complain(f"{name}: after mending it, {error}")
        world.server.kill(everything=True)  # so that the others can still be tried
    return time.monotonic() - mended


def rounds(world: World, options: argparse.Namespace, rng: random.Random) -> dict[str, list[float]]:
    """Faults until the time is over; or each one once; or those of the short form."""
    done: dict[str, list[float]] = {}

    def happen(kinds: list[type[Fault]]) -> None:
        took = strike(world, kinds, rng)
        for kind in kinds:
            done.setdefault(kind.name, []).append(took)
        _say(world, kinds, took)

    kinds = named(options.faults, options.store)
    if options.short or options.each:
        groups = [[FAULTS[name] for name in group] for group in SHORT[options.store]]
        for group in groups if options.short else [[kind] for kind in kinds]:
            world.wait_for_progress()
            happen(group)
        return done
    end = time.monotonic() + options.minutes * 60
    waiting: list[type[Fault]] = []
    while time.monotonic() < end:
        time.sleep(min(rng.expovariate(1 / options.pause), max(0.0, end - time.monotonic())))
        if not waiting:  # every kind comes up equally often, in a new order each time
            waiting = rng.sample(kinds, len(kinds))
        happen([waiting.pop()])
    return done


def _say(world: World, kinds: list[type[Fault]], took: float) -> None:
    print(
        f"{' + '.join(kind.name for kind in kinds):24} {took:5.1f} s  {world.acknowledged():7} acknowledged"
        f"  {len(world.complaints)} complaints",
        file=sys.stderr,
        flush=True,
    )


def verdict(world: World) -> tuple[list[str], Counter[str]]:
    """Problems found in what is left, the product's own opinion included."""
    problems, counted = check(world.database, journal.read(world.journals), world.before)
    code = world.server.stop()
    if code != 0:
        problems.append(f"SIGTERM ended the server with exit code {code}")
    opened = commands.run(world.environment, "status", str(world.study), "--json")
    if opened.returncode != 0:
        problems.append(f"the study does not open: {opened.stderr[-300:]}")
    own = commands.run(world.environment, "check", str(world.study))
    if own.returncode != 0:
        problems.append(f"check is not clean: {(own.stdout + own.stderr)[-500:]}")
    again, _ = check(world.database, journal.read(world.journals), world.before)
    problems += [f"after a restart: {problem}" for problem in again if problem not in problems]
    return problems, counted


def report(
    world: World, options: argparse.Namespace, done: dict[str, list[float]], problems: list[str],
    counted: Counter[str], seconds: float,
) -> dict[str, Any]:  # fmt: skip
    """Everything worth knowing about a run, for JSON."""
    statuses: Counter[int] = Counter()
    for person in world.people:
        statuses += person.statuses
    log = world.server.heard()
    return {
        "store": options.store,
        "seed": options.seed,
        "seconds": round(seconds),
        "disk": world.disk.kind,
        "faults": {
            name: {"times": len(times), "slowest recovery (s)": round(max(times), 1) if times else None}
            for name, times in done.items()
        },
        "detail": dict(sorted(world.counts.items())),
        "counted": dict(sorted(counted.items())),
        "failed attempts": world.failed(),
        "statuses": {str(status): n for status, n in sorted(statuses.items())},
        "imports": world.importer.done,
        "browser": None
        if world.browser is None
        else {
            "starts": world.browser.starts,
            "pressed": world.browser.pressed,
            "acknowledged": world.browser.acknowledged,
            "interruptions": dict(world.browser.interruptions),
        },
        "network": {"replies cut": world.proxy.cuts, "requests doubled": world.proxy.doubles},
        "server starts": world.server.starts,
        "tracebacks in the server's log": log.count("Traceback (most recent call last)"),
        "number of problems": len(problems),
        "problems": problems[:50],
    }


def main(arguments: list[str] | None = None) -> int:
    """The run; exit code 1 where anything is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--faults", default="", help="beginnings of names, comma-separated; all by default")
    parser.add_argument("--each", action="store_true", help="every fault once, in order, instead of a time")
    parser.add_argument("--short", action="store_true", help="every kind of fault once, several at a time")
    parser.add_argument("--people", type=int, default=6)
    parser.add_argument("--pause", type=float, default=3.0, help="seconds between faults, on average")
    parser.add_argument("--images", type=int, default=450)
    parser.add_argument("--trainer", type=int, default=1000)
    parser.add_argument("--portion", type=int, default=6000, help="pairs put up ahead at a time; 0 for none")
    parser.add_argument("--rest", type=float, default=5.0, help="seconds between two imports")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds between two answers of a person")
    parser.add_argument("--no-browser", action="store_true")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args(arguments)
    rng = random.Random(options.seed)
    began = time.monotonic()
    # Whoever ends a run – a person, a time limit – must not leave processes and a mounted disk behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    world = World(
        options.store,
        people=options.people,
        seed=options.seed,
        browser=not options.no_browser,
        images=options.images,
        trainer=options.trainer,
        portion=options.portion,
        rest=options.rest,
        pace=options.pace,
    )
    try:
        world.start()
        done = rounds(world, options, rng)
        world.wait_for_progress()
        world.rest()
        problems, counted = verdict(world)
        refused = [f"{p.name}: {text}" for p in (*world.people, world.browser) if p for text in p.refused]
        broken = [f"{p.name} broke: {p.problem!r}" for p in world.people if p.problem]
        stuck = [f"an import failed: {text}" for text in world.importer.errors[-3:]]
        problems += [*world.complaints, *broken, *(r for r in refused if "lease" in r or "browser" in r)]
        found = report(world, options, done, problems, counted, time.monotonic() - began)
        found["failed imports"] = stuck
    finally:
        world.close()
    text = json.dumps(found, indent=1)
    print(text)
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    print(f"journals and the server's log: {world.folder}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
