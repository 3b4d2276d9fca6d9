r"""What a log must not show: secrets, addresses, names of people and machines, users' prompts.

The patterns are data: the browser masks with the same list before it sends a log. Each expression is flat, is written
so that Python and JavaScript read it alike, and has two groups: what stays, and what is hidden. A figure that SGLang
prints is never one of them. A secret may stand on the line behind its name: such a pattern says what the line before
looks like.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import regex

from kvdiag.diagnosis.databases import database

TIMEOUT_S: Final = 1.0  # of one expression on one line


@dataclass(frozen=True, slots=True)
class Pattern:
    """One thing that is hidden.

    kind         under which it is counted
    literals     a text in which none of them stands is not searched; their case matters where the expression's does
    expression   group 1 stays, group 2 is hidden
    replacement  what stands for it; {n} is a letter or number that stays the same for the same value throughout an
                 upload, {length} is how many characters were hidden
    keep         values (whole, lower case) that are no secret, as an expression
    sign         for literals that stand in every line: an expression without look-around, found wherever the other is
    after        the pattern is for the line behind one in which this expression is found, and the literals are that
                 line's; "" for a pattern that needs no other line
    """

    kind: str
    literals: tuple[str, ...]
    expression: str
    replacement: str
    keep: str = ""
    ignore_case: bool = False
    sign: str = ""
    after: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The pattern for other programs, JSON-ready. The literals are in lower case, for a text in lower case."""
        return {
            "kind": self.kind,
            "literals": sorted({literal.lower() for literal in self.literals}),
            "expression": self.expression,
            "flags": "gi" if self.ignore_case else "g",
            "replacement": self.replacement,
            "keep": self.keep,
            "after": self.after,
        }


_EMPTY: Final = r"none|null|true|false|\*+|x{3,}|<[^>]*>|redacted|\.{3}|\$\{\w+\}|\$\(\w+\)"
_SPECIAL_TOKEN: Final = r"|\d+|<.*"
_SAID: Final = (  # of a secret in a sentence
    r"|not|no|required|invalid|incorrect|expired|empty|missing|wrong|correct|needed|optional|disabled|enabled|stored|set"
    r"|hashed|encrypted|too|changed|used|using|the|an?|deprecated|hidden|unset|provided|given|valid|present|absent"
    r"|authentication|authorization|mandatory|undefined|read|loaded|from|for|in|protected|unknown|ignored|supported"
)
_SECRET_WORD: Final = (
    r"(?:token|password|passwd|passphrase|secret|secret_?key|access_?key(?:_?id)?|private_?key(?:_id)?|api_?key"
    r"|credentials?|authorization|cookie|connection_?string|sas_?url|session_?key|watermark_key\w{0,20}"
    r"|(?:access|auth|refresh|id|hf|hub|bearer|session|client|secret)_?(?:token|secret))"
)
_SECRET_NAME: Final = (
    r"(?:[A-Z][A-Z0-9_]*_)?(?:TOKEN|SECRET|(?:[A-Z0-9]{1,20})?PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|PAT|API_?KEY"
    r"|ACCESS_KEY(?:_ID)?|SECRET_KEY|PRIVATE_KEY|CREDENTIALS?|AUTH|ACCOUNT_KEY|CONNECTION_STRING|DSN|COOKIE"
    r"|WEBHOOK(?:_URL)?)(?:_?\d{1,2})?"
)
_ENV_LITERALS: Final = ("TOKEN", "SECRET", "PASSW", "PASSPHRASE", "PASS", "PWD", "_PAT", "KEY", "CREDENTIAL", "AUTH",
                        "DSN", "CONNECTION_STRING", "COOKIE", "WEBHOOK")  # fmt: skip
