"""Embeddings and ranks over HTTP, behind a proxy that knows TLS and users: /v1/embeddings as OpenAI has it, /rerank as
Cohere and Jina have it. What waits while a batch is computed is the next batch; a result has the same bits in any batch."""

import argparse
import base64
import http.server
import json
import threading
from concurrent.futures import Future

import qkv


class Batcher:
    """compute(items) for all that threads bring at once: the one whose turn it is computes what waits."""

    def __init__(self, compute):
        self.compute, self.waiting, self.turn = compute, [], threading.Lock()

    def __call__(self, items):
        mine = [(item, Future()) for item in items]
        self.waiting += mine
        with self.turn:
            while not mine[-1][1].done():
                batch = [self.waiting.pop(0) for _ in self.waiting[:256]]
                try:
                    for (_, future), result in zip(batch, self.compute([item for item, _ in batch])):
                        future.set_result(result)
                except Exception as error:  # the threads that wait raise it
                    for _, future in batch:
                        future.set_exception(error)
        return [future.result() for _, future in mine]


def texts_of(value, name):
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{name} must be a text or a list of texts")
    "".join(texts).encode()  # half of a surrogate pair is a ValueError, too: it would fail what is computed with it
    return texts


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, address, embedder, ranker):
        self.request_queue_size = 128
        self.embedder, self.ranker = qkv.Embedder(embedder), qkv.text.Reranker(ranker)
        self.embed, self.score = Batcher(self.embedder.encode), Batcher(self.ranker.predict)
        self.answers = {"/v1/embeddings": self.embeddings, "/rerank": self.rerank}
        super().__init__(address, Handler)

    def embeddings(self, request):
        texts, in_base64 = texts_of(request.get("input"), "input"), request.get("encoding_format") == "base64"
        rows = [base64.b64encode(row).decode() if in_base64 else row.tolist() for row in self.embed(texts)]
        data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
        tokens = sum(len(self.embedder.tokenizer.encode(text).ids) for text in texts)
        usage = dict.fromkeys(["prompt_tokens", "total_tokens"], tokens)
        return {"object": "list", "data": data, "model": str(self.embedder.folder), "usage": usage}

    def rerank(self, request):
        query, documents = texts_of([request.get("query")], "query")[0], texts_of(request.get("documents"), "documents")
        top = request.get("top_n", len(documents))
        if type(top) is not int or top < 1:
            raise ValueError("top_n must be 1 or more")
        scores = enumerate(map(float, self.score([(query, document) for document in documents])))
        results = [{"index": index, "relevance_score": score} for index, score in sorted(scores, key=lambda pair: -pair[1])]
        return {"results": results[:top], "model": str(self.ranker.folder)}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, timeout, largest_body = "HTTP/1.1", 60, 1 << 24

    def do_POST(self):
        answers, status = self.server.answers, 400
        try:
            size = int(self.headers.get("Content-Length", 0))
            if not 0 <= size <= self.largest_body:
                status, self.close_connection = 413, True
                raise ValueError(f"the body has more than {self.largest_body} bytes")
            request = json.loads(self.rfile.read(size))
            if self.path not in answers:
                status = 404
                raise ValueError(f"no {self.path}; there is {', '.join(answers)}")
            if not isinstance(request, dict):
                raise ValueError("the body must be a JSON object")
            status, content = 200, answers[self.path](request)
        except Exception as error:
            status, content = status if isinstance(error, ValueError) else 500, {"error": {"message": str(error)}}
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embed", required=True, help="folder of sentence-transformers")
    parser.add_argument("--rank", required=True, help="folder of a cross-encoder with one label")
    parser.add_argument("--port", type=int, default=8000)
    chosen = parser.parse_args()
    Server(("127.0.0.1", chosen.port), chosen.embed, chosen.rank).serve_forever()
