"""A secret planted wherever SGLang prints one never comes out; figures never change."""

import dataclasses
import io
import json
import re
from pathlib import Path

import pytest
import regex

from kvdiag.diagnosis.lines import LineReader, Log
from kvdiag.diagnosis.masked_copy import masked_copy
from kvdiag.diagnosis.masking import PATTERNS, Masker, Pattern
from kvdiag.diagnosis.sensitive import sensitive_lines

CALL = (
    "server_args=ServerArgs(model_path='/models/Qwen3-32B', {}, tp_size=8, mem_fraction_static=0.88, log_level='info')"
)
DICT = "server_args={{'model_path': '/models/Qwen3-32B', {}, 'tp_size': 8, 'mem_fraction_static': 0.88}}"
HF = "hf_AbCdEfGhIjKlMnOpQrStUvWx"
KEY = "sk-proj-Zz09Yy18Xx27Ww36Vv45"

# (a line, what must not be seen of it)
PLANTED = [
    *[
        (form, secret)
        for secret in ("sekret", "it's-a-s3kr3t", "a b c", 'q"uote', "p4ss,w0rd)")
        for form in (
            CALL.format(f"api_key={secret!r}"),
            CALL.format(f"admin_api_key={secret!r}"),
            CALL.format(f"ssl_keyfile_password={secret!r}"),
            DICT.format(f"'api_key': {secret!r}"),
            DICT.format(f"'admin_api_key': {secret!r}"),
            DICT.format(f"'ssl_keyfile_password': {secret!r}"),
            DICT.format(f"'watermark_key': {secret!r}"),
        )
    ],
    *[
        (form.format(f"{name}={json.dumps({key: 'n3st3d-s3kr3t'})!r}"), "n3st3d-s3kr3t")
        for form in (CALL,)
        for name in ("hicache_storage_backend_extra_config", "model_loader_extra_config", "json_model_override_args")
        for key in ("access_token", "token", "secret_key", "access_key", "password", "api_key", "credential")
    ],
    (DICT.format("'hicache_storage_backend_extra_config': {'password': 'n3st3d-s3kr3t'}"), "n3st3d-s3kr3t"),
    (CALL.format("tokenizer_path='https://bob:pa55w0rd@hub.example.com/x'"), "pa55w0rd"),
    (CALL.format("api_key=SecretStr('hunt er2')"), "hunt er2"),
    (CALL.format("dist_init_addr='10.20.30.40:5000'"), "10.20.30.40"),
    (CALL.format("dist_init_addr='gpu-node-17:5000'"), "gpu-node-17"),
    (CALL.format("host='10.20.30.41'"), "10.20.30.41"),
    (CALL.format("model_path='/home/zoe.q/models/x'"), "zoe.q"),
    (CALL.format("model_path='s3://AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI@bucket/x'"), "wJalrXUtnFEMI"),
    ("python -m sglang.launch_server --model-path x --api-key sekret --port 30000", "sekret"),
    ("python -m sglang.launch_server --model-path x --api-key=sekret", "sekret"),
    ("sglang serve x --admin-api-key 'se kret'", "se kret"),
    ("sglang serve x --ssl-keyfile-password sekret", "sekret"),
    ("sglang serve x --dist-init-addr gpu-node-17:5000", "gpu-node-17"),
    (f"HF_TOKEN={HF} python -m sglang.launch_server", HF),
    ("docker run -e HF_TOKEN=sekret -e WANDB_API_KEY=abcd1234 lmsysorg/sglang", "sekret"),
    ("docker run -e HF_TOKEN=sekret -e WANDB_API_KEY=abcd1234 lmsysorg/sglang", "abcd1234"),
    ("export AWS_SECRET_ACCESS_KEY='wJalrXUtnFEMIK7MDENG'", "wJalrXUtnFEMIK7MDENG"),
    (DICT.format("'watermark_keys': ['first-s3kr3t', 's3cond']"), "first-s3kr3t"),
    (DICT.format("'watermark_keys': ['first-s3kr3t', 's3cond']"), "s3cond"),
    ("S3Config(endpoint='x', access_key='ab cd9', secret_key='efgh')", "ab cd9"),
    ("S3Config(endpoint='x', access_key='ab cd9', secret_key='efgh')", "efgh"),
    ('{"AccessKeyId": "x", "SecretAccessKey": "wJalrXUt/nFEMI", "Expiration": "x"}', "wJalrXUt/nFEMI"),
    ("ssl_keyfile_password: 'sekret one'", "sekret one"),
    ('{"auths": {"registry.example.com": {"auth": "Ym9iOnMza3IzdA=="}}}', "Ym9iOnMza3IzdA=="),
    ("  .dockerconfigjson: eyJhdXRocyI6e30K", "eyJhdXRocyI6e30K"),
    ("DOCKER_AUTH_CONFIG=eyJhdXRocyI6e30K", "eyJhdXRocyI6e30K"),
    ("echo s3kr3t | docker login -u bob --password-stdin", "s3kr3t"),
    ('"GET /login?next=%2Fx%3Ftoken%3Ds3kr3t%26a%3D1 HTTP/1.1" 200 OK', "s3kr3t"),
    ("HOME=/rootHF_TOKEN=s3kr3tPATH=/usr", "s3kr3t"),
    (r"HOME=/root\x00HF_TOKEN=s3kr3t\x00PATH=/usr", "s3kr3t"),
    ("│ │ token   = 's3kr3t'      │ │", "s3kr3t"),
    ("| HF_TOKEN | s3kr3t |", "s3kr3t"),
    ("api_key => s3kr3t", "s3kr3t"),
    ("api_key is s3kr3tly", "s3kr3tly"),
    ("[type=string_type, input_value='s3kr3t, my prompt', input_type=int]", "my prompt"),
    ("{'type': 'missing', 'loc': ('body', 'x'), 'input': {'text': 'my prompt'}}", "my prompt"),
    ("Received ChatCompletionRequest(messages=[{'role': 'user', 'content': 'my prompt'}])", "my prompt"),
    ('Body: {"model": "m", "messages": [{"role": "user", "content": "my prompt"}]}', "my prompt"),
    ('curl -d \'{"text": "my prompt"}\' http://localhost:30000/generate', "my prompt"),
    (
        r'{"x": "{\"private_key\": \"-----BEGIN PRIVATE KEY-----\\nMIIEs3kr3t\\n-----END PRIVATE KEY-----\\n\"}"}',
        "MIIEs3kr3t",
    ),
    (r'{"log":"GenerateReqInput(rid=1, text=\"this is my prompt to you\")\n","stream":"stderr"}', "my prompt"),
    (
        json.dumps({"log": json.dumps({"event": "request.received", "obj": {"text": "this is my prompt"}}) + "\n"}),
        "my prompt",
    ),
    (json.dumps({"log": json.dumps({"event": "request.finished", "out": {"text": "all that it said"}})}), "it said"),
    ("EmbeddingReqInput(text=['first prompt', 'my prompt'])", "my prompt"),
    ("[2026-08-10 09:47:05 DP0 TP0 EP0] get env HF_TOKEN = sekret1", "sekret1"),
    ("[2026-08-10 09:47:05 DP0 TP0 EP0] get env HOME = /home/zoe", "zoe"),
    ("aws_secret_access_key = wJalrXUtnFEMIK7MDENG", "wJalrXUtnFEMIK7MDENG"),
    ("key AKIAIOSFODNN7EXAMPLE in use", "AKIAIOSFODNN7EXAMPLE"),
    ("loaded with AIzaSyA1234567890abcdefghijklmnopqrstuvw", "AIzaSyA1234567890abcdefghijklmnopqrstuvw"),
    ("git clone https://ghp_abcdefghijklmnopqrstuvwxyz012345@github.com/x/y", "ghp_abcdefghijklmnopqrstuvwxyz012345"),
    ("token github_pat_11ABCDEFG0abcdefghijklmnop", "github_pat_11ABCDEFG0abcdefghijklmnop"),
    ("slack xoxb-123456789012-abcdefghij", "xoxb-123456789012-abcdefghij"),
    ("https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX", "XXXXXXXXXXXXXXXXXXXXXXXX"),
    ("curl -H 'Authorization: Bearer abcdef123456.ghi' http://localhost:30000", "abcdef123456.ghi"),
    ('headers={"Authorization": "Bearer abcdef123456"}', "abcdef123456"),
    ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.s5c9", "eyJzdWIiOiIxMjM0In0"),
    (f"openai {KEY}", KEY),
    ("nvapi-abcdefghijklmnopqrstuvwxyz", "nvapi-abcdefghijklmnopqrstuvwxyz"),
    ("GET https://b.s3.amazonaws.com/x?X-Amz-Signature=0123abcd&y=1", "0123abcd"),
    ('INFO:     203.0.113.7:51234 - "POST /generate HTTP/1.1" 200 OK', "203.0.113.7"),
    ("tcp://203.0.113.7:29500", "203.0.113.7"),
    ("connect [2001:db8::1:2]:29500", "2001:db8::1:2"),
    ("connect fe80:0:0:0:1:2:3:4 failed", "fe80:0:0:0:1:2:3:4"),
    ("addr=[sgl-0.sgl.prod.svc.cluster.local]:51542", "sgl-0.sgl.prod"),
    ("zoe@gpu-node-17:~/work$ python -m sglang.launch_server", "gpu-node-17"),
    ("Mar  2 09:14:02 gpu-node-17 sglang[1834]: Load weight begin.", "gpu-node-17"),
    ("2026-03-02T09:14:02+0000 gpu-node-17 sglang[1834]: Load weight begin.", "gpu-node-17"),
    ("(venv) zoe@gpu-node-17:~/work$ python -m sglang.launch_server", "zoe@"),
    ("Contact zoe.q@example.com for access", "zoe.q@example.com"),
    ("C:\\Users\\zoe\\sglang\\x.py", "zoe"),
    ("/Users/zoe/sglang/x.py:12: UserWarning", "zoe"),
    (
        "Receive: obj=GenerateReqInput(rid='a', text='my private question, at length', input_ids=None)",
        "private question",
    ),
    (
        "Finish: obj=GenerateReqInput(rid='a', text='q'), out={'text': 'a private answer', 'meta_info': {}}",
        "private answer",
    ),
    ("in=my private question, out={'text': 'a private answer'}", "my private"),
    ('{"event": "request.finished", "obj": {"text": "my private question"}, "out": {"text": "x"}}', "private question"),
    ("Req(rid=1, input_ids=[101, 2023, 2003, 1037, 3231], output_ids=[1, 2])", "101, 2023, 2003"),
    ("REDIS_PASS='p4ss with blank' python -m sglang.launch_server", "with blank"),
    ("sglang serve x --ssl-keyfile-password 'ab cd' --tp 8", "cd"),
    ('sglang serve x --hf-token "n3st3d s3kr3t"', "s3kr3t"),
    ("DB_PASSWORD=n3st3d,s3kr3t)x python -m sglang.launch_server", "s3kr3t"),
    ('docker run -e "DB_PASSWORD=n3st3d s3kr3t" lmsysorg/sglang', "s3kr3t"),
    ('os.environ.setdefault("HF_TOKEN","n3st3d")', "n3st3d"),
    ("{b'token': b'n3st3d'}", "n3st3d"),
    ("NPM_CONFIG__AUTHTOKEN=n3st3d", "n3st3d"),
    ("//npm.example.org/:_authToken=n3st3d-s3kr3t", "n3st3d-s3kr3t"),
    ("_auth=dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ("mysql -u root -pn3st3d db", "n3st3d"),
    ("redis-cli -h localhost -a n3st3d ping", "n3st3d"),
    ("<db_password>n3st3d</db_password>", "n3st3d"),
    ("DB_PASSWORD\tn3st3d", "n3st3d"),
    ("password\tn3st3d", "n3st3d"),
    ("PASSWORD := n3st3d", "n3st3d"),
    ("api_key := n3st3d", "n3st3d"),
    ("  password: cDRzc3cwcmQ=", "cDRzc3cwcmQ"),
    ("  db-token: cDRzc3cwcmQK", "cDRzc3cwcmQK"),
    ("密码：n3st3d", "n3st3d"),
    ("Passwort: n3st3d", "n3st3d"),
    ("mot de passe : n3st3d", "n3st3d"),
    ('login(token="n3st3d01")', "n3st3d01"),
    ("-----BEGIN RSA PRIVATE KEY-----MIIEpAIBAAKCAQEA7bq-----END RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA7bq"),
]

# What must stay as it is, to the letter.
KEPT = [
    "[2025-03-08 12:29:13 TP3] Load weight begin. avail mem=21.63 GB",
    "Load weight end. elapsed=41.07 s, type=Qwen3ForCausalLM, quant=fp8, avail mem=48.90 GB, mem usage=29.51 GB.",
    "KV Cache is allocated. #tokens: 159277, K size: 10.42 GB, V size: 10.42 GB",
    "max_total_num_tokens=46611, chunked_prefill_size=2048, max_prefill_tokens=16384, max_running_requests=2049",
    "Decode batch. #running-req: 18, #token: 1470941, token usage: 0.09, gen throughput (token/s): 862.38",
    "CUDA out of memory. Tried to allocate 540.00 MiB. GPU 0 has a total capacity of 14.76 GiB of which 298.75 MiB",
    'INFO:     127.0.0.1:51234 - "GET /health HTTP/1.1" 200 OK',
    "Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)",
    "server_args=ServerArgs(model_path='/models/Qwen3.6-27B-FP8', api_key=None, ssl_keyfile_password=None, host="
    "'0.0.0.0')",
    "server_args={'model_path': '/models/DeepSeek-V4.1-Flash', 'api_key': None, 'watermark_key': '<redacted>'}",
    "nvidia-cublas-cu12==12.8.4.1 sglang==0.5.10.post1 Driver Version: 550.54.15 v1.2.3.4 libnccl.so.2.27.5.1",
    "/usr/local/lib/python3.12/dist-packages/sglang/srt/managers/scheduler.py:1731: SyntaxWarning",
    "/root/.cache/modelscope/hub/models/Qwen/Qwen3-30B-A3B-w8a8",
    "model_path='/home/models/deepseek-r1', tokenizer_path='/home/user1/AI/models/hf-mattbucci/gemma-4-31B-AWQ'",
    "TOKENIZERS_PARALLELISM=false SGLANG_MAX_NEW_TOKENS_ESTIMATION=4096 PYTORCH_CUDA_ALLOC_CONF=expandable_segme"
    "nts:True",
    "{'bos_token': '<s>', 'eos_token': '</s>', 'pad_token': '<|endoftext|>', 'eos_token_id': 2}",
    "c10::Error: std::bad_alloc at::native::copy_ torch::jit Frame #3: c10::cuda::CUDACachingAllocator::malloc(...)",
    "Multi-thread loading shards: 100% Completed | 32/32 [01:39<00:00,  3.12s/it]",
    "git@github.com:sgl-project/sglang.git pip install git+https://github.com/sgl-project/sglang.git@v0.5.10",
    "Ignore import error when loading sglang.srt.models.glmasr: cannot import name 'GlmAsrConfig'",
    "  num_tokens:\t159277\tmax_total_tokens\t46611",
    "  token: 12345678",
    "  key: LlamaForCausalLM",
    "<token>128009</token> token='<|eot_id|>' --max-total-tokens '46611'",
    "mysql-connector-python==8.0.33 -p 8 redis-cli==3.5.3 redis 5.0.1 -a",
    "task-risk-disk-mask-2026 weight_loader hf_quant_config hf_config hf-mattbucci",
]


@pytest.mark.parametrize(("line", "secret"), PLANTED)
def test_a_planted_secret_is_hidden(line: str, secret: str) -> None:
    masker = Masker()
    masked = masker.mask(line)
    assert secret not in masked
    assert repr(secret)[1:-1] not in masked
    assert sum(masker.counts.values()) >= 1
    assert masker.mask(masked) == masked  # masking again changes nothing
    assert len(sensitive_lines(line.encode(), masker.triggers)) == 1


@pytest.mark.parametrize("line", KEPT)
def test_what_is_no_secret_stays(line: str) -> None:
    masker = Masker()
    assert masker.mask(line) == line
    assert masker.counts == {}


def test_planted_secrets_are_in_nothing_that_is_read_or_kept(tmp_path: Path) -> None:
    raw = "\n".join(line for line, _ in PLANTED).encode()
    reader = LineReader([Log("x", io.BytesIO(raw))], [b"server_args", b"a", b"e", b"o"])
    seen = "\n".join(f"{x.text}\n{x.shown}\n{x.node}\n" + "\n".join(x.following(9)) for x in reader)
    (stored,) = masked_copy(Log("x", io.BytesIO(raw)), tmp_path)
    kept = stored.path.read_text()
    for _, secret in PLANTED:
        assert secret not in seen, secret
        assert secret not in kept, secret
    assert sum(reader.masked.values()) > len(PLANTED) / 2
    assert sum(stored.masked.values()) >= len(PLANTED)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda line: json.dumps({"log": line + "\n", "stream": "stdout", "time": "2025-03-08T12:29:13.1Z"}),
        lambda line: json.dumps({"message": json.dumps({"text": line})}),
        lambda line: f'   "{json.dumps(line)[1:-1]}\\n",',
        lambda line: "Mar 08 12:29:13 gpu7 sglang[1]: " + line,
        lambda line: f"\x1b[32m{line}\x1b[0m",
    ],
)
def test_a_secret_is_hidden_in_any_carrier(wrap, tmp_path: Path) -> None:
    lines = [
        CALL.format("api_key='sekret0123'"),
        DICT.format("'admin_api_key': 'sekret0123'"),
        'args: {"api_key": "sekret0123"}',
    ]
    raw = "\n".join(wrap(line) for line in lines).encode()
    reader = LineReader([Log("x", io.BytesIO(raw))], [b"api_key"])
    seen = "".join(f"{line.text}{line.shown}{line.following(9)}" for line in reader)
    (stored,) = masked_copy(Log("x", io.BytesIO(raw)), tmp_path)
    assert "[api_key]" in seen
    assert "sekret0123" not in seen
    assert "sekret0123" not in stored.path.read_text()


