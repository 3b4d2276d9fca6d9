"""The command line: the same answers with no server, no database and no network."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvdiag.diagnosis.errors import LogTooLarge, UnreadableLog

if TYPE_CHECKING:
    from kvdiag.diagnosis.report import Report
    from kvdiag.diagnosis.rules.thresholds import Thresholds

CLEAN, FOUND, UNREADABLE = 0, 1, 2
_SENDING = {"push": "send logs to a kvdiag site", "watch": "show a launch's output and send it"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Exit status: 0 nothing worse than advice, 1 findings, 2 something cannot be read."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in _SENDING:
        from kvdiag.diagnosis.push import main as send  # the network's modules would slow every other command

        return send(given)
    options = _parser().parse_args(given)
    try:
        return int(options.run(options))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the interpreter's last flush is quiet
        return CLEAN
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kvdiag", description="Where the memory of an SGLang start went, and why.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    diagnose = commands.add_parser("diagnose", help="diagnose server logs")
    diagnose.add_argument("files", nargs="+", metavar="FILE", help="a log, perhaps compressed; '-' is standard input")
    diagnose.add_argument("--each", action="store_true", help="each file is an upload of its own")
    diagnose.add_argument("--format", choices=("text", "json", "markdown", "html"), default="text")
    _take_thresholds(diagnose)
    diagnose.set_defaults(run=_diagnose)

    what_if = commands.add_parser(
        "what-if",
        help="the launch of a log with other flags",
        description="The launch of a log with other flags: tokens, requests, free and host memory. Give --free-gib or"
        " --tokens to ask for the fraction that leaves or holds so much.",
    )
    what_if.add_argument("file", metavar="FILE")
    what_if.add_argument("--launch", type=int, default=0, metavar="N", help="which launch of the log; the last one")
    what_if.add_argument("--json", action="store_true", help="the answer as one JSON document")
    for flag, text in _CHANGES.items():
        what_if.add_argument(flag, help=text, metavar="VALUE")
    _take_thresholds(what_if)
    what_if.set_defaults(run=_what_if)

    compare = commands.add_parser("compare", help="what moved the pool from one launch to another")
    compare.add_argument("files", nargs="+", metavar="FILE", help="two logs, or one log of two launches or more")
    compare.add_argument("--json", action="store_true", help="the answer as one JSON document")
    compare.set_defaults(run=_compare)

    explain = commands.add_parser("explain", help="a rule, or where SGLang computes a quantity")
    explain.add_argument("name", metavar="RULE", help="a rule's id, or a quantity such as max_total_num_tokens")
    explain.add_argument("--release", help="for a quantity: the SGLang release, such as 0.5.9")
    explain.set_defaults(run=_explain)

    thresholds = commands.add_parser("thresholds", help="the rules' thresholds: unit, value, meaning")
    _take_thresholds(thresholds)
    thresholds.set_defaults(run=_thresholds)

    support = commands.add_parser("support", help="which releases' lines are read, from the declarations")
    support.set_defaults(run=_support)
    for name, text in _SENDING.items():  # shown in --help; main() hands them on before this parser is asked
        commands.add_parser(name, help=text)
    return parser


def _take_thresholds(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another threshold for the rules, such as free_wanted=8; sizes in GiB; may be repeated",
    )
    command.add_argument("--thresholds", metavar="FILE", help="a TOML file of thresholds; --threshold goes before it")


_CHANGES = {
    "--mem-fraction-static": "another fraction",
    "--kv-cache-dtype": "another element type: auto, fp8_e4m3, …",
    "--tp-size": "another tensor parallel size",
    "--dp-attention": "DP attention over so many groups",
    "--max-running-requests": "another request limit",
    "--context-length": "another context length",
    "--max-total-tokens": "a cap on the pool; 0 removes it",
    "--draft": "the draft model: on or off",
    "--swa-full-tokens-ratio": "another share of the sliding-window pool",
    "--mamba-full-memory-ratio": "another share of the state pool",
    "--max-mamba-cache-size": "so many state slots",
    "--cuda-graph-max-bs": "another largest batch to capture",
    "--hicache-ratio": "a host tier of so many times the pool",
    "--hicache-size-gb": "a host tier of so many GB (10^9) a rank",
    "--card": "a card of another size: H200, L40S, …",
    "--free-gib": "asked: the fraction that leaves so much free",
    "--tokens": "asked: the fraction that holds so many tokens",
    "--request-tokens": "the length of a request, to count requests at",
}


def _table_in(path: Path) -> dict[str, object]:
    """A TOML file. Raises ValueError for one that is none."""
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise ValueError(f"{path} is no TOML file: {broken}") from broken


def _thresholds_of(options: argparse.Namespace) -> Thresholds | None:
    """The thresholds of the file, then those of the command line; None after the reason went to standard error."""
    from kvdiag.diagnosis.rules.thresholds import Thresholds

    try:
        given = _table_in(Path(options.thresholds)) if options.thresholds is not None else {}
        for pair in options.threshold:
            name, equals, value = pair.partition("=")
            if not equals:
                raise ValueError(f"--threshold takes NAME=VALUE, not {pair[:40]!r}")
            given[name.strip()] = value
        return Thresholds.read(given)
    except OSError as failure:
        print(f"kvdiag: {_plain(options.thresholds)}: {failure.strerror}", file=sys.stderr)
    except ValueError as refusal:
        print(f"kvdiag: {_plain(str(refusal))}", file=sys.stderr)
    return None


def _read(names: Sequence[str], thresholds: Thresholds | None = None) -> Report:
    """The report on one upload made of these files. Raises UnreadableLog, LogTooLarge and OSError."""
    from kvdiag.diagnosis import diagnose
    from kvdiag.diagnosis.lines import Log

    with ExitStack() as stack:
        logs = [
            Log("standard input", sys.stdin.buffer)
            if name == "-"
            else Log(Path(name).name, stack.enter_context(Path(name).open("rb")))
            for name in names
        ]
        return diagnose(*logs, thresholds=thresholds, on_failure=_Failures())


class _Failures:
    """Says on standard error that a rule raised, once; with the trace where KVDIAG_DEBUG asks for it."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, rule: str) -> None:
        if rule in self._said:
            return
        self._said.add(rule)
        print(f"kvdiag: rule {rule} could not be judged; please report it", file=sys.stderr)
        if os.environ.get("KVDIAG_DEBUG", "0") not in ("", "0"):
            import traceback

            traceback.print_exc()


