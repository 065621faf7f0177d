"""The openai policy against a real server that misbehaves: what is retried, what ends a run, and where the key is."""

import json
import logging
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from claasbench.errors import ClaasbenchError
from claasbench.policies import _endpoint
from claasbench.policies.openai import OpenAI
from claasbench.rollout import tally
from claasbench.types import Episode, Key, Message, Place, Prompt, Request, Sample, Sampling, Turn
from toys import command, done

KEY = "sk-never-to-be-seen-0123456789"
SMALL = [f"--set=scenario.{size}" for size in ("splits=2", "tasks_per_split=1", "measured_per_split=1")]


def reply(text="[right]", finish="stop", **more):
    """Return a sound answer; `more` goes into its message."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **more}, "finish_reason": finish}
    return {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}, "system_fingerprint": "fp1"}


class Handler(BaseHTTPRequestHandler):
    """Does what `server.script(body, number)` says: a JSON value, (status, value, headers), or a name below."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.asked.append((self.path, dict(self.headers), body, time.monotonic()))
            number = len(server.asked)
            server.open += 1
            server.most = max(server.most, server.open)
        try:
            said = server.script(body, number)
        finally:
            with server.lock:
                server.open -= 1
        if said == "hang":
            server.released.wait(5)
        elif said == "half":
            self.send(200, b'{"choices": [{"mess', {}, missing=50)
        else:
            status, value, headers = said if isinstance(said, tuple) else (200, said, {})
            self.send(status, value if isinstance(value, bytes) else json.dumps(value).encode(), headers)

    def send(self, status, data, headers, missing=0):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data) + missing), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = bool(missing)

    def log_message(self, *words):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.released = threading.Lock(), threading.Event()
        self.asked, self.open, self.most = [], 0, 0
        self.script = lambda body, number: reply()
        self.model = f"openai:x@http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, *where):  # a client that has left
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(_endpoint, "PAUSE", 0.001)
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.released.set()
        made.shutdown()
        thread.join()


def request(text="hello", seed=2**63 + 5, sampling=None, **more):
    prompt = Prompt((Message("system", "be brief"), Message("user", text)), **more)
    return Request(Key("t", 0, "learner", 0), prompt, seed, sampling or Sampling(max_tokens=5))


def first(*faults):
    """Return a script of `faults`, then sound answers."""
    return lambda body, number: faults[number - 1] if number <= len(faults) else reply()


def one(server, **settings):
    return OpenAI(server.model, **settings).sample([request()])[0]


def test_a_request_is_what_the_endpoint_is_asked(server):
    policy = OpenAI(server.model, logprobs=True)
    policy.sample([request(sampling=Sampling(0.7, 0.8, 20, 64), max_tokens=9, stop=("\n",)), request(seed=3)])
    (path, headers, full, _), (_, _, plain, _) = sorted(server.asked, key=lambda asked: asked[2]["max_tokens"])[::-1]
    assert path == "/v1/chat/completions"
    assert "Authorization" not in headers
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    assert full == {
        "model": "x",
        "messages": messages,
        "temperature": 0.7,
        "top_p": 0.8,
        "top_k": 20,
        "max_tokens": 9,
        "seed": 5,
        "stop": ["\n"],
        "logprobs": True,
    }
    assert plain["seed"] == 3
    assert plain.keys() == full.keys() - {"top_k", "stop"}


def test_an_answer_is_text_and_counts_without_ids(server):
    policy = OpenAI(server.model)
    (sample,) = policy.sample([request()])
    assert sample == Sample("[right]", served=f"{server.model}#fp1", sampling=Sampling(max_tokens=5), counted=(7, 3))
    assert policy.identity() == {"served": server.model}
    assert policy.at("base") is policy
    assert policy.offers == frozenset()
    assert policy.count([Message("user", "12345")]) == 6


def test_logprobs_are_a_tuple_where_there_are_any(server):
    said = reply()
    said["choices"][0]["logprobs"] = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1}]}
    server.script = lambda body, number: said
    assert one(server, logprobs=True).logprobs == (-0.5, -1.0)


