r"""What is hidden in a log, as data: the browser masks with the same list before it sends one.

Each expression is flat, is written so that Python and JavaScript read it alike, and has two groups: what stays, and
what is hidden. A figure that SGLang prints is never one of them. A secret may stand on the line behind its name: such a
pattern says what the line before looks like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


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
    tail         for `after`: an expression for the line's last characters, found wherever the other is. It is cheap to
                 look for, where the other is tried at every character
    """

    kind: str
    literals: tuple[str, ...]
    expression: str
    replacement: str
    keep: str = ""
    ignore_case: bool = False
    sign: str = ""
    after: str = ""
    tail: str = ""

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
    r"|not|no|required|invalid|incorrect|expired|empty|missing|wrong|correct|needed|optional|disabled|enabled"
    r"|stored|set"
    r"|hashed|encrypted|too|changed|used|using|the|an?|deprecated|hidden|unset|provided|given|valid|present|absent"
    r"|str|string|bytes|authentication|authorization|mandatory|undefined|read|loaded|from|for|in|protected|unknown"
    r"|ignored|supported"
)
_SECRET_WORD: Final = (
    r"(?:token|password|passwd|passphrase|secret|secret_?key|access_?key(?:_?id)?|private_?key(?:_id)?|api_?key"
    r"|credentials?|authorization|cookie|connection_?string|sas_?url|session_?key|watermark_key\w{0,20}"
    r"|(?:access|auth|refresh|id|hf|hub|bearer|session|client|secret)_?(?:token|secret))"
)
_SECRET_NAME: Final = (
    r"(?:[A-Z][A-Z0-9_]{0,80}_)?(?:TOKEN|AUTHTOKEN|SECRET|(?:[A-Z0-9]{1,20})?PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|PAT|API_?KEY"
    r"|ACCESS_KEY(?:_ID)?|SECRET_KEY|PRIVATE_KEY|CREDENTIALS?|AUTH|ACCOUNT_KEY|CONNECTION_STRING|DSN|COOKIE"
    r"|WEBHOOK(?:_URL)?)(?:_?\d{1,2})?"
)
_ENV_LITERALS: Final = ("TOKEN", "SECRET", "PASSW", "PASSPHRASE", "PASS", "PWD", "_PAT", "KEY", "CREDENTIAL", "AUTH",
                        "DSN", "CONNECTION_STRING", "COOKIE", "WEBHOOK")  # fmt: skip