def test_a_name_keeps_its_pseudonym_throughout_an_upload() -> None:
    masker = Masker()
    one = masker.mask("tcp://10.1.1.1:1 tcp://10.1.1.2:1 /home/zoe/a /home/max/b")
    two = masker.mask("tcp://10.1.1.2:1 tcp://10.1.1.1:1 /home/max/b /home/zoe/a")
    assert one == "tcp://addr-1:1 tcp://addr-2:1 /home/user-a/a /home/user-b/b"
    assert two == "tcp://addr-2:1 tcp://addr-1:1 /home/user-b/b /home/user-a/a"
    assert masker.counts == {"ip_address": 4, "user_name": 4}


def test_a_private_key_over_many_lines_is_hidden_whole() -> None:
    masker = Masker()
    lines = ["a", "-----BEGIN PRIVATE KEY-----", "MIIEpAIBAAKCAQEA7bq", "c2VjcmV0", "-----END PRIVATE KEY-----", "b"]
    masked = [masker.mask_in_order(line) for line in lines]
    assert masked == ["a", lines[1], "[private_key]", "[private_key]", lines[4], "b"]
    assert masker.counts == {"private_key": 1}


def test_a_value_behind_a_backslash_is_hidden_and_the_arguments_behind_it_stay() -> None:
    masker = Masker()
    lines = ["python -m sglang.launch_server --api-key \\", "    sekret --tp 8 \\", "    --port 30000"]
    assert [masker.mask_in_order(line) for line in lines] == [lines[0], "    [secret] --tp 8 \\", lines[2]]


