"""examples/embeddings_server.py: requests at once have the bits of requests one by one; what it refuses."""

import base64
import concurrent.futures
import http.client
import importlib.util
import json
import threading
import time
from pathlib import Path

import numpy
import pytest
import qkv

ROOT = Path(__file__).resolve().parents[2]
RANKER = str(ROOT / "tests" / "golden" / "rank")
ENCODER = str(ROOT / "tests" / "golden" / "encoders" / "roberta")


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("embeddings_server", ROOT / "examples" / "embeddings_server.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.Handler.log_message = lambda *arguments: None
    return module


@pytest.fixture(scope="module")
def server(example):
    with example.Server(("127.0.0.1", 0), ENCODER, RANKER) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def post(server, body, path="/v1/embeddings"):
    connection = http.client.HTTPConnection(*server.server_address, timeout=60)
    connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body))
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    return answer.status, content


def rows(server, texts):
    status, content = post(server, {"input": texts, "model": "any"})
    assert status == 200, content
    assert [each["index"] for each in content["data"]] == list(range(len(texts)))
    return numpy.array([each["embedding"] for each in content["data"]], dtype=numpy.float32)


def test_requests_at_once_have_the_bits_of_single_ones(server, monkeypatch):
    requests = [[f"text {i} {'word ' * (i * j % 11)}" for j in range(1 + i % 4)] for i in range(60)]
    single = [qkv.Embedder(ENCODER).encode(texts) for texts in requests]
    batches = []

    def compute(texts):
        while not batches and len(texts) + len(server.embed.waiting) < 50:  # others wait while the first one is computed
            time.sleep(0.001)
        batches.append(len(texts))
        return server.embedder.encode(texts)

    monkeypatch.setattr(server.embed, "compute", compute)
    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        together = list(pool.map(lambda texts: rows(server, texts), requests))
    for one, other in zip(single, together):
        assert one.tobytes() == other.tobytes()
    # 50 texts are 13 requests or more, and make two batches at most.
    assert sum(batches) == sum(map(len, requests)) and len(batches) <= len(requests) - 11, batches


def test_a_fault_is_500(server, monkeypatch):
    def compute(texts):
        raise RuntimeError("no such luck")

    monkeypatch.setattr(server.embed, "compute", compute)
    assert post(server, {"input": "a"}) == (500, {"error": {"message": "no such luck"}})


def test_ranks_at_once_have_the_bits_of_single_ones(server):
    expected = json.loads((ROOT / "tests" / "golden" / "rank" / "expected.json").read_text())
    requests = [each for each in expected if each["texts"] and all(map(str.isascii, each["texts"]))] * 8

    def ranked(each):
        status, content = post(server, {"query": each["query"], "documents": each["texts"]}, "/rerank")
        assert status == 200, content
        return content["results"]

    single = [ranked(each) for each in requests]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert list(pool.map(ranked, requests)) == single
    for each, found in zip(requests, single):
        assert [result["index"] for result in found] == each["order"]
        for result in found:
            assert abs(result["relevance_score"] - each["sigmoid"][result["index"]]) < 1e-5
    body = {"query": "a", "documents": ["b", "c"], "top_n": 1}
    assert len(post(server, body, "/rerank")[1]["results"]) == 1


def test_base64_and_usage(server):
    status, content = post(server, {"input": "hello there", "encoding_format": "base64"})
    assert status == 200 and content["usage"]["total_tokens"] == len(server.embedder.tokenizer.encode("hello there").ids)
    assert base64.b64decode(content["data"][0]["embedding"]) == qkv.Embedder(ENCODER).encode("hello there").tobytes()


@pytest.mark.parametrize(
    "path, body, status, message",
    [
        ("/v1/embeddings", b"{", 400, "Expecting property name"),
        ("/v1/embeddings", b"\xff", 400, "can't decode"),
        ("/v1/embeddings", [], 400, "must be a JSON object"),
        ("/v1/embeddings", {}, 400, "input must be a text or a list of texts"),
        ("/v1/embeddings", {"input": []}, 400, "input must be a text or a list of texts"),
        ("/v1/embeddings", {"input": ["a", 1]}, 400, "input must be a text or a list of texts"),
        ("/v1/embeddings", {"input": "\ud800"}, 400, "surrogates not allowed"),
        ("/v1/chat", {"input": "a"}, 404, "no /v1/chat; there is /v1/embeddings, /rerank"),
        ("/rerank", {"documents": ["a"]}, 400, "query must be a text"),
        ("/rerank", {"query": "a"}, 400, "documents must be a text or a list of texts"),
        ("/rerank", {"query": "a", "documents": ["b"], "top_n": 0}, 400, "top_n must be 1 or more"),
    ],
)
def test_refusals(server, path, body, status, message):
    found, content = post(server, body, path)
    assert found == status and message in content["error"]["message"]
    assert rows(server, ["still there"]).shape[0] == 1


def test_a_failure_reaches_every_request_of_its_batch(example):
    def compute(items):
        while not sizes and len(items) + len(batcher.waiting) < 8:  # the others wait while the first is computed
            time.sleep(0.001)
        sizes.append(len(items))
        raise RuntimeError(f"{len(items)} items")

    sizes, batcher = [], example.Batcher(compute)

    def message(items):
        with pytest.raises(RuntimeError) as caught:
            batcher(items)
        return str(caught.value)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        messages = list(pool.map(message, [["a", "b"]] * 4))
    assert sum(sizes) == 8 and len(sizes) <= 2
    assert sorted(messages) == sorted(f"{size} items" for size in sizes for _ in range(size // 2))