def _read_or_say(names: Sequence[str], thresholds: Thresholds | None = None) -> Report | None:
    """The report, or None after the reason went to standard error."""
    try:
        return _read(names, thresholds)
    except (UnreadableLog, LogTooLarge) as refusal:
        print(f"kvdiag: {_plain(str(refusal))}", file=sys.stderr)
    except OSError as failure:
        print(f"kvdiag: {_plain(str(failure.filename or names[0]))}: {failure.strerror}", file=sys.stderr)
    return None


def _diagnose(options: argparse.Namespace) -> int:
    thresholds = _thresholds_of(options)
    if thresholds is None:
        return UNREADABLE
    uploads = [[name] for name in options.files] if options.each else [options.files]
    named = options.each and len(uploads) > 1
    return max(_one_upload(names, options.format, thresholds, named=named) for names in uploads)


def _one_upload(names: Sequence[str], form: str, thresholds: Thresholds, *, named: bool = False) -> int:
    """Read, diagnose and show one upload; `named` puts its file's name above a report in text or Markdown."""
    from kvdiag.diagnosis.rules.rule import Severity
    from kvdiag.diagnosis.text import render

    if form == "html":
        try:
            from reports.offline import offline_page
        except ImportError:
            sys.stderr.write("kvdiag: --format html needs the site's pages: run bin/kvdiag of the checkout.\n")
            return UNREADABLE
    report = _read_or_say(names, thresholds)
    if report is None:
        return UNREADABLE
    if form == "html":
        sys.stdout.write(offline_page(report.document))
    else:
        colour = form == "text" and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        if named and form in ("text", "markdown") and report.is_sglang:
            sys.stdout.write(f"{_heading(names[0], form)}\n\n")
        sys.stdout.write(render(report, form, colour))
    sys.stdout.flush()
    if not report.is_sglang:
        print(f"kvdiag: {_plain(', '.join(names))}: no line of an SGLang server was found in it", file=sys.stderr)
        return UNREADABLE
    return FOUND if report.worst in (Severity.CRITICAL, Severity.WARNING) else CLEAN