@pytest.mark.parametrize(
    ("said", "text", "finish"),
    [
        (reply("cut of", "length"), "cut of", "length"),
        (reply(None, "stop", refusal="I will not"), "I will not", "stop"),
        (reply(None, "content_filter"), "", "stop"),
        (reply("", "content_filter"), "", "stop"),
        (reply("seen", reasoning_content="hidden", reasoning="hidden"), "seen", "stop"),
        (reply(None, "length", reasoning_content="hidden"), "", "length"),
        (reply("half \ud83d"), "half ?", "stop"),
    ],
)
def test_what_a_model_may_say(said, text, finish, server):
    server.script = lambda body, number: said
    sample = one(server)
    assert (sample.text, sample.finish, sample.tries, sample.counted) == (text, finish, 1, (7, 3))


def test_a_sound_answer_may_count_nothing(server):
    server.script = lambda body, number: {"choices": reply()["choices"], "usage": None}
    assert (one(server).counted, one(server).served) == (None, server.model)


@pytest.mark.parametrize(
    "fault",
    [
        *((status, {"error": {"message": "later"}}, {}) for status in (408, 429, 500, 502, 503, 504)),
        "half",
        b"<html>",
        (200, b"\xff{", {}),
        {"error": {"message": "in the wrong place"}},
        {"choices": []},
        [],
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": "text"}]},
    ],
    ids=str,
)
def test_what_may_pass_is_asked_again(fault, server):
    server.script = first(fault, fault)
    policy = OpenAI(server.model)
    (sample,) = policy.sample([request()])
    assert (sample.text, sample.finish, sample.tries) == ("[right]", "stop", 3)
    assert server.asked[0][2] == server.asked[2][2]  # with the same draws
    assert sample.counted == (7, 3)


def test_retry_after_is_waited_for(server):
    server.script = first((429, {}, {"Retry-After": "0.2"}))
    assert one(server).tries == 2
    assert server.asked[1][3] - server.asked[0][3] >= 0.2


@pytest.mark.parametrize(("value", "seconds"), [("7", 7), ("", 0), ("soon", 0)])
def test_retry_after_is_a_number(value, seconds):
    assert _endpoint.asked({"retry-after": value}) == seconds


def test_retry_after_is_a_date():
    assert 3000 <= _endpoint.asked({"retry-after": formatdate(time.time() + 3600, usegmt=True)}) <= 3600


def test_silence_is_retried_once(server):
    server.script = first("hang")
    assert one(server, timeout=0.1).tries == 2
    server.script = lambda body, number: "hang"
    sample = one(server, timeout=0.1)
    assert (sample.finish, sample.tries) == ("error", 2)


def test_nobody_there_is_an_error_of_the_machine(server):
    server.shutdown()
    server.server_close()
    sample = one(server, retries=1)
    assert (sample.finish, sample.text, sample.tries) == ("error", "", 2)


def test_retries_used_up_are_an_error_of_that_request_only(server):
    server.script = lambda body, number: (500, {}, {}) if body["messages"][1]["content"] == "bad" else reply()
    policy = OpenAI(server.model, retries=2)
    samples = policy.sample([request("a"), request("bad"), request("c")])
    assert [sample.finish for sample in samples] == ["stop", "error", "stop"]
    assert [sample.tries for sample in samples] == [1, 3, 1]


