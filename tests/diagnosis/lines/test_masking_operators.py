"""What operators paste around a log: commands, manifests, environments, headers. No secret in them comes out."""

import gzip
import io
import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.events import Matcher
from kvdiag.diagnosis.lines import LineReader, Log
from kvdiag.diagnosis.masked_copy import masked_copy
from kvdiag.diagnosis.masking import PATTERNS, Masker
from kvdiag.diagnosis.text import render

S = "Zq8vWkR2mTn5xL"  # the secret, where a form does not ask for another
HEX = "0123456789abcdef0123456789abcdef01234567"

# A text, and what must not be seen of it.
PASTED = {
    "yaml environment": (f"  env:\n  - name: HF_TOKEN\n    value: {S}\n  - name: TP\n    value: '8'", S),
    "yaml environment, quoted": (f'  - name: "WANDB_API_KEY"\n    value: "{S}"', S),
    "yaml environment, with blanks": (f"  - name: DB_PASSWORD\n    value: 'se kret {S}'", S),
    "yaml environment, in a flow": (f"  env: [{{name: HF_TOKEN, value: {S}}}, {{name: TP, value: 8}}]", S),
    "json environment": (f'{{\n  "name": "HF_TOKEN",\n  "value": "{S}"\n}}', S),
    "json environment on one line": (f'"environment": [{{"name": "HF_TOKEN", "value": "{S}"}}]', S),
    "json environment, value first": (f'"environment": [{{"value": "{S}", "name": "HF_TOKEN"}}]', S),
    "yaml arguments": (f"args:\n- --api-key\n- {S}\n- --tp\n- '8'", S),
    "yaml arguments, quoted": (f"  - '--admin-api-key'\n  - 'se kret {S}'\n  - --tp", S),
    "yaml arguments, a token": (f"- --hf-token\n- {S}", S),
    "json arguments": (f'"args": [\n    "--api-key",\n    "{S}",\n    "--tp", "8"\n]', S),
    "json arguments on one line": (f'["--model-path", "x", "--api-key", "{S}", "--tp", "8"]', S),
    "json arguments, a token": (f'["--hf-token", "{S}"]', S),
    "arguments over lines of a shell": (f"python -m sglang.launch_server \\\n  --api-key \\\n  {S} \\\n  --tp 8", S),
    "a block scalar": (f"HF_TOKEN: |-\n  {S}", S),
    "a mapping's next line": (f"  api_key:\n    {S}", S),
    "a value behind its quote": (f"server_args=ServerArgs(model_path='/m', api_key='\n{S}', tp_size=8)", S),
    "a name broken in two": (f"server_args=ServerArgs(model_path='/m', api_k\ney='{S}', tp_size=8)", S),
    "a value broken in quotes": (
        f"server_args=ServerArgs(model_path='/m', api_key='{S[:6]}\n{S[6:]}', tp_size=8)",
        S[6:]),
    "a Kubernetes secret": (f"data:\n  token: {S}==\n  password: cGFzc3dvcmQ=", S),
    "a described pod": (f"    Environment:\n      HF_TOKEN:  {S}\n      OTHER_PASSWORD:   hunter", S),
    "a created secret": (f"kubectl create secret generic hf --from-literal=token={S}", S),
    "helm": (f"helm install x --set hfToken={S} --set auth.apiKey={S}", S),
    "docker run -e": (f'docker run -e HF_TOKEN={S} -e "GITHUB_PAT={S}" --env DB_PASS={S} image', S),
    "docker login": (f"docker login -u zoe -p {S} registry.example.com", S),
    "docker inspect": (f'  "Env": [\n    "HF_TOKEN={S}",\n    "PATH=/bin"\n  ]', S),
    "a Dockerfile": (f"ENV HF_TOKEN {S}", S),
    "export": (f"export MY_API_KEY2={S}", S),
    "fish": (f"set -x HF_TOKEN {S}", S),
    "PowerShell": (f'$env:HF_TOKEN = "{S}"', S),
    "setx": (f"setx HF_TOKEN {S}", S),
    "an environment in Python": (f"environ({{'HF_TOKEN': '{S}', 'HOME': '/root'}})", S),
    "a key of another name": (f"export ENCRYPTION_KEY={S}", S),
    "PGPASSWORD": (f"PGPASSWORD={S} psql", S),
    "curl -H bearer": (f"curl -H 'Authorization: Bearer {S}' http://localhost:30000", S),
    "curl -H short bearer": ("curl -H 'Authorization: Bearer abc1' http://localhost:30000", "abc1"),
    "curl -H without a scheme": (f'curl -H "Authorization: {S}" http://localhost', S),
    "curl -H x-api-key": (f"curl -H 'X-API-Key: {S}' -H 'x-auth-token: {S}' http://localhost", S),
    "signed request": (f"Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/2026/us, Signature={S}", S),
    "raw headers": (f"(b'x-goog-api-key', b'{S}'), (b'authorization', b'{S}')", S),
    "a cookie": (f"Cookie: session={S}; other=1", S),
    "raw cookie": (f"headers=[(b'cookie', b'sid={S}')]", S),
    "set-cookie": (f"< set-cookie: sid={S}; HttpOnly", S),
    "basic": (f"authorization: basic {S}", S),
    "git with a token": (f"git clone https://oauth2:{S}@gitlab.example.com/x.git", S),
    "git with a short token": ("git clone https://abc123@github.com/x.git", "abc123"),
    "pip index": (f"pip install --index-url https://zoe:{S}@packages.example.com/simple x", S),
    "npmrc": (f"//npm.example.com/:_authToken={S}", S),
    "netrc": (f"machine huggingface.co login zoe password {S}", S),
    "sshpass": (f"sshpass -p '{S}' ssh x", S),
    "openssl": (f"openssl rsa -in k.pem -passin pass:{S}", S),
    "api key is": (f"the api key is {S}", S),
    "API key without is": (f"using API key {S} for the hub", S),
    "password with a colon": ("password: hunter-two", "hunter-two"),
    "password of a connection": (f"user=zoe password={S} host=db", S),
    "password of a chart": (f"helm upgrade x --set auth.password={S}", S),
    "client secret": (f"client_secret={S}", S),
    "environment in columns": (f"      HF_TOKEN:                 {S}", S),
    "environment set by Python": (f"os.environ['HF_TOKEN'] = '{S}'", S),
    "a key of this site": (f"upload with kvd_{S}{S} please", f"{S}{S}"),
    "password is": ("the password is swordfish", "swordfish"),
    "token with an equal sign": (f"token = {S}", S),
    "my token is": (f"my hf token is {S}, please help", S),
    "secret key": (f"secret key: {S}", S),
    "aws configure": (f"aws configure set aws_secret_access_key {S}", S),
    "azure storage": (f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={S}==;EndpointSuffix=y", S),
    "azure secret": ("client abc8Q~aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456 in use", "abc8Q~aBcDeFg"),
    "gcp account": (f'{{"private_key_id": "{S}", "client_email": "x@y.iam.gserviceaccount.com"}}', S),
    "gcp access": ("ya29.a0AfH6SMBabcdefghijk", "a0AfH6SMBabcdefghijk"),
    "sk-ant": ("sk-ant-api03-Zq8vWkR2mTn5xLbCdEf", "Zq8vWkR2mTn5xLbCdEf"),
    "groq": ("gsk_Zq8vWkR2mTn5xLbCdEfGhIj", "Zq8vWkR2mTn5xLbCdEfGhIj"),
    "wandb login": (f"wandb login {HEX}", HEX),
    "wandb in Python": (f"wandb.login(key='{HEX}')", HEX),
    "discord": (f"https://discord.com/api/webhooks/123456789012/{S}{S}", S),
    "slack": (
        "SLACK_WEBHOOK_URL=https://hooks.slack.com/services/T0AAAAAAA/B0AAAAAAA/abcdefghijklmnopqrstuvwx",
        "abcdefghijkl"),
    "sentry": (f"SENTRY_DSN=https://{HEX[:32]}@o1.ingest.sentry.io/1", HEX[:32]),
    "refresh token": (f'{{"accessToken": "{S}", "refresh_token": "{S}"}}', S),
    "a key in base64": ("client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVk", "BRUdJTiBSU0EgUFJJVkFURSBLRVk"),
    "a public key": (f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{S}{S} zoe@laptop", S),
    "an armoured key": (
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{S}{S}{S}\n=AbCd\n-----END PGP PRIVATE KEY BLOCK-----",
        S),
    "a key in a config map": (
        f"    -----BEGIN RSA PRIVATE KEY-----\n    {S * 4}\n    AbQ{S}==\n    -----END RSA PRIVATE KEY-----",
        S),
    "home of another": ("ls ~zoe.q/models", "zoe.q"),
    "users, small": ("model at /users/zoe.q/models/x", "zoe.q"),
    "Users": ("/Users/zoe.q/x.py:1", "zoe.q"),
    "Windows": (r"C:\Users\zoe.q\x.py", "zoe.q"),
    "Windows in JSON in JSON": (r"C:\\\\Users\\\\zoe.q\\\\x.py", "zoe.q"),
    "home in an address": ("file%3A%2F%2F%2Fhome%2Fzoe.q%2Fx", "zoe.q"),
    "home at the end": ("cd /home/zoe.q; ls", "zoe.q"),
    "id": ("uid=1000(zoe.q) gid=1000(zoe.q) groups=1000(zoe.q),27(sudo)", "zoe.q"),
    "ssh": ("ssh -p 2222 zoe.q@gpu-node-17 nvidia-smi", "zoe.q"),
    "ssh to a host": ("ssh zoe.q@gpu-node-17 nvidia-smi", "gpu-node-17"),
    "systemd session": ("systemd-logind[801]: New session 4 of user zoe.q.", "zoe.q"),
    "ls -l": ("-rw-r--r-- 1 zoe.q ml 4096 Mar  2 09:14 config.json", "zoe.q"),
    "prompt behind a stamp": (
        "2026-03-02T09:14:02Z zoe.q@gpu-node-17:~/w$ python -m sglang.launch_server",
        "gpu-node-17"),
    "node of a pod": ("Node:             gpu-node-17/10.20.30.40", "gpu-node-17"),
    "node name": ("  nodeName: gpu-node-17", "gpu-node-17"),
    "journald": ("Mar 02 09:14:02 gpu-node-17 sglang[1834]: x", "gpu-node-17"),
    "journald without a process": ("Mar 02 09:14:02 gpu-node-17 kernel: x", "gpu-node-17"),
    "journald, whole": ("Mon 2026-03-02 09:14:02 UTC gpu-node-17 sglang[1834]: x", "gpu-node-17"),
    "journald, precise": ("2026-03-02T09:14:02.123456+0000 gpu-node-17 python3[7]: x", "gpu-node-17"),
    "journald, by the second": ("1772442842.123456 gpu-node-17 sglang[1834]: x", "gpu-node-17"),
    "journald, since boot": ("[  123.456789] gpu-node-17 sglang[1834]: x", "gpu-node-17"),
    "syslog": ("<14>1 2026-03-02T09:14:02.1Z gpu-node-17 sglang 1834 - - x", "gpu-node-17"),
    "journald, as JSON": ('{"_HOSTNAME": "gpu-node-17", "MESSAGE": "x"}', "gpu-node-17"),
    "a collector's JSON": ('{"node_name": "gpu-node-17", "message": "x"}', "gpu-node-17"),
    "mac": ("link/ether 52:54:00:ab:cd:ef brd", "52:54:00:ab:cd:ef"),
}  # fmt: skip

# What looks like one of them and says nothing that must be hidden.
KEPT = [
    "- --api-key\n- --port",
    "- name: HF_TOKEN\n  valueFrom:\n    secretKeyRef:\n      name: hf\n      key: token",
    "- name: MAX_TOKENS\n  value: '4096'",
    "- --max-total-tokens\n- 100000",
    "HF_TOKEN:  <set to the key 'token' in secret 'hf'>  Optional: false",
    "password: required",
    "the token is invalid",
    "API key is not set",
    "token usage: 0.09, gen throughput (token/s): 862.38",
    "Unexpected token: 12, eos token = 2",
    "new_token_ratio: 0.7, #token: 1470941",
    "Authorization: required",
    "~12322.7 MB and ~/models/x",
    "docker run -p 30000:30000 image",
    "login succeeded for user requests",
    "rank 0: node: 1 of 2",
    "-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----",
    "ssh -V; 12:29:13 00:00:00:01:00.0 GPU-8f7a",
]


def in_order(text: str, masker: Masker | None = None) -> str:
    masker = masker or Masker()
    return "\n".join(masker.mask_in_order(line) for line in text.split("\n"))


@pytest.mark.parametrize("name", PASTED)
def test_a_secret_that_is_pasted_is_hidden_once(name: str) -> None:
    text, secret = PASTED[name]
    masker = Masker()
    masked = in_order(text, masker)
    assert secret not in masked
    assert masked.count("\n") == text.count("\n")
    assert sum(masker.counts.values()) >= 1
    assert in_order(masked) == masked  # masking again changes nothing


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert in_order(text) == text


def as_docker(text: str) -> str:
    records = ({"log": f"{line}\n", "stream": "stderr", "time": "2026-03-02T09:14:02.1Z"} for line in text.split("\n"))
    return "\n".join(map(json.dumps, records))


CLOTHES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "docker": as_docker,
    "kubectl": lambda text: "\n".join(f"2026-03-02T09:14:02.123456789Z {line}" for line in text.split("\n")),
    "compose": lambda text: "\n".join(f"sglang-1  | {line}" for line in text.split("\n")),
    "quoted": lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    "colours": lambda text: "\n".join(f"\x1b[32m{line}\x1b[0m" for line in text.split("\n")),
    "lost colours": lambda text: "\n".join(f"[32m{line}[0m" for line in text.split("\n")),
}


@pytest.mark.parametrize("clothes", CLOTHES)
def test_it_is_in_nothing_that_is_read_kept_or_reported(clothes: str, tmp_path: Path) -> None:
    """Each text stands between lines of a server, is read as a log of its own, and nothing of it comes out."""
    seen: dict[str, list[str]] = {}
    for name, (text, secret) in PASTED.items():
        log = CLOTHES[clothes](
            "[2025-03-08 12:29:13 TP0] Load weight begin. avail mem=21.63 GB\n"
            f"{text}\n"
            "[2025-03-08 12:29:21 TP0] KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, V size: 1.42 GB\n"
        ).encode()
        phrases = Matcher().phrases if "PRIVATE KEY" in text else [b"e", b"a", b"-", b"B"]
        reader = LineReader([Log("x", io.BytesIO(log))], phrases)
        lines = "\n".join(f"{x.text}\n{x.shown}\n{x.node}\n" + "\n".join(x.following(9)) for x in reader)
        folder = tmp_path / name.replace(" ", "-").replace("/", "-")
        folder.mkdir()
        (stored,) = masked_copy(Log("x", io.BytesIO(log)), folder)
        kept = stored.path.read_text()
        report = diagnose(Log("x", io.BytesIO(log)))
        again = diagnose(Log("x", io.BytesIO(kept.encode())), is_masked=True)
        for one, two in zip(report.document["launches"], again.document["launches"], strict=True):
            assert one["ranks"] == two["ranks"], text
        outputs = {
            "lines": lines,
            "copy": kept,
            "json": report.to_json(),
            "text": render(report, "text"),
            "markdown": render(report, "markdown"),
            "report on the copy": again.to_json(),
        }
        if where := [form for form, output in outputs.items() if secret in output]:
            seen[name] = where
    assert seen == {}


WIDTHS = (40, 60, 72, 80, 100, 120)
FORMS = (
    "server_args=ServerArgs(model_path='/models/Qwen3-32B', {}, tp_size=8, mem_fraction_static=0.88, log_level='info')",
    "server_args={{'model_path': '/models/Qwen3-32B', {}, 'tp_size': 8, 'mem_fraction_static': 0.88}}",
)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("hard", [True, False])
def test_a_secret_that_a_wrap_cuts_is_hidden(width: int, hard: bool, tmp_path: Path) -> None:
    for shift in range(0, width, 3):
        secret = f"{S}-{S}"
        lines = [
            f"[2025-03-08 12:29:04] {'x' * shift} "
            + FORMS[0].format(f"api_key='{secret}', admin_api_key=None"),
            f"[2025-03-08 12:29:05] {FORMS[1].format(f'{chr(39)}api_key{chr(39)}: {chr(39)}{secret}{chr(39)}')}",
            f"python -m sglang.launch_server --model-path /models/a/rather/long/name --api-key {secret} --tp 8",
            "[2025-03-08 12:29:13 TP0] Load weight begin. avail mem=21.63 GB and enough words to fill the line up",
            "[2025-03-08 12:29:14 TP0] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB",
        ]  # fmt: skip
        if hard:
            wrapped = [line[n : n + width] for line in lines for n in range(0, len(line), width)]
        else:
            wrapped = [part for line in lines for part in textwrap.wrap(line, width, break_on_hyphens=False)]
        raw = "\n".join(wrapped).encode()
        (stored,) = masked_copy(Log("x", io.BytesIO(raw)), tmp_path)
        kept = stored.path.read_text()
        reports = [diagnose(Log("x", io.BytesIO(raw))), diagnose(Log("x", io.BytesIO(kept.encode())), is_masked=True)]
        assert kept.count("\n") == raw.count(b"\n")
        for output in (kept, *(report.to_json() for report in reports)):
            for piece in (secret[:8], secret[-8:], S[5:]):
                assert piece not in output, (shift, output)


@pytest.mark.parametrize(
    "disguised",
    [
        "ap\u200bi_key='" + S + "'",
        "api＿key＝‘" + S + "’",
        "api_key＝" + S,
        "\\u0061pi_key='" + S + "'",
        "a\x08pi_key='" + S + "'",
        '{"log": "\\u0048F_TOKEN=' + S + '"}',
    ],
)
def test_a_name_in_disguise_is_known(disguised: str, tmp_path: Path) -> None:
    raw = f"Load weight begin.\n{disguised}\nend 。\n".encode()
    (stored,) = masked_copy(Log("x", io.BytesIO(raw)), tmp_path)
    kept = stored.path.read_text()
    assert S not in kept
    assert kept.endswith("end 。\n")  # what hides nothing stays as it was written


def test_a_blank_line_between_a_name_and_its_value_changes_nothing() -> None:
    assert S not in in_order(f"- --api-key\n\n- {S}")
    assert S in in_order(f"- --api-key\n\n\n\n- {S}")


def test_a_key_that_never_ends_hides_no_log_behind_it(tmp_path: Path) -> None:
    record = "[2025-03-08 12:29:13 TP0] Load weight begin. avail mem=21.63 GB\n"
    raw = f"-----BEGIN PRIVATE KEY-----\n{S * 4}\n{S * 4}\n{record}"
    (stored,) = masked_copy(Log("x", io.BytesIO(raw.encode())), tmp_path)
    kept = stored.path.read_text()
    assert S not in kept
    assert kept.endswith("Load weight begin. avail mem=21.63 GB\n")


def test_pseudonyms_stay_apart_however_many_there_are() -> None:
    masker = Masker()
    names = {masker.mask(f"/home/u-{n}/x") for n in range(1500)}
    assert len(names) == 1500
    assert {"/home/user-a/x", "/home/user-z/x", "/home/user-aa/x", "/home/user-zz/x", "/home/user-aaa/x"} <= names
    assert {masker.mask(name) for name in names} == names  # a pseudonym stays what it is
    assert "user_name" in masker.counts
    assert masker.counts["user_name"] == 1500


def test_a_name_takes_no_pseudonym_that_the_browser_gave_away() -> None:
    masker = Masker()
    assert masker.mask("/home/user-a/x /home/zoe/x ssh max@host-b") == "/home/user-a/x /home/user-b/x ssh user-c@host-b"
    assert masker.mask("tcp://gpu-node-17:1 tcp://gpu-node-18:1") == "tcp://host-a:1 tcp://host-c:1"


def test_every_pattern_behind_a_line_is_shown_at_work() -> None:
    lines = [line for text, _ in PASTED.values() for line in text.split("\n")]
    idle = [p.after for p in PATTERNS if p.after and not any(re.search(p.after, line) for line in lines)]
    assert idle == []


def test_a_packed_log_is_masked_alike(tmp_path: Path) -> None:
    raw = "\n".join(text for text, _ in PASTED.values()).encode()
    (stored,) = masked_copy(Log("x.gz", io.BytesIO(gzip.compress(raw))), tmp_path)
    kept = stored.path.read_text()
    assert [name for name, (_, secret) in PASTED.items() if secret in kept] == []