_SECRET_FLAG: Final = (
    r"--(?:[\w-]{0,40}[_-])?(?:token|password|passwd|passphrase|secret|(?:secret|access|private)[_-]key|credentials?"
    r"|auth)"
)
_KEY_FLAG: Final = r"--(?:[\w-]{0,40}[_-])?api[_-]?key"
_KEY_LITERALS: Final = ("api_key", "api-key", "apikey")
_SECRET_LITERALS: Final = tuple(
    word + end
    for word in ("token", "password", "passwd", "passphrase", "secret", "key", "key_id", "keyid", "credential",
                 "credentials", "authorization", "cookie", "connection_string", "connectionstring", "sas_url", "sasurl")
    for end in "\"'\\"
) + ("watermark_key",)  # fmt: skip
# Behind a line that ends with a name: the value alone, as an item of a list, with a carrier before it. A document on
# one line of a container's JSON ends with an escaped line end.
_LINE_END: Final = r"\s{0,4}\\?(?:\\n\".{0,300})?$"
_ITEM: Final = (
    r"(^.{0,200}?)(\"[^\"]{1,400}\"|'[^']{1,400}'|(?:^|(?:[\s\"'\[|]))(?!--)[^\s\"',\]\\]{2,})(?=[\"',\]]{0,3}"
    + _LINE_END + r")"
)
_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
# Any address but those of this machine, which stand in every access line.
_ADDRESS_SIGN: Final = (
    r"(?:^|[^0-9.])(?:[0-9]|[02-9][0-9]|1[013-9]|12|[02-9][0-9][0-9]|1[013-9][0-9]|12[0-689])"
    r"\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}"
)
_COMMON_USERS: Final = (
    r"root|ubuntu|debian|centos|admin|user\d*|runner|jovyan|dynamo|sglang|vllm|nvidia|app|models?|data|shared?|public"
    r"|workspace|work|ec2-user|azureuser|opc|coder|vscode|nobody|nonroot|appuser|default|cache|hf|huggingface|conda"
    r"|miniconda\d?|linuxbrew|www|git|me|you|username|\$\{?user\}?|user-[a-z]{1,3}"
)
_LOCAL: Final = r"localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|255\.255\.255\.\d+|::1?|host-[a-z]{1,3}|addr-\d+|none"


def _quoted(
    kind: str, literals: tuple[str, ...], name: str, between: str, replacement: str, keep: str
) -> tuple[Pattern, ...]:
    """A value in quotes behind a name: in either quote, and in quotes that are themselves escaped in a string."""
    return tuple(
        Pattern(kind, literals, f"({name}{lead})({value})", replacement, keep, ignore_case=True)
        for quote in "'\""
        for lead, value in (
            (rf"\\*{between}\\+{quote}", rf"[^{quote}\\]+"),
            (between + quote, rf"(?:[^{quote}\\]|\\.)+"),
        )
    )