def _heading(name: str, form: str) -> str:
    if form == "text":
        return _plain(name)
    from kvdiag.diagnosis.markdown import escape

    return f"## {escape(_plain(name))}"


def _what_if(options: argparse.Namespace) -> int:
    from kvdiag.diagnosis.ledger.what_if import Change, scenario
    from kvdiag.diagnosis.text import what_if_lines

    thresholds = _thresholds_of(options)
    report = None if thresholds is None else _read_or_say([options.file], thresholds)
    if report is None:
        return UNREADABLE
    launches = report.document["launches"]
    if not launches or not 0 <= options.launch <= len(launches):
        print(f"kvdiag: the log has {len(launches)} launches; --launch names one of them", file=sys.stderr)
        return UNREADABLE
    asked = {flag: getattr(options, flag[2:].replace("-", "_")) for flag in _CHANGES}
    try:
        change = Change.read({flag[2:].replace("-", "_"): value for flag, value in asked.items() if value is not None})
        launch = launches[options.launch - 1]
        change.check_length(launch["limits"]["context_len"] if launch.get("limits") else None)
    except ValueError as refusal:
        print(f"kvdiag: {_plain(str(refusal))}", file=sys.stderr)
        return UNREADABLE
    answer = scenario(launch, change).to_document()
    _print(answer, options.json, what_if_lines(answer))
    return FOUND if answer["refused"] else CLEAN


def _compare(options: argparse.Namespace) -> int:
    from kvdiag.diagnosis.compare import compare
    from kvdiag.diagnosis.text import compare_lines

    launches: list[tuple[str, dict[str, Any]]] = []
    are_distinct = len({Path(name).name for name in options.files}) == len(options.files)
    for name in options.files:
        called = Path(name).name if are_distinct else name
        report = _read_or_say([name])
        if report is None:
            return UNREADABLE
        found = report.document["launches"]
        kept = found if len(options.files) == 1 else found[-1:]
        launches += [(f"{called}, launch {launch['number']}", launch) for launch in kept]
    if len(launches) < 2:
        print("kvdiag: comparing takes two launches: two logs, or one log of two starts", file=sys.stderr)
        return UNREADABLE
    for (first, one), (second, two) in zip(launches, launches[1:], strict=False):
        answer = compare(one, two)
        _print(answer, options.json, [f"{first} → {second}", *compare_lines(answer), ""])
    return CLEAN


def _print(answer: dict[str, Any], as_json: bool, lines: Sequence[str]) -> None:
    import json

    if as_json:
        print(json.dumps(answer, ensure_ascii=False, allow_nan=False))
    else:
        print(_plain("\n".join(lines)))


def _explain(options: argparse.Namespace) -> int:
    from kvdiag.diagnosis.provenance import explain_quantity
    from kvdiag.diagnosis.rules import all_rules, rule_named

    rule = rule_named(options.name)
    if rule is not None:
        print(f"{rule.id} ({rule.severity.value})\n{rule.title}.\n")
        for name, text in rule.sections.items():
            print(name + "\n    " + text.replace("\n", "\n    ") + "\n")
        return CLEAN
    trail = explain_quantity(options.name, options.release)
    if trail is not None:
        print("\n".join(trail))
        return CLEAN
    near = [r.id for r in all_rules() if set(options.name.split("-")) & set(r.id.split("-"))]
    hint = f" Near it: {', '.join(near[:8])}." if near else " The report names the rule of each finding."
    print(f"kvdiag: no rule or quantity is called {_plain(options.name)!r}.{hint}", file=sys.stderr)
    return UNREADABLE


def _thresholds(options: argparse.Namespace) -> int:
    thresholds = _thresholds_of(options)
    if thresholds is None:
        return UNREADABLE
    for one in thresholds.each():
        value = one.told(one.value) + (f" (kvdiag's own: {one.told(one.default)})" if one.is_overridden else "")
        print(f"{one.name:<22} {value:<18} {one.meaning}")
    return CLEAN


def _support(options: argparse.Namespace) -> int:
    from kvdiag.diagnosis.support import matrix

    print(matrix())
    return CLEAN


def _plain(text: str) -> str:
    from kvdiag.diagnosis.text import printable

    return printable(text)


if __name__ == "__main__":
    sys.exit(main())
