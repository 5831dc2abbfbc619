"""Asks a published runtime for the log-probabilities of real next tokens. A program of its own, in its own environment.

`python published_worker.py` reads one line of JSON, {"model": path, "tokens": [...], "threads": n}, and needs nothing
but the package `xllamacpp`, whose ggml runs on the CPU. It answers with one line of JSON each: first {"runtime": name
and version}, then the log-probability of each next token, or {"absent": why}.

The runtime has a server's interface: it samples. The next token is forced by a bias on its logit, and what is reported
of it is made of the logits before any bias. Each request has one token more, whose predecessors are in its cache.
"""

from __future__ import annotations

import json
import sys
from typing import Any

#: Added to a logit, so that its token is drawn: logits are far below.
BIAS = 1e4


def main() -> int:
    """Answer."""
    request = json.loads(sys.stdin.readline())
    try:
        import xllamacpp  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        print(json.dumps({"absent": str(error)}), flush=True)
        return 0
    from importlib.metadata import version

    tokens = request["tokens"]
    server = xllamacpp.Server(_parameters(xllamacpp, request))
    print(json.dumps({"runtime": f"xllamacpp {version('xllamacpp')}"}), flush=True)
    for count in range(1, len(tokens)):
        answer = server.handle_completions(_completion(tokens[:count], tokens[count]))
        print(json.dumps(_likelihood(answer, tokens[count])), flush=True)
    return 0


def _parameters(package: Any, request: dict[str, Any]) -> Any:
    found = package.CommonParams()
    found.model.path = request["model"]
    found.n_ctx = len(request["tokens"]) + 64
    found.n_parallel = 1
    found.n_gpu_layers = 0
    # Without it cells outside of the window are gone, and with them the cache of the request before.
    found.swa_full = True
    found.warmup = False
    found.ui = False
    found.cpuparams.n_threads = found.cpuparams_batch.n_threads = request["threads"]
    return found


def _completion(before: list[int], following: int) -> dict[str, Any]:
    return {
        "prompt": before,
        "n_predict": 1,
        "n_probs": 1,
        "cache_prompt": True,
        "id_slot": 0,
        "samplers": ["top_k"],
        "top_k": 1,
        "logit_bias": [[following, BIAS]],
    }


def _likelihood(answer: dict[str, Any], following: int) -> float:
    """ln p of the token that was forced. Raises ValueError when another one came."""
    chosen = answer["choices"][0]["logprobs"]["content"][0]
    if chosen["id"] != following:
        raise ValueError(f"token {chosen['id']} came, expected {following}")
    return float(chosen["logprob"])


if __name__ == "__main__":
    sys.exit(main())