_SECRET_FLAG: Final = (
    r"--(?:\w[\w-]{0,40}[_-])?(?:token|password|passwd|passphrase|secret|(?:secret|access|private)[_-]key|credentials?"
    r"|auth)"
)
_KEY_FLAG: Final = r"--(?:\w[\w-]{0,40}[_-])?api[_-]?key"
_KEY_LITERALS: Final = ("api_key", "api-key", "apikey")
_SECRET_LITERALS: Final = tuple(
    word + end
    for word in ("token", "password", "passwd", "passphrase", "secret", "key", "key_id", "keyid", "credential",
                 "credentials", "authorization", "cookie", "connection_string", "connectionstring", "sas_url", "sasurl")
    for end in "\"'\\"
) + ("watermark_key",)  # fmt: skip
# Behind a line that ends with a name: the value alone, as an item of a list, with a carrier before it. A document on
# one line of a container's JSON ends with an escaped line end.
_LINE_END: Final = r"\s{0,4}\\{0,4}(?:\\n\".{0,300})?$"
_ITEM: Final = (
    r"(^(?:.{0,200}?[\s\"'\[|])?)(\"[^\"]{1,400}\"|'[^']{1,400}'|(?!--)[^\s\"',\]\\]{2,})(?=[\"',\]]{0,3}"
    + _LINE_END
    + r")"
)
_VALUE: Final = (
    r"((?:^|[\s\"'{,-])value\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?)([^\s\"'\\].{0,2000}?)"
    r"(?=\\{0,3}[\"']?,?" + _LINE_END + r")"
)
_BROKEN: Final = r"(^\s{0,8})([^\s\"']{1,200})(?=\\{0,3}[\"'])"
_HEADER_END: Final = r"\\{0,3}[\"']?(?:\s{0,3}[:=]\s{0,3}|,\s{0,3}(?=b[\"']))(?:b?\\{0,3}[\"'])?"
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
LOCAL: Final = r"localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|255\.255\.255\.\d+|::1?|host-[a-z]{1,3}|addr-\d+|none"


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
    Pattern("token", ("SecretStr(", "SecretBytes("), r"(\bSecret(?:Str|Bytes)\(b?[\"'])([^\"']{2,})",
            "[secret]", _EMPTY),
    # Users' prompts, as --log-requests prints them.
    Pattern("prompt", ("Receive: obj", "Finish: obj"), r"((?:Receive|Finish): obj=\w*)([^\w\s].{8,})",
            "[{length} characters]"),
    # And what a refused, a copied or a finished one holds of them.
    Pattern("prompt", ("messages",), r"(\bmessages\\*[\"']?\s{0,2}[:=]\s{0,2}\[)(\s{0,2}\{.{8,})",
            "{length} characters]", sign=r"messages\\*[\"']?\s{0,2}[:=]\s{0,2}\["),
    Pattern("prompt", ("'loc': ('body'",), r"('input': )([^\s\[].{8,}|\[[^\d].{8,})", "[{length} characters]"),
    Pattern("prompt", ("input_value=",), r"(\binput_value=)(.{4,400}?)(?=, input_type=)", "[{length} characters]",
            r"none|true|false|-?[\d.]+|\[\d+ characters\]"),
    Pattern("prompt", ("-d '{", '-d "{', "--data"),
            r"(\s(?:-d|--data(?:-raw|-binary|-ascii)?)[ =]{1,3})([\"']\{.{8,})", "[{length} characters]"),
    Pattern("prompt", ("ReqInput(text=[", "output_strs=[", "decoded_texts=["),
            r"((?:ReqInput\(text|output_strs|decoded_texts)=\[)([\"'].{8,})", "{length} characters]"),
    Pattern("prompt", (", out=",), r"(^.{0,80}\bin=)(.*, out=.*)", "[{length} characters]"),
    Pattern("prompt", ("request.received", "request.finished"),
            r"(\\{0,7}\"(?:obj|out|text|prompt|messages|input_ids|output_ids)\\{0,7}\": ?)(.+)",
            "\"[{length} characters]\""),
    Pattern("prompt", ("_ids=[",), r"((?:input|output)_ids=\[)(\d[\d, ]{15,})", "{length} characters"),
    Pattern("prompt", ("text='", 'text="', 'text=\\"'),
            r"(\b(?:input_text|output_text|origin_input_text|text)=)('(?:[^'\\]|\\.){16,}'?"
            r"|\"(?:[^\"\\]|\\.){16,}\"?|\\{1,7}\"[^\"]{16,}\"?)", "'[{length} characters]'"),
    # Before the names: what stands in quotes may begin with its mark, and end long before the key does.
    Pattern("private_key", ("PRIVATE KEY",), r"(-----BEGIN [A-Z ]{0,24}PRIVATE KEY(?: BLOCK)?-----)([^-]+)"
            r"", "[private_key]"),
    # Before the keys: a URL's credentials may look like one.
    Pattern("url_credentials", ("://",),
            r"(\b[A-Za-z][A-Za-z0-9+.-]{0,20}://)([^\s/:@'\"<>]{0,200}:[^\s/@'\"<>]{1,400}(?=@))",
            "[credentials]",
            r"\[credentials\]"),
    Pattern("url_credentials", ("://",), r"(\b[A-Za-z][A-Za-z0-9+.-]{0,20}://)([A-Za-z0-9_.~%+-]{1,400}(?=@))",
            "[credentials]", r"git|ssh|hg|svn|anonymous"),
    # Keys by name: quoted values, then bare ones.
    *_quoted("api_key", _KEY_LITERALS, r"(?:admin[_-])?api[_-]?key", r"(?:[\"']?\s{0,3}[:=,]\s{0,3}b?|\s{1,3})",
             "[api_key]", _EMPTY),
    Pattern("api_key", _KEY_LITERALS,
            r"((?:admin[_-])?api[_-]?key(?:\s{0,2}(?::=|[:=])\s{0,2}|\s{1,4}))([^\s\"'\\,;:=)}\]\[(]{4,})", "[api_key]",
            _EMPTY +
            r"|is|was|not|for|and|the|must|should|from|with|header|auth|authentication|provided|required", True),
    *_quoted("password", ("password", "passwd", "secret", "watermark_key"),
             r"\b(?:\w{1,60}_)?(?:password|passwd|secret|watermark_key\w{0,20})", "=", "[password]", _EMPTY),
    *_quoted("password", ("password", "passwd", "passphrase"), r"\b(?:\w{1,60}_)?(?:password|passwd|passphrase)",
             r"\s{0,2}:\s{1,3}", "[password]", _EMPTY),
    *_quoted("token", ("_key=", "_token=", "_key =", "_token ="),
             r"\b(?:access|secret|private|session|account|auth|hf|refresh)_(?:key(?:_id)?|token)", r"\s{0,2}=\s{0,2}",
             "[secret]", _EMPTY + _SPECIAL_TOKEN),
    Pattern("token", ("SecretAccessKey", "secretAccessKey"),
            r"(\b[sS]ecretAccessKey\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?)([^\s\"',\\]{4,})",
            "[aws_key]", _EMPTY),
    Pattern("token", ("watermark_key",),
            r"(\bwatermark_key\w{0,20}[\"']?\s{0,3}[:=]\s{0,3}[\[({])([^\])}\[({]{2,4000})",
            "[secret]", r"\[.*"),
    # A table of a traceback's local names, other tables, a mapping.
    Pattern("token", ("\u2502",), r"(\u2502\s{0,3}(?:\w{1,40}_)?(?:api_key|token|password|secret|secret_key|access_key)"
            r"\s{1,40}= [\"'])([^\"']{4,})", "[secret]", _EMPTY),
    Pattern("token", ("=>", "->", " | "), r"((?:^|[\s|\"'{])(?:" + _SECRET_NAME +
            r"|api_?key|password|(?:secret|access)_?key|(?:hf|auth|access)_?token)[\"']?\s{0,30}(?:=>|->|\|)\s{0,3}[\"']?)"
            r"([^\s\"'|]{6,})", "[secret]", _EMPTY,
            sign=r"(?:KEY|TOKEN|SECRET|PASSWORD|PASS|PWD|key|token|password)[\"']?\s{0,30}(?:=>|->|\|)"),
    Pattern("api_key", ("key is ", "key was "),
            r"(\bapi_key\s{1,2}(?:is|was)\s{1,2}[\"'`]?)([^\s\"'`,;]{8,})", "[api_key]", _EMPTY + _SAID, True),
    # What docker keeps of a registry's log-in.
    Pattern("token", ('"auth',), r"(\"auth\\{0,3}\"\s{0,3}:\s{0,3}\\{0,3}\")([^\s\"\\]{6,})",
            "[secret]", _EMPTY),
    Pattern("token", ("dockerconfigjson", "DOCKER_AUTH_CONFIG"),
            r"((?:\.?dockerconfigjson|DOCKER_AUTH_CONFIG)[\"']?\s{0,3}[:=]\s{0,3})([^\s]{6,})", "[secret]", _EMPTY),
    Pattern("password", ("--password-stdin",),
            r"(\becho\s{1,3}(?:-n\s{1,3})?[\"']?)([^\s\"'$][^\s\"']{2,})"
            r"(?=[\"']?\s{0,3}\|.{0,200}--password-stdin)", "[password]", _EMPTY),
    Pattern("password", ("password", "passwd", "passphrase"),
            r"(--[\w-]{0,60}(?:password|passwd|passphrase)[ =]\s{0,4}[\"']?)([^\s\"']{1,})", "[password]", _EMPTY),
    *_quoted("token", _SECRET_LITERALS, r"[\"'](?:[\w-]{0,60}[_-])?" + _SECRET_WORD, r"[\"']\s{0,3}:\s{0,3}b?",
             "[secret]", _EMPTY + _SPECIAL_TOKEN + r"|\[\w+\]"),
    *(
        Pattern("token", ("-token", "-password", "-passwd", "-passphrase", "-secret", "-key", "-credential", "--auth"),
                rf"({_SECRET_FLAG}[\"']?(?:=|,\s{{0,3}}|\s{{1,4}}){quote})((?!--)[^{quote}\\]{{1,400}})(?={quote})",
                "[secret]", _EMPTY + _SPECIAL_TOKEN)
        for quote in "'\""
    ),
    Pattern("token", ("token=",), r"((?:^|[^\w-])(?:(?:hf|hub|auth|access|api|bearer|_auth)_?)?token=[\"'])"
            r"((?=[^\s\"']*[0-9])(?=[^\s\"']*[A-Za-z])[A-Za-z0-9][\w.~+/=-]{5,})(?=[\"'])", "[secret]",
            _EMPTY + _SPECIAL_TOKEN, True),
    Pattern("token", ("_auth=", "_auth =", "_password=", "_password ="),
            r"((?:^|[\s:])_(?:auth|password)\s?=\s?[\"']?)([^\s\"']{3,})", "[secret]", _EMPTY),
    Pattern("password", ("mysql", "mariadb"),
            r"(\b(?:mysql\w{0,12}|mariadb[\w-]{0,12})\s(?:[^|;&\n]{0,200}?\s)?-p[\"']?)"
            r"([^\s\"'|;&-][^\s\"'|;&]*)", "[password]", _EMPTY),
    Pattern("password", ("redis-cli",),
            r"(\bredis-cli\s(?:[^|;&\n]{0,200}?\s)?(?:-a|--pass)[ =]\s{0,3}[\"']?)([^\s\"']+)", "[password]",
            _EMPTY),
    Pattern("token", ("password>", "passwd>", "passphrase>", "secret>", "token>", "key>"),
            r"(<(?:\w{1,40}[:_.-])?(?:password|passwd|passphrase|secret|token|(?:api|access|secret|private)[_-]?key)>"
            r"\s{0,3})([^<\s][^<]{0,400})(?=</)", "[secret]", _EMPTY + _SPECIAL_TOKEN, True),
    # A column of names and a column of values.
    Pattern("env_secret", ("\t",), r"((?:^|[\s])(?:" + _SECRET_NAME + r"|password|passwd|passphrase|api_?key"
            r"|(?:secret|access)_?key|(?:hf|auth|access)_?token)[\"']?:?\t{1,8}[\"']?)"
            r"((?=[^\s\"']*[0-9])[^\s\"']{4,})", "[secret]", _EMPTY + _SPECIAL_TOKEN,
            sign=r"(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|PAT|KEY|KEY_ID|CREDENTIALS?|AUTH|DSN|COOKIE"
            r"|password|passwd|passphrase|key|token)(?:_?[0-9]{1,2})?[\"']?:?\t"),
    # The data of a Kubernetes Secret.
    Pattern("token", ("token: ", "secret: ", "password: ", "passwd: ", "key: ", "credentials: "),
            r"(^\s{1,12}[\"']?(?:[\w.-]{0,60}[_.-])?"
            r"(?:token|secret|password|passwd|(?:api|access|secret|private)[_-]?key|credentials)[\"']?: [\"']?)"
            r"((?=\S*[0-9=])(?=\S*[A-Z])[A-Za-z0-9+/]{8,}={0,2})(?=[\"']?\s*$)", "[secret]",
            sign=r"(?:token|secret|password|passwd|key|credentials)[\"']?: [\"']?[A-Za-z0-9+/]{8}"),
    # In other languages.
    Pattern("password", ("密码", "口令", "密钥", "令牌", "passwort", "kennwort", "mot de passe", "contrase", "senha",
            "пароль", "パスワード", "비밀번호"),
            r"((?:密码|口令|密钥|令牌|passwort|kennwort|mot de passe|contraseña|senha|пароль|パスワード|비밀번호)"
            r"(?:\s{1,2}(?:is|ist|est|es)\s{1,2}|\s{0,2}(?:[:：=]|是|为|は)\s{0,3})[\"']?)"
            r"([^\s\"',;，。；、]{3,})", "[password]",
            _EMPTY + _SAID + r"|falsch|erforderlich|leer|requis|vide|incorrecta?|obligatori[ao]|[^\x00-\x7f].*", True),
    # In a command or a call, and in a sentence: no quotes tell where the name ends.
    Pattern("token", ("-token", "-secret", "-key", "-credential", "--auth"),
            r"(" + _SECRET_FLAG + r"[\"']?(?:=|,\s{0,3}|\s{1,4})[\"']?)((?!--)[^\s\"']{6,})", "[secret]",
            _EMPTY + _SPECIAL_TOKEN),
    Pattern("token", ("token=",), r"((?:^|[^\w-])(?:(?:hf|hub|auth|access|api|bearer|_auth)_?)?token=[\"']?)"
            r"([A-Za-z0-9][\w.~+/=-]{11,})", "[secret]", _EMPTY + _SPECIAL_TOKEN + r"|self\..*", True),
    Pattern("token", ("from-literal",), r"(--from-literal[= ]\s{0,3}[\"']?[\w.-]{1,80}=)([^\s\"']{1,})", "[secret]"),
    Pattern("token", ("token", "secret", "credential", "access key", "private key"),
            r"(\b(?:(?:access|secret|private|account|auth|hf|hub|hugging ?face|bearer|wandb|session|refresh|github"
            r"|my)[ _-])?"
            r"(?:token|secret|credentials?|(?:access|secret|private)[ _-]key)(?:\s{1,2}(?:is|was)\s{1,2}"
            r"|\s{0,2}(?::=|[:=])\s{1,3})"
            r"[\"'`]?)((?![\w.]{1,80}[(\[])(?=[^\s\"'`,;]*[0-9])(?=[^\s\"'`,;]*[A-Za-z])[^\s\"'`,;]{6,})", "[secret]",
            _EMPTY + _SPECIAL_TOKEN + r"|\[\w+\]" + _SAID, True,
            # Behind the name there is a figure in every batch line.
            sign=r"(?:token|secret|credential|key)s?(?:[^A-Za-z0-9]{1,8}(?:is|was)[^A-Za-z0-9]"
            r"|[^A-Za-z0-9]{0,8}[:=][^A-Za-z0-9]{1,9}[^\s\"'`,;]*[A-Za-z])"),
    Pattern("password", ("password", "passwd", "passphrase", "passcode"),
            r"(\b(?:password|passwd|passphrase|passcode)(?:\s{1,2}(?:is|was)\s{1,2}|\s{0,2}(?::=|[:=])\s{1,3})[\"'`]?)"
            r"([^\s\"'`,;]{3,})", "[password]", _EMPTY + r"|<.*|\[\w+\]" + _SAID, True),
    Pattern("password", ("password", "-p ", "pass:"),
            r"((?:\blogin\s{1,3}[^\s]{1,80}\s{1,3}password\s{1,3}|\bdocker\s{1,3}login\b.{0,200}\s-p\s{1,3}"
            r"|\bsshpass\s{1,3}-p\s{0,3}|\bpass:)[\"']?)([^\s\"']{3,})", "[password]", _EMPTY),
    Pattern("api_key", ("api key",), r"(\bapi key(?:\s{1,2}(?:is|was)\s{1,2}|\s{0,2}[:=]\s{0,3})[\"'`]?)"
            r"([^\s\"'`,;]{4,})",
            "[api_key]", _EMPTY + _SAID, True),
    Pattern("api_key", ("api key ",), r"(\bapi key\s{1,3}[\"'`]?)((?=[^\s\"'`,;]*[0-9])(?=[^\s\"'`,;]*[A-Za-z])"
            r"[^\s\"'`,;]{8,})",
            "[api_key]", _EMPTY, True),
    Pattern("password", (" -u ",), r"(\s-u\s{1,3}[\"']?)([A-Za-z_][\w.-]{0,40}:[^\s\"']{4,})", "[credentials]",
            r"\[.*"),
    *(
        Pattern("env_secret", _ENV_LITERALS,
                r"((?:^|[^A-Za-z0-9_])" + _SECRET_NAME + rf"[\"']?\]?\s{{0,3}}(?::?=|:)\s{{0,3}}{quote})"
                rf"([^{quote}\\]{{3,400}})(?={quote})", "[secret]", _EMPTY + _SPECIAL_TOKEN)
        for quote in "'\""
    ),
    *(
        Pattern("env_secret", _ENV_LITERALS,
                rf"(\s(?:-e|--env)[ =]\s{{0,3}}{quote}{_SECRET_NAME}=)([^{quote}\\]{{3,400}})(?={quote})", "[secret]",
                _EMPTY + _SPECIAL_TOKEN)
        for quote in "'\""
    ),
    Pattern("env_secret", _ENV_LITERALS,
            r"(\b(?:setdefault|set_?env|putenv|get|getenv)\(\s{0,3}[\"']" + _SECRET_NAME + r"[\"'],\s{0,3}[\"'])"
            r"([^\"'\\]{3,400})(?=[\"'])", "[secret]", _EMPTY + _SPECIAL_TOKEN),
    # A word of a shell ends with a blank only.
    Pattern("env_secret", _ENV_LITERALS,
            r"((?:^|\s)" + _SECRET_NAME + r"=)([^\s\"'\\=,;)}\]]{1,200}[,;)}\]][^\s\"'\\=]{1,200})(?=\s|$)",
            "[secret]", r"(?:none|null|true|false|\d+)[,;)}\]].*"),
    # `env -0` and /proc/<pid>/environ: nothing a reader sees stands between two variables.
    Pattern("env_secret", _ENV_LITERALS,
            r"((?:[a-z/]|\\x00|\\0)(?:HF|HUGGING_FACE_HUB|OPENAI|AWS|GITHUB|WANDB|NGC|SGLANG|API)"
            r"_[A-Z_]{0,40}(?:TOKEN|KEY|SECRET|PASSWORD)=)([^\s\"'\\]{3,})", "[secret]", _EMPTY),
    Pattern("env_secret", _ENV_LITERALS,
            r"((?:^|[^A-Za-z0-9_])" + _SECRET_NAME +
            r"\\{0,3}[\"']?\]?\s{0,3}(?::?=\s{0,3}|:\s{0,80})\\{0,3}[\"']?)"
            r"([^\s\"',;)}\]\\]{3,})", "[secret]", _EMPTY + _SPECIAL_TOKEN),
    Pattern("token", ("password=", "passwd=", "passphrase=", "pwd=", "secret="),
            r"((?:^|[^A-Za-z0-9_-])(?:[A-Za-z0-9_]{1,60}[_.])?(?:password|passwd|passphrase|pwd|secret)=[\"']?)"
            r"([^\s\"',;)}\]]{3,})", "[secret]", _EMPTY + _SPECIAL_TOKEN + r"|[/~.].*", True),  # PWD=/home is a folder
    Pattern("env_secret", _ENV_LITERALS,
            r"(\b(?:ENV|setx|set -[a-z]{1,3})\s{1,3}" + _SECRET_NAME + r"\s{1,3}[\"']?)([^\s\"'=][^\s\"']{2,})",
            "[secret]", _EMPTY + _SPECIAL_TOKEN),
    Pattern("env_secret", ("_KEY",),
            r"((?:^|[^A-Za-z0-9_])[A-Z][A-Z0-9_]{0,60}_KEY[\"']?\s{0,3}[=:]\s{0,3}[\"']?)"
            r"((?=[^\s\"',;]*[0-9])(?=[^\s\"',;]*[A-Za-z])[^\s\"',;)}\]]{8,})", "[secret]", _EMPTY + _SPECIAL_TOKEN),
    Pattern("env_secret", _ENV_LITERALS,
            r"(\b[Nn]ame\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?" + _SECRET_NAME +
            r"\\{0,3}[\"']?,\s{0,20}\\{0,3}[\"']?[Vv]alue\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?)"
            r"([^\"'\\,}\s][^\"'\\,}]*)",
            "[secret]", _EMPTY + _SPECIAL_TOKEN),
    Pattern("env_secret", _ENV_LITERALS,
            r"(\b[Vv]alue\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?)([^\"'\\,}\s][^\"'\\,}]*)"
            r"(?=\\{0,3}[\"']?,\s{0,20}\\{0,3}[\"']?[Nn]ame\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?" + _SECRET_NAME
            + r"\b)", "[secret]", _EMPTY + _SPECIAL_TOKEN),
    # The name on one line and the value on the next: lists of arguments, environments in YAML and JSON, broken lines.
    Pattern("token", (*_KEY_LITERALS, "-token", "-password", "-passwd", "-passphrase", "-secret", "-key", "-credential",
            "--auth"),
            r"(^\s{0,12}[\"']?)((?!--)[^\s\"'\\]{2,400})(?=[\"']?(?:\s|$))", "[secret]", _EMPTY, True,
            after=r"(?:^|\s)(?:" + _KEY_FLAG + "|" + _SECRET_FLAG + r")(?:=|\s{1,3})\\\s{0,2}$"),
    # An item of a list that something follows: a remark, or the line below in a text that is broken at a width.
    Pattern("token", (*_KEY_LITERALS, "-token", "-password", "-passwd", "-passphrase", "-secret", "-key", "-credential",
            "--auth"),
            r"(^(?:.{0,200}?[\s\"'|])?-\s{1,4}[\"']?)((?!--)[^\s\"'\\]{4,400})(?=[\"']?\s)", "[secret]", _EMPTY, True,
            after=r"(?:^|\s)-\s{1,4}[\"']?(?:" + _KEY_FLAG + "|" + _SECRET_FLAG + r")\\{0,3}[\"']?,?" + _LINE_END),
    Pattern("api_key", _KEY_LITERALS, _ITEM, "[api_key]", _EMPTY, True,
            after=r"(?:^|[\s\"'\[,|])" + _KEY_FLAG + r"\\{0,3}[\"']?,?" + _LINE_END),
    Pattern("token", ("-token", "-password", "-passwd", "-passphrase", "-secret", "-key", "-credential", "--auth"),
            _ITEM, "[secret]", _EMPTY, True,
            after=r"(?:^|[\s\"'\[,|])" + _SECRET_FLAG + r"\\{0,3}[\"']?,?" + _LINE_END),
    Pattern("env_secret", (*_ENV_LITERALS, "_KEY"), _VALUE, "[secret]", _EMPTY + r"|[\"']{2}", True,
            after=r"\b[Nn]ame\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?(?:" + _SECRET_NAME +
            r"|[A-Z][A-Z0-9_]{0,60}_KEY)\\{0,3}[\"']?,?" + _LINE_END,
            tail=r"[A-Z](?:_?\d{1,2})?\\{0,3}[\"']?,?\s{0,4}\\{0,4}$"),
    Pattern("env_secret", (*_ENV_LITERALS, *_KEY_LITERALS, "password", "passwd", "secret", "token"), _ITEM, "[secret]",
            _EMPTY + _SPECIAL_TOKEN, False,
            after=r"(?:^|[^A-Za-z0-9_-])"
            r"(?:" + _SECRET_NAME + r"|api_key|apiKey|password|passwd|(?:hf|access|auth|secret)"
            r"_?(?:token|key)|client_secret)[\"']?\s{0,3}[=:]\s{0,3}(?:[|>][+-]?\d?)?" + _LINE_END,
            tail=r"[=:]\s{0,3}(?:[|>][+-]?\d?)?\s{0,4}\\{0,4}$"),
    Pattern("token", (*_KEY_LITERALS, "password", "passwd", "secret", "token"), _BROKEN, "[secret]", _EMPTY, True,
            after=r"(?:^|[^A-Za-z0-9])(?:api[_-]?key|password|passwd|(?:[a-z]{1,20}[_-]?)?(?:secret|token))"
            r"\\{0,3}[\"']?\s{0,3}[:=,]\s{0,3}\\{0,3}[\"'](?:\\n\".{0,300})?$",
            tail=r"[\"']$"),
    Pattern("api_key", (), r"(^[_-]?(?:i?[_-]?key|ke?y|e?y)(?:[\"']?\s{0,2}[:=]\s{0,2}[\"']?|\s{1,3}))([^\s\"',]{4,})",
            "[api_key]", _EMPTY, True, sign=r"[^a-z]api?[_-]?(?:ke?)?(?:$|\\n\")",
            after=r"(?:^|[\s,\"'({_-])(?:ap|api|api[_-]|api[_-]ke?)" + _LINE_END),
    # Headers, as curl, a proxy or a server prints them.
    Pattern("bearer", ("authorization",),
            r"(\bauthorization" + _HEADER_END + r"(?:bearer|basic|token|digest|apikey|negotiate)\s{1,3})"
            r"([^\s\"'\\]{3,})", "[token]", _EMPTY, True),
    Pattern("bearer", ("authorization",),
            r"(\bauthorization" + _HEADER_END + r")((?!(?:bearer|basic|token|digest|apikey|negotiate)\b)[^\s\"'\\]"
            r"[^\"'\\]{3,})", "[token]", _EMPTY + r"|\[\w+\].*" + _SAID, True),
    Pattern("cookie", ("cookie",),
            r"(\b(?:set-)?cookie" + _HEADER_END + r")([^\s\"'\\=]{1,80}=[^\"'\\]{2,})", "[cookie]", _EMPTY, True),
    Pattern("token", ("x-", "private-token", "subscription-key", "job-token"),
            r"(\b(?:x-[\w-]{0,40}(?:token|key|secret|signature|credential)|private-token|job-token"
            r"|ocp-apim-subscription-key)" + _HEADER_END + r")([^\s\"'\\,&]{4,})", "[secret]", _EMPTY, True),
    Pattern("account_key", ("AccountKey", "SharedAccess", "Pwd=", "Password="),
            r"(\b(?:AccountKey|SharedAccessKey|SharedAccessSignature|Password|Pwd)=)([^;\s\"'\[][^;\s\"']{3,})"
            r"", "[secret]",
            _EMPTY),
    Pattern("aws_key", ("aws_",), r"(aws_(?:secret_access_key|session_token|access_key_id)(?:\s{0,3}[=:]\s{0,3}"
            r"|\s{1,3})[\"']?)"
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
    Pattern("wandb_key", ("wandb",), r"(wandb(?:_v1_|\b[^\n]{0,60}[\s=\"':])[\"']?)([0-9a-f]{40}|[A-Za-z0-9]{60,100})"
            r"(?![A-Za-z0-9])", "[wandb_key]", "", True),
    Pattern("azure_secret", ("Q~",), r"((?:^|[^A-Za-z0-9_~.-]))([A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})",
            "[azure_secret]"),
    Pattern("service_token", ("gsk_", "xai-", "pplx-", "r8_", "npm_", "pypi-", "dckr_pat_", "hvs.", "dapi", "sk_live_",
            "rk_live_", "sk_test_", "kvd_", "whsec_", "SG.", "dop_v1_", "lin_api_", "ntn_", "LTAI", "AKLT", "ABSK",
            "bce-v3/", "tskey-", "glsa_", "nvcr_", "shpat_", "ATATT3"),
            r"((?:^|[^A-Za-z0-9_]))((?:gsk_|xai-|pplx-|r8_|npm_|pypi-|dckr_pat_|hvs\.|dapi|[sr]k_live_|sk_test_|kvd_"
            r"|whsec_|dop_v1_"
            r"|lin_api_|ntn_|LTAI|AKLT|ABSK|bce-v3/|tskey-|glsa_|nvcr_|shpat_|ATATT3)[A-Za-z0-9_/=-]{16,}"
            r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})", "[secret]"),
    Pattern("service_token", ("discord", "api.telegram.org", "webhook"),
            r"(\b(?:discord(?:app)?\.com/api/webhooks/\d{5,30}/|api\.telegram\.org/bot"
            r"|webhook\.office\.com/webhookb2/))"
            r"([A-Za-z0-9_:@/-]{16,})", "[secret]"),
    Pattern("private_key", ("LS0tLS1CRUdJTi",), r"((?:^|[^A-Za-z0-9+/=]))(LS0tLS1CRUdJTi[A-Za-z0-9+/=]{16,})"
            r"", "[private_key]"),
    Pattern("ssh_key", ("AAAA",), r"(\b(?:ssh-[a-z0-9]{2,10}|ecdsa-sha2-[a-z0-9-]{1,20}|sk-[a-z0-9@.-]{1,40})\s{1,3})"
            r"(AAAA[A-Za-z0-9+/=]{20,}(?:[ \t]{1,3}[\w.+-]{1,64}@[\w.-]{1,80})?)", "[ssh_key]"),
    Pattern("url_secret", ("%3d",),
            r"((?:%3f|%26|%23)(?:token|sig|signature|key|api_key|apikey|access_token|password|secret|code)%3d)"
            r"([^&%\s'\"]{3,})", "[secret]", _EMPTY, True),
    Pattern("url_secret", ("?", "&"),
            r"([?&](?:token|sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|key|api_key|apikey"
            r"|access_token|password|secret|code)=)([^&\s'\"]{3,})", "[secret]", _EMPTY, True),
    # Names and addresses: the same pseudonym throughout an upload.
    Pattern("email", ("@",),
            r"((?:^|[^\w.+/:-]))([\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24})("
            r"?![\w-]|\.\w)",
            "mail-{n}", r"git@.*"),
    Pattern("user_name", ("@",),
            r"((?:^|[\s>|\[]))([A-Za-z_][\w.-]{0,40})(?=@[A-Za-z][\w.-]{0,80}[: ][^\s\]]{1,200}\]?[#$%](?:\s|$))",
            "user-{n}", _COMMON_USERS),
    Pattern("host_name", ("@",),
            r"((?:^|[\s>|\[])[A-Za-z_][\w.-]{0,40}@)([A-Za-z][\w.-]{0,80})(?=[: ][^\s\]]{1,200}\]?[#$%](?:\s|$))",
            "host-{n}", LOCAL),
    Pattern("user_name", ("home/", "Users/", "users/", "Users\\", "home%2", "sers%2"),
            r"((?:/|%2[Ff]|\b)(?:home|[Uu]sers)(?:[/\\]{1,8}|%2[Ff]))([\w.@-]{1,64})(?=[/\\'\",:;)\s\]`|>&#%}<]|$)"
            r"", "user-{n}",
            _COMMON_USERS),
    Pattern("user_name", ("~",), r"((?:^|[\s\"'`=:(,])~)([A-Za-z_][\w.-]{0,40})(?=/)", "user-{n}", _COMMON_USERS),
    Pattern("user_name", ("session", "uid=", "gid=", "groups=", "sudo "),
            r"(\b[ug]id=\d{1,10}\(|\bgroups=\d{1,10}\(|\bsudo\s{1,3}-u\s{1,3}|\b(?:for|of) user (?=[\w.-]{1,40}"
            r"(?:\(|\.?$)))"
            r"([A-Za-z_][\w.-]{0,40})", "user-{n}", _COMMON_USERS + r"|\w{1,3}"),
    Pattern("user_name", ("ssh ", "scp ", "sftp ", "rsync "),
            r"(\b(?:ssh|scp|sftp|rsync)\s(?:[^@\n]{0,120}?[\s\"'])?)([A-Za-z_][\w.-]{0,40})(?=@[\w.-]{1,120})"
            r"", "user-{n}",
            _COMMON_USERS),
    Pattern("host_name", ("ssh ", "scp ", "sftp ", "rsync "),
            r"(\b(?:ssh|scp|sftp|rsync)\s[^@\n]{0,240}@)([A-Za-z][\w.-]{0,120})(?=[:\s\"']|$)", "host-{n}", LOCAL),
    Pattern("user_name", ("rw", "r-x", "r--"),
            r"(^[dlcbsp-](?:[r-][w-][xsStT-]){3}[.+@]?\s{1,4}\d{1,6}\s{1,8})([A-Za-z_][\w.-]{0,40})"
            r"(?=\s{1,8}[\w.-]{1,40}\s{1,12}\d)",
            "user-{n}", _COMMON_USERS),
    Pattern("user_name", ("USER", "LOGNAME"),
            r"((?:^|[^A-Za-z0-9_])(?:USER|LOGNAME|USERNAME|SUDO_USER)[\"']?\s{0,2}[=:]\s{0,2}[\"']?)([A-Za-z_]["
            r"\w.-]{0,40})",
            "user-{n}", _COMMON_USERS),
    Pattern("ip_address", (".",), r"((?:^|[^\w.=/-]|[^=]=|//|[^\w]/|\bip-))(" + _OCTET + r"(?:\." + _OCTET +
            r"){3})(?![\w-]|\.\d)",
            "addr-{n}",
            LOCAL, sign=_ADDRESS_SIGN),
    Pattern("ip_address", ("::",),
            r"((?:^|[^\w:.]))((?:fe80|f[cd][0-9a-f]{2}|2[0-9a-f]{3})(?::[0-9a-f]{1,4}){0,6}"
            r"::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?)(?![\w:])", "addr-{n}", LOCAL, True),
    Pattern("ip_address", (":",), r"((?:^|[^\w:.]))((?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4})(?![\w:])",
            "addr-{n}", LOCAL, True, sign=r"(?:[0-9a-f]{1,4}:){7}"),
    Pattern("host_name", (".svc", ".local", ".internal", ".lan", ".corp", ".intra", ".compute.amazonaws.com"),
            r"((?:^|[^\w./-]|//))([a-z0-9][a-z0-9-]{0,62}(?:\.[a-z0-9-]{1,63}){0,6}\.(?:svc\.cluster\.local|svc|"
            r"local|internal|lan|corp|intranet"
            r"|intra|compute\.amazonaws\.com))(?![\w-]|\.\w)", "host-{n}", LOCAL + r"|host\.docker\.internal", True),
    Pattern("host_name", ("host", "nodename", "node_name", "init_addr", "master_addr"),
            r"((?:^|[^A-Za-z0-9_])(?:\w{0,30}_)?(?:host|hostname|node_?name|init_addr|master_addr)\\*[\"']?\s{0,2}"
            r"[=:]\s{0,2}\\*[\"'])"
            r"([A-Za-z][A-Za-z0-9.-]{0,120})(?=[:\"'\\])",
            "host-{n}", LOCAL, True),
    Pattern("host_name", ("--dist-init-addr", "--nccl-init-addr", "--host", "--master-addr", "HOSTNAME", "MASTER_ADDR",
            "NODENAME"),
            r"((?:^|\s)(?:--(?:dist-init-addr|nccl-init-addr|host|master-addr)[ =]\s{0,3}|(?:HOSTNAME|MASTER_ADD"
            r"R|NODENAME)\s{0,2}=\s{0,2}))"
            r"([A-Za-z][A-Za-z0-9.-]{0,120})(?=[:\s]|$)", "host-{n}", LOCAL),
    Pattern("host_name", ("node", "hostname"),
            r"((?:^|[\s\"'{,])(?:Node|nodeName|[Hh]ostname)[\"']?:\s{1,40}[\"']?)"
            r"((?=[A-Za-z.]*[0-9/-])[A-Za-z][A-Za-z0-9.-]{1,120})(?=[/\s\"',]|$)", "host-{n}", LOCAL, True),
    Pattern("mac_address", (":",), r"((?:^|[^\w:.-]))((?:[0-9a-f]{2}:){5}[0-9a-f]{2})(?![\w:.-])", "mac-{n}", "", True,
            sign=r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}"),
    Pattern("host_name", ("tcp://", "grpc://", "zmq://"),
            r"((?:tcp|grpc|zmq)://)([A-Za-z][A-Za-z0-9.-]{0,120})(?=[:/\s])",
            "host-{n}", LOCAL),
    # journald and syslog: a time, the machine, the process.
    Pattern("host_name", ("]: ", "kernel: ", "systemd: ", "sglang", "python"),
            r"((?:^|[\s\">]|\[\d{1,3}m)(?:[A-Z][a-z]{2} [ \d]\d (?:\d{4} )?\d\d:\d\d:\d\d(?:\.\d{1,9})?"
            r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d:.,+Z-]{0,20}"
            r"|[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? \S{1,9}"
            r"|\d{10}\.\d{6}|\[ {0,8}\d{1,9}\.\d{6}\]) )([A-Za-z][A-Za-z0-9.-]{0,120})"
            r"(?= (?:[^\s:\[]{1,64}\[\d{1,8}\]|kernel|systemd|sglang[\w@.-]{0,60}|python[\d.]{0,6}): )",
            "host-{n}", LOCAL, sign=r"\[\d{1,8}\]: |(?:kernel|systemd|sglang[\w@.-]{0,60}|python[\d.]{0,6}): "),
    Pattern("host_name", (">1 ",),
            r"((?:^|[\s\">]|\[\d{1,3}m)<\d{1,3}>1 \d{4}-\d\d-\d\dT\S{1,30} )([A-Za-z][A-Za-z0-9.-]{0,120})"
            r"(?= \S{1,48} \S{1,128} \S{1,32} )", "host-{n}", LOCAL),
)  # fmt: skip