@pytest.mark.parametrize("unseen", ["\u200b", "\u200c", "\u200d", "\u2060", "\u00ad", "\ufeff"])
def test_a_mark_that_is_not_seen_hides_no_name_of_a_secret(unseen: str, tmp_path: Path) -> None:
    raw = f"python -m sglang.launch_server --api{unseen}-key sekret0123\n".encode()
    (stored,) = masked_copy(Log("x", io.BytesIO(raw)), tmp_path)
    assert "sekret0123" not in stored.path.read_text()


def test_a_teams_own_pattern_is_applied_and_given_up_when_it_takes_too_long() -> None:
    own = Pattern("project", ("zeus",), r"()(project-\w+)", "[project]")
    assert Masker([own]).mask("loading project-zeus now") == "loading [project] now"
    evil = Pattern("evil", (), r"()((?:a|aa)+$)", "[x]")
    assert Masker([evil]).mask("a" * 60 + "!") == "[line left out: it takes too long to mask]"


def test_the_patterns_are_data_that_javascript_reads_alike() -> None:
    for pattern in PATTERNS:
        published = pattern.as_dict()
        assert json.loads(json.dumps(published)) == published
        assert re.compile(pattern.expression).groups == 2
        regex.compile(pattern.expression)
        assert not re.search(r"\(\?[<P!]|\\[AZ]|\(\?[a-z]|[*+?}]\+", pattern.expression.replace("(?!", "")), (
            pattern.kind
        )
        assert all(literal == literal.lower() for literal in published["literals"])
        assert dataclasses.replace(pattern) == pattern


