"""Secrets in commands, calls and sentences, where no quoted name stands before them."""

import pytest

from kvdiag.diagnosis.masking import Masker

SECRET = "Zq8vWkR2mTn5xL"


@pytest.mark.parametrize(
    "text",
    [
        f"huggingface-cli login --token {SECRET}",
        f"sglang serve --hf-token={SECRET} --port 1",
        f"login(token='{SECRET}')",
        f"snapshot_download(repo, hf_token={SECRET})",
        f"API Key: {SECRET}",
        f"headers=[(b'x-api-key', b'{SECRET}')]",
        f"curl -u admin:{SECRET} http://localhost/",
    ],
)
def test_the_secret_is_hidden(text: str) -> None:
    assert SECRET not in Masker().mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "--speculative-num-draft-tokens 16384000 --speculative-token-map /data/map.pt",
        "Decode batch. #running-req: 1, #token: 90000, token usage: 0.01",
        "eos_token='<|im_end|>', pad_token=<|endoftext_long|>",
        "token=None, max_new_token=123456",
        "docker run -u 1000:1000 image",
        "API key: required",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Masker().mask(text) == text