PATTERNS: Final[tuple[Pattern, ...]] = (
    # Users' prompts, as --log-requests prints them.
    Pattern("prompt", ("Receive: obj", "Finish: obj"), r"((?:Receive|Finish): obj=\w*)([^\w\s].{8,})",
            "[{length} characters]"),
    Pattern("prompt", (", out=",), r"(^.{0,80}\bin=)(.*, out=.*)", "[{length} characters]"),
    Pattern("prompt", ("request.received", "request.finished"),
            r"(\"(?:obj|out|text|prompt|messages|input_ids|output_ids)\": ?)(.+)", "\"[{length} characters]\""),
    Pattern("prompt", ("_ids=[",), r"((?:input|output)_ids=\[)(\d[\d, ]{15,})", "{length} characters"),
    Pattern("prompt", ("text='", 'text="'),
            r"(\b(?:input_text|output_text|origin_input_text|text)=)('(?:[^'\\]|\\.){16,}'?"
            r"|\"(?:[^\"\\]|\\.){16,}\"?)", "'[{length} characters]'"),
    # Before the keys: a URL's credentials may look like one.
    Pattern("url_credentials", ("://",),
            r"(\b[A-Za-z][A-Za-z0-9+.-]{0,20}://)([^\s/:@'\"<>]{0,200}:[^\s/@'\"<>]{1,400}(?=@))",
            "[credentials]",
            r"\[credentials\]"),
    Pattern("url_credentials", ("://",), r"(\b[A-Za-z][A-Za-z0-9+.-]{0,20}://)([A-Za-z0-9_-]{16,400}(?=@))",
            "[credentials]"),
    # Keys by name: quoted values, then bare ones.
    *_quoted("api_key", _KEY_LITERALS, r"(?:admin[_-])?api[_-]?key", r"(?:[\"']?\s{0,3}[:=,]\s{0,3}b?|\s{1,3})",
             "[api_key]", _EMPTY),
    Pattern("api_key", _KEY_LITERALS,
            r"((?:admin[_-])?api[_-]?key(?:\s{0,2}[:=]\s{0,2}|\s{1,4}))([^\s\"'\\,;:=)}\]\[(]{4,})", "[api_key]",
            _EMPTY +
            r"|is|was|not|for|and|the|must|should|from|with|header|auth|authentication|provided|required", True),
    *_quoted("password", ("password", "passwd", "secret", "watermark_key"),
             r"\b(?:\w{1,60}_)?(?:password|passwd|secret|watermark_key\w{0,20})", "=", "[password]", _EMPTY),
    Pattern("password", ("password",), r"(--[\w-]{0,60}password[ =]\s{0,4}[\"']?)([^\s\"']{1,})", "[password]", _EMPTY),
    *_quoted("token", _SECRET_LITERALS, r"[\"'](?:[\w-]{0,60}[_-])?" + _SECRET_WORD, r"[\"']\s{0,3}:\s{0,3}",
             "[secret]", _EMPTY + _SPECIAL_TOKEN + r"|\[\w+\]"),
    # In a command or a call, and in a sentence: no quotes tell where the name ends.
    Pattern("token", ("-token",), r"(--(?:[\w-]{0,30}-)?token[ =]\s{0,4}[\"']?)([^\s\"']{8,})", "[secret]",
            _EMPTY + _SPECIAL_TOKEN),
    Pattern("token", ("token=",), r"((?:^|[^\w-])(?:(?:hf|hub|auth|access|api|bearer)_)?token=[\"']?)"
            r"([A-Za-z0-9][\w.~+/-]{11,})", "[secret]", _EMPTY + _SPECIAL_TOKEN + r"|self\..*"),
    Pattern("api_key", ("api key",), r"(\bapi key:\s{0,3}[\"']?)([^\s\"',;]{8,})", "[api_key]",
            _EMPTY + r"|authentication|required|provided|disabled", True),
    Pattern("password", (" -u ",), r"(\s-u\s{1,3}[\"']?)([A-Za-z_][\w.-]{0,40}:[^\s\"']{4,})", "[credentials]",
            r"\[.*"),
    Pattern("env_secret", ("TOKEN", "SECRET", "PASSW", "KEY", "CREDENTIAL", "AUTH", "DSN", "CONNECTION_STRING"),
            r"((?:^|[^A-Za-z0-9_])" + _SECRET_NAME + r"[\"']?\s{0,3}[=:]\s{0,3}[\"']?)([^\s\"',;)}\]]{3,})", "[secret]",
            _EMPTY + _SPECIAL_TOKEN),
    Pattern("aws_key", ("aws_",), r"(aws_(?:secret_access_key|session_token|access_key_id)\s{0,3}[=:]\s{0,3}[\"']?)"
            r"([^\s\"',;)}\]]{8,})", "[aws_key]", _EMPTY, True),
    # Tokens by their own form.
    Pattern("bearer", ("bearer", "basic "), r"(\b(?:bearer|basic)\s{1,3}\\?[\"']?)([A-Za-z0-9._~+/=-]{12,})",
            "[token]", _EMPTY, True),
    Pattern("hf_token", ("hf_", "api_org_"), r"((?:^|[^A-Za-z0-9_]))((?:hf_|api_org_)[A-Za-z0-9]{16,})", "[hf_token]"),
    Pattern("openai_key", ("sk-",), r"((?:^|[^A-Za-z0-9_-]))(sk-(?:proj-|ant-|svcacct-|or-v1-)?[A-Za-z0-9_-]{16,})",
            "[api_key]"),
    Pattern("aws_key", ("AKIA", "ASIA", "ABIA", "ACCA"),
            r"((?:^|[^A-Za-z0-9_]))((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})(?![A-Za-z0-9])",
            "[aws_key]"),
    Pattern("gcp_key", ("AIza", "ya29.", "GOOG"),
            r"((?:^|[^A-Za-z0-9_]))(AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{10,}|GOOG1?[A-Z0-9]{20,})",
            "[gcp_key]"),
    Pattern("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
            r"((?:^|[^A-Za-z0-9_]))(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
            "[github_token]"),
    Pattern("gitlab_token", ("glpat-", "gldt-"), r"((?:^|[^A-Za-z0-9_]))(gl(?:pat|dt)-[A-Za-z0-9_-]{16,})",
            "[gitlab_token]"),
    Pattern("slack_token", ("xox", "hooks.slack.com"), r"((?:^|[^A-Za-z0-9_])|hooks\.slack\.com/services/)"
            r"(xox[abeprs]-[A-Za-z0-9-]{10,}|T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{16,})", "[slack_token]"),
    Pattern("nvidia_key", ("nvapi-",), r"((?:^|[^A-Za-z0-9_]))(nvapi-[A-Za-z0-9_-]{20,})", "[api_key]"),
    Pattern("jwt", ("eyJ",), r"((?:^|[^A-Za-z0-9_]))(eyJ[A-Za-z0-9_-]{8,1500}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",
            "[token]"),
    Pattern("private_key", ("PRIVATE KEY",), r"(-----BEGIN [A-Z ]{0,24}PRIVATE KEY-----)([^-]+)", "[private_key]"),
    Pattern("url_secret", ("?", "&"),
            r"([?&](?:token|sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|key|api_key|apikey"
            r"|access_token|password|secret|code)=)([^&\s'\"]{3,})", "[secret]", _EMPTY, True),
    # Names and addresses: the same pseudonym throughout an upload.
    Pattern("email", ("@",),
            r"((?:^|[^\w.+/:-]))([\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24})("
            r"?![\w-]|\.\w)",
            "mail-{n}", r"git@.*"),
    Pattern("user_name", ("@",),
            r"(^\s{0,8}(?:\([\w.-]{1,60}\)\s{0,3})?\[?)([A-Za-z_][\w.-]{0,40})(?=@[A-Za-z][\w.-]{0,80}[: ][^\s\]"
            r"]{1,200}\]?[#$%])",
            "user-{n}", _COMMON_USERS),
    Pattern("host_name", ("@",),
            r"(^\s{0,8}(?:\([\w.-]{1,60}\)\s{0,3})?\[?[A-Za-z_][\w.-]{0,40}@)([A-Za-z][\w.-]{0,80})(?=[: ][^\s\]"
            r"]{1,200}\]?[#$%])",
            "host-{n}", _LOCAL),
    Pattern("user_name", ("home/", "Users/", "Users\\"),
            r"((?:/|\b)(?:home|Users)[/\\]{1,2})([\w.@-]{1,64})(?=[/\\'\",:)\s\]]|$)",
            "user-{n}",
            _COMMON_USERS),
    Pattern("user_name", ("USER", "LOGNAME"),
            r"((?:^|[^A-Za-z0-9_])(?:USER|LOGNAME|USERNAME|SUDO_USER)[\"']?\s{0,2}[=:]\s{0,2}[\"']?)([A-Za-z_]["
            r"\w.-]{0,40})",
            "user-{n}", _COMMON_USERS),
    Pattern("ip_address", (".",), r"((?:^|[^\w.=/-]|[^=]=|//|[^\w]/|\bip-))(" + _OCTET + r"(?:\." + _OCTET +
            r"){3})(?![\w-]|\.\d)",
            "addr-{n}",
            _LOCAL, sign=_ADDRESS_SIGN),
    Pattern("ip_address", ("::",),
            r"((?:^|[^\w:.]))((?:fe80|f[cd][0-9a-f]{2}|2[0-9a-f]{3})(?::[0-9a-f]{1,4}){0,6}"
            r"::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?)(?![\w:])", "addr-{n}", _LOCAL, True),
    Pattern("ip_address", (":",), r"((?:^|[^\w:.]))((?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4})(?![\w:])",
            "addr-{n}", _LOCAL, True, sign=r"(?:[0-9a-f]{1,4}:){7}"),
    Pattern("host_name", (".svc", ".local", ".internal", ".lan", ".corp", ".intra", ".compute.amazonaws.com"),
            r"((?:^|[^\w./-]|//))([a-z0-9][a-z0-9-]{0,62}(?:\.[a-z0-9-]{1,63}){0,6}\.(?:svc\.cluster\.local|svc|"
            r"local|internal|lan|corp|intranet"
            r"|intra|compute\.amazonaws\.com))(?![\w-]|\.\w)", "host-{n}", _LOCAL + r"|host\.docker\.internal", True),
    Pattern("host_name", ("host", "nodename", "init_addr", "master_addr"),
            r"((?:^|[^A-Za-z0-9_])(?:\w{0,30}_)?(?:host|hostname|nodename|init_addr|master_addr)\\*[\"']?\s{0,2}"
            r"[=:]\s{0,2}\\*[\"'])"
            r"([A-Za-z][A-Za-z0-9.-]{0,120})(?=[:\"'\\])",
            "host-{n}", _LOCAL, True),
    Pattern("host_name", ("--dist-init-addr", "--nccl-init-addr", "--host", "--master-addr", "HOSTNAME", "MASTER_ADDR",
            "NODENAME"),
            r"((?:^|\s)(?:--(?:dist-init-addr|nccl-init-addr|host|master-addr)[ =]\s{0,3}|(?:HOSTNAME|MASTER_ADD"
            r"R|NODENAME)\s{0,2}=\s{0,2}))"
            r"([A-Za-z][A-Za-z0-9.-]{0,120})(?=[:\s]|$)", "host-{n}", _LOCAL),
    Pattern("host_name", ("tcp://", "grpc://", "zmq://"),
            r"((?:tcp|grpc|zmq)://)([A-Za-z][A-Za-z0-9.-]{0,120})(?=[:/\s])",
            "host-{n}", _LOCAL),
    # journald and syslog: a time, the machine, the process.
    Pattern("host_name", ("]: ",),
            r"((?:^|\n)(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
            r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d:.,+Z-]{0,20}) )"
            r"([A-Za-z][A-Za-z0-9.-]{0,120})(?= [^\s:]{1,64}\[\d{1,8}\]: )",
            "host-{n}", _LOCAL, sign=r"\[\d{1,8}\]: "),
)  # fmt: skip