@pytest.mark.parametrize(
    "error",
    [
        {"code": "context_length_exceeded", "message": "too many"},
        {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000."},
        {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."},
    ],
)
def test_a_prompt_that_does_not_fit_is_overflow(error, server):
    server.script = lambda body, number: (400, {"error": error}, {})
    sample = one(server)
    assert (sample.text, sample.finish, len(server.asked)) == ("", "overflow", 1)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (
            401,
            {"error": {"message": f"Incorrect key {KEY}, that is 'sk-n***6789'.\nSee"}},
            "key ***, that is '***'. See",
        ),
        (403, {"detail": "not for you"}, "403: not for you"),
        (404, {"object": "error", "message": "The model `x` does not exist."}, "404: The model `x` does not exist."),
        (400, {"error": "top_k is unknown"}, "400: top_k is unknown"),
        (422, b"no\nJSON " + b"at all " * 99, "422: no JSON at all"),
        (307, b"", "307"),
        (429, {"error": {"code": "insufficient_quota", "message": "pay first"}}, "429: pay first"),
    ],
)
def test_what_does_not_pass_is_one_line_without_the_key(status, body, said, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.script = lambda asked, number: (status, body, {})
    with pytest.raises(ClaasbenchError) as error:
        one(server)
    line = str(error.value)
    assert server.model in line
    assert said in line
    assert KEY not in line
    assert "\n" not in line
    assert len(line) < 450
    assert len(server.asked) == 1


def test_a_refusal_ends_the_retries_of_the_others(server, monkeypatch):
    monkeypatch.setattr(_endpoint, "PAUSE", 60.0)
    server.script = lambda body, number: ((401 if body["messages"][1]["content"] == "no" else 500), {}, {})
    policy = OpenAI(server.model)
    with pytest.raises(ClaasbenchError, match="401"):
        policy.sample([request("no"), request("later")])
    policy._threads.shutdown(wait=True)  # would wait for minutes


def test_the_key_is_sent_and_shown_nowhere(server, monkeypatch, caplog):
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    caplog.set_level(logging.DEBUG)
    server.script = first((500, {}, {}))
    policy = OpenAI(server.model, key="MY_KEY")
    policy.sample([request()])
    assert {asked[1]["Authorization"] for asked in server.asked} == {f"Bearer {KEY}"}
    shown = [repr(policy), str(vars(policy)), repr(policy._endpoint._client.headers), caplog.text]
    assert not any(KEY in text for text in [*shown, str(vars(policy._endpoint)), str(policy.identity())])


def test_no_file_of_a_run_holds_the_key_and_counts_reach_done(server, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.script = first((429, {}, {}))
    words = ["run", "frozen-lake", "--method", "none", "--model", server.model, *SMALL, "--out", "r", "--offline"]
    code, out, err = command(*words)
    assert code == 0, err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in path.read_bytes() or KEY in str(path) for path in files)
    assert KEY not in out + err
    rows = [done(tmp_path / "r", path.name) for path in (tmp_path / "r/splits").iterdir()]
    init = next(row for row in rows if row["row"] == -1)
    cells = [cell["counts"] for cell in init["measures"][0]["variants"]["learner"]]
    live = [row["live"]["counts"] for row in rows if row["row"] >= 0]
    turns = sum(counts["turns"] for counts in cells + live)
    assert turns == len(server.asked) - 1  # measured once, as nothing is learnt
    assert sum(counts["prompt_tokens"] for counts in cells + live) == 7 * turns
    assert sum(counts["reply_tokens"] for counts in cells + live) == 3 * turns
    assert sum(counts["retries"] for counts in cells + live) == 1


def test_a_run_with_memory_puts_it_before_the_model(server, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = ["run", "frozen-lake", "--method", "icl", "--model", server.model, *SMALL, "--out", "r", "--quiet"]
    code, _, err = command(*words)
    assert code == 0, err
    lengths = [len(str(body["messages"])) for _, _, body, _ in server.asked]
    assert max(lengths) > lengths[0] + 200
    assert done(tmp_path / "r", "init")["measures"][0]["variants"]["learner"][0]["counts"]["failed"] == 0


def test_an_endpoint_that_is_down_is_no_zero(server, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    server.script = lambda body, number: (503, {}, {})
    more = ["--set", "scenario.splits=1", "--set", "policy.retries=1", "--out", "r"]
    assert command("run", "frozen-lake", "--method", "none", "--model", server.model, *SMALL, *more)[0] == 0
    cell = done(tmp_path / "r", "init")["measures"][0]["variants"]["learner"][0]
    assert (cell["scores"], cell["statuses"], cell["counts"]["failed"]) == ([None], ["infra_error"], 1)
    assert cell["counts"]["retries"] == 5  # the player asks three times, the policy twice each


def test_a_learner_of_weights_refuses_an_endpoint(server, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, _, err = command("run", "frozen-lake", "--method", "sft", "--model", server.model)
    assert (code, "does not offer" in err, server.asked) == (2, True, [])


@pytest.mark.parametrize(("concurrency", "requests"), [(1, 5), (3, 12), (8, 4)])
def test_requests_are_parallel_up_to_concurrency_and_keep_their_order(concurrency, requests, server):
    together, end = min(concurrency, requests), time.monotonic() + 5

    def script(body, number):
        while server.most < together and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(0.01 if number % 2 else 0.0)
        return reply(body["messages"][1]["content"])

    server.script = script
    policy = OpenAI(server.model, concurrency=concurrency)
    samples = policy.sample([request(str(number)) for number in range(requests)])
    assert [sample.text for sample in samples] == [str(number) for number in range(requests)]
    assert server.most == together
    assert policy.sample([]) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"concurrency": 0}, "policy.concurrency = 0"),
        ({"timeout": 0.0}, "policy.timeout = 0.0"),
        ({"retries": -1}, "policy.retries = -1"),
        ({"price_in": -0.5}, "policy.price_in = -0.5"),
        ({"price_out": -0.5}, "policy.price_out = -0.5"),
        ({"model": "openai:"}, "policy.model = 'openai:'"),
        ({"model": "openai:@http://127.0.0.1/v1"}, "policy.model = 'openai:@...'"),
        ({"model": "openai:x@127.0.0.1:8000/v1"}, "policy.model = 'openai:x@...'"),
        ({"model": f"openai:x@http://me:{KEY}@127.0.0.1/v1"}, "policy.model = 'openai:x@...'"),
        ({"model": f"openai:x@http://{KEY}@127.0.0.1/v1"}, "no user, password or query"),
        ({"model": f"openai:x@http://127.0.0.1/v1?key={KEY}"}, "policy.model"),
        ({"model": f"openai:x@http://127.0.0.1:{KEY}/v1"}, "policy.model"),
        ({"model": "openai:x@http:///v1"}, "policy.model"),
        ({"model": "openai:x@https://example.org/v1"}, "policy.key = 'OPENAI_API_KEY'"),
        ({"model": "openai:x"}, "policy.key = 'OPENAI_API_KEY'"),
        ({"model": "openai:x", "offline": True}, "'openai:x@https://api.openai.com/v1' is not on this machine"),
        ({"model": "openai:x@http://localhost.example.org", "offline": True}, "--offline"),
        ({"key": KEY}, "policy.key is no name"),
        ({"key": "hf_" + KEY[3:].replace("-", "")}, "policy.key is no name"),
    ],
    ids=str,
)
def test_bad_settings_are_one_line(settings, said, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ClaasbenchError) as error:
        OpenAI(**{"model": "openai:x@http://127.0.0.1:1/v1", **settings})
    line = str(error.value)
    assert said in line
    assert "\n" not in line
    assert KEY not in line
    assert KEY[3:].replace("-", "") not in line


def test_what_is_no_key_is_refused_unseen(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nX-More: {KEY}")
    with pytest.raises(ClaasbenchError, match="is no key") as error:
        OpenAI("openai:x")
    assert KEY not in str(error.value)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "127.8.8.8", "localhost:8000", "[::1]:8000"])
def test_this_machine_needs_no_key(host, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    policy = OpenAI(f"openai:org/name@2024@http://{host}/v1/", offline=True)
    assert policy.served == f"openai:org/name@2024@http://{host}/v1"


def test_ids_count_before_what_an_endpoint_says():
    samples = [Sample("a", counted=(5, 2)), Sample("b", (1, 2, 3), (4,), counted=(9, 9)), Sample("c")]
    turns = tuple(Turn(Prompt(()), sample) for sample in samples)
    episode = Episode("t", "c", "k", Place("s", 0), 0, "episode", turns, 1.0, "ok", {})
    assert (tally(episode)["prompt_tokens"], tally(episode)["reply_tokens"]) == (8, 3)