@pytest.mark.parametrize(
    "dress",
    [
        lambda line: json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2025-03-08T12:29:13.1Z"}),
        lambda line: f"2025-03-08T12:29:13.123456789Z stderr F {line}",
        lambda line: f"sglang-1  | {line}",
    ],
)
def test_a_blank_line_in_a_carrier_ends_no_key(dress, tmp_path: Path) -> None:
    lines = [
        "-----BEGIN PGP PRIVATE KEY BLOCK-----",
        "",
        "lQOYBGT0K3kBCADsekret0123",
        "-----END PGP PRIVATE KEY BLOCK-----",
    ]
    (stored,) = masked_copy(Log("x", io.BytesIO("\n".join(map(dress, lines)).encode())), tmp_path)
    assert "sekret0123" not in stored.path.read_text()


def test_a_value_that_is_an_item_of_a_list_is_hidden_whatever_follows_it() -> None:
    """A remark, or the line below where the text is broken at a width; what is hidden already stays."""
    masker = Masker()
    masker.mask_in_order("        - --api-key")
    assert masker.mask_in_order("        - s3kr3t-value # of the team") == "        - [secret] # of the team"
    masker.mask_in_order("- --hf-token")
    assert masker.mask_broken(["- s3kr3t-value", " and more", " of it"]) == ["- [secret]", " and more", " of it"]
    masker.mask_in_order("- --api-key")
    assert masker.mask_in_order("- [secret] # of the team") == "- [secret] # of the team"