_BEGIN_KEY: Final = re.compile(r"-----BEGIN [A-Z ]{0,24}PRIVATE KEY-----")
_END_KEY: Final = "-----END "
_LEFT_OUT: Final = "[line left out: it takes too long to mask]"
_PATIENCE: Final = 8  # lines that were given up
_LONG: Final = 4 << 10  # characters; beyond them expressions run with a timeout
_MASKED: Final = re.compile(r"[\"']?\[(?:\d+ characters|[a-z_]{3,20})\]?")


class Masker:
    """Hides what the patterns find, with pseudonyms that stay the same throughout one upload, and counts it.

    extra  patterns of a team's own; they are searched with a timeout
    """

    def __init__(self, extra: Sequence[Pattern] = ()) -> None:
        self.counts: dict[str, int] = {}
        self._names: dict[str, dict[str, str]] = {}
        self.triggers = Triggers()
        self._rules = [_Rule(pattern) for pattern in PATTERNS]
        self._extra = [(pattern, regex.compile(pattern.expression, _flags(pattern))) for pattern in extra]
        self.in_key = False  # between the lines of a private key, see mask_in_order

    def mask(self, text: str) -> str:
        """The text without what must not be shown."""
        rules = [self._rules[number] for number in self.triggers.numbers(text)]
        if not rules:
            return self._mask_extra(text) if self._extra else text
        if len(text) > _LONG:
            return self._mask_long(text, rules)
        for rule in rules:
            text = rule.search.sub(self._replacer(rule.pattern, rule.keep), text)
        return self._mask_extra(text)

    def _mask_long(self, text: str, rules: list[_Rule]) -> str:
        """The same for a long text, where an expression may take too much time: it is given up then.

        A log with many such lines was made to take time; from then on they are left out at once.
        """
        if self.counts.get("hostile_line", 0) >= _PATIENCE:
            self._count("hostile_line")
            return _LEFT_OUT
        try:
            for rule in rules:
                text = rule.search_timed.sub(self._replacer(rule.pattern, rule.keep), text, timeout=TIMEOUT_S)
        except TimeoutError:
            self._count("hostile_line")
            return _LEFT_OUT
        return self._mask_extra(text)

    def _mask_extra(self, text: str) -> str:
        for pattern, expression in self._extra:
            try:
                text = expression.sub(self._replacer(pattern, None), text, timeout=TIMEOUT_S)
            except TimeoutError:
                return _LEFT_OUT
        return text

    def mask_in_order(self, text: str) -> str:
        """The same for the lines of a text one after another: private keys that span lines are hidden whole."""
        if self.in_key:
            if _END_KEY in text:
                self.in_key = False
                return text[text.index(_END_KEY) :]
            return "[private_key]" if text.strip() else text
        if "PRIVATE KEY" in text and (found := _BEGIN_KEY.search(text)) and _END_KEY not in text[found.end() :]:
            self.in_key = True
            self._count("private_key")
            return self.mask(text[: found.end()])
        return self.mask(text)

    def mask_block(self, lines: Sequence[str]) -> list[str]:
        """The same for a few lines in a row, whatever stood before them."""
        outer, self.in_key = self.in_key, False
        masked = [self.mask_in_order(line) for line in lines]
        self.in_key = outer
        return masked

    def host(self, name: str) -> str:
        """The pseudonym of a machine's name that stands where only such a name stands."""
        if re.fullmatch(_LOCAL, name.lower()):
            return name
        self._count("host_name")
        return self._pseudonym("host-{n}", name)

    def _replacer(self, pattern: Pattern, keep: re.Pattern[str] | None) -> Callable[[Any], str]:
        def replace(found: Any) -> str:
            hidden = found[2] if found.re.groups > 1 else found[0]
            kept = found[1] if found.re.groups > 1 else ""
            if _MASKED.match(hidden) or (keep is not None and keep.fullmatch(hidden.lower())):
                return str(found[0])
            self._count(pattern.kind)
            if "{n}" in pattern.replacement:
                return kept + self._pseudonym(pattern.replacement, hidden)
            return kept + pattern.replacement.replace("{length}", str(len(hidden)))

        return replace

    def _count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def _pseudonym(self, form: str, value: str) -> str:
        names = self._names.setdefault(form, {})
        if value not in names:
            number = len(names)
            letters = chr(97 + number % 26) if number < 26 else chr(96 + number // 26 % 26) + chr(97 + number % 26)
            names[value] = form.replace("{n}", str(number + 1) if form.startswith(("addr", "mail")) else letters)
        return names[value]


class _Rule:
    """A pattern of ours, compiled when a text first needs it."""

    __slots__ = ("_compiled", "_timed", "keep", "pattern")

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self._compiled: re.Pattern[str] | None = None
        self._timed: regex.Pattern[str] | None = None
        self.keep = re.compile(pattern.keep) if pattern.keep else None

    @property
    def search(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self.pattern.expression, re.IGNORECASE if self.pattern.ignore_case else 0)
        return self._compiled

    @property
    def search_timed(self) -> regex.Pattern[str]:
        """The same expression for a search that can be given up."""
        if self._timed is None:
            self._timed = regex.compile(self.pattern.expression, _flags(self.pattern))
        return self._timed


def _flags(pattern: Pattern) -> int:
    return int(regex.IGNORECASE) if pattern.ignore_case else 0


class Triggers:
    """Which patterns a text calls for, by their literals: nearly every line of a log calls for none."""

    def __init__(self) -> None:
        self._found: set[int] = set()
        self._ends: list[int] = []
        self._database = _signs_of_all()

    def numbers(self, text: str) -> list[int]:
        """The patterns to try, by their places in PATTERNS."""
        if self._database is None:
            return [n for n, pattern in enumerate(PATTERNS) if _calls(pattern, text)]
        found = self._found
        found.clear()
        self._database.scan(text.encode("utf-8", "replace"), match_event_handler=self._note)
        return sorted(found) if found else []

    def ends(self, block: bytes) -> list[int] | None:
        """Where signs of any pattern end in a block, ascending; None where they cannot be looked for at once."""
        if self._database is None:
            return None
        self._ends = []
        self._database.scan(block, match_event_handler=self._note_end)
        return sorted(set(self._ends))

    def _note(self, number: int, start: int, end: int, flags: int, context: Any) -> None:
        self._found.add(number)

    def _note_end(self, number: int, start: int, end: int, flags: int, context: Any) -> None:
        self._ends.append(end)


class _Compiled(threading.local):
    """The signs of all patterns compiled into one scan, once a thread: a scan uses scratch memory of its own."""

    database: Any = None


_COMPILED: Final = _Compiled()


def _signs_of_all() -> Any:
    """The scan for all signs; None where no Vectorscan is installed."""
    if _COMPILED.database is None:
        try:
            import hyperscan
        except ImportError:
            return None
        signs = [(n, sign, p.ignore_case) for n, p in enumerate(PATTERNS) for sign in _signs(p)]
        caseless = int(hyperscan.HS_FLAG_CASELESS)
        _COMPILED.database = database(
            [sign.encode() for _, sign, _ in signs],
            [n for n, _, _ in signs],
            [int(hyperscan.HS_FLAG_MULTILINE) | (caseless if ignore else 0) for _, _, ignore in signs],
        )
    return _COMPILED.database


def _signs(pattern: Pattern) -> tuple[str, ...]:
    return (pattern.sign,) if pattern.sign else tuple(re.escape(literal) for literal in pattern.literals)


def _calls(pattern: Pattern, text: str) -> bool:
    if pattern.sign:
        return re.search(pattern.sign, text, re.IGNORECASE | re.MULTILINE) is not None
    if pattern.ignore_case:
        lower = text.lower()
        return any(literal.lower() in lower for literal in pattern.literals)
    return any(literal in text for literal in pattern.literals)
