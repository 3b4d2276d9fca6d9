"""The command line: the same answer with no server, no database and no network."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from kvdiag.diagnosis.errors import LogTooLarge, UnreadableLog

CLEAN, FOUND, UNREADABLE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 for nothing worse than advice, 1 for findings, 2 for what cannot be read."""
    parser = argparse.ArgumentParser(prog="kvdiag", description="Where the memory of an SGLang start went, and why.")
    commands = parser.add_subparsers(dest="command", required=True)
    diagnose = commands.add_parser("diagnose", help="diagnose server logs")
    diagnose.add_argument("files", nargs="+", metavar="FILE", help="a log, perhaps compressed; '-' is standard input")
    diagnose.add_argument("--each", action="store_true", help="each file is an upload of its own")
    diagnose.add_argument("--format", choices=("text", "json", "markdown", "html"), default="text")
    explain = commands.add_parser("explain", help="what a rule sees, why it matters, what to do")
    explain.add_argument("rule")
    explain.add_argument("--release", help="for which SGLang release a quantity's source is wanted")
    options = parser.parse_args(arguments)
    try:
        return _diagnose(options) if options.command == "diagnose" else _explain(options)
    except BrokenPipeError:
        sys.stderr.close()
        return CLEAN
    except KeyboardInterrupt:
        return 130


def _diagnose(options: argparse.Namespace) -> int:
    uploads = [[name] for name in options.files] if options.each else [options.files]
    return max(_one_upload(names, options.format) for names in uploads)


def _one_upload(names: Sequence[str], form: str) -> int:
    from kvdiag.diagnosis import diagnose
    from kvdiag.diagnosis.lines import Log
    from kvdiag.diagnosis.rules.rule import Severity
    from kvdiag.diagnosis.text import render

    try:
        with ExitStack() as stack:
            logs = [
                Log("standard input", sys.stdin.buffer)
                if name == "-"
                else Log(Path(name).name, stack.enter_context(open(name, "rb")))
                for name in names
            ]
            report = diagnose(*logs)
    except (UnreadableLog, LogTooLarge) as refusal:
        print(f"kvdiag: {refusal}", file=sys.stderr)
        return UNREADABLE
    except OSError as failure:
        print(f"kvdiag: {failure.filename or names[0]}: {failure.strerror}", file=sys.stderr)
        return UNREADABLE
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    sys.stdout.write(render(report, form, colour))
    sys.stdout.flush()
    if not report.is_sglang:
        print(f"kvdiag: {', '.join(names)}: no line of an SGLang server was found in it", file=sys.stderr)
        return UNREADABLE
    return FOUND if report.worst in (Severity.CRITICAL, Severity.WARNING) else CLEAN


def _explain(options: argparse.Namespace) -> int:
    from kvdiag.diagnosis.rules import all_rules, rule_named

    rule = rule_named(options.rule)
    if rule is None:
        near = ", ".join(r.id for r in all_rules() if options.rule.split("-")[0] in r.id)
        print(
            f"kvdiag: no rule is called {options.rule!r}. {'Near it: ' + near if near else ''}".strip(), file=sys.stderr
        )
        return UNREADABLE
    print(f"{rule.id} ({rule.severity.value})\n{rule.title}.\n")
    for name, text in rule.sections.items():
        print(f"{name}\n    {text}\n")
    return CLEAN


if __name__ == "__main__":
    sys.exit(main())
