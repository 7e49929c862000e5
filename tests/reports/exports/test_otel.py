"""Traces hold what a trial holds, by OpenTelemetry's conventions, and a collector takes them."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from hypothesis import HealthCheck, given, settings
from msgspec.structs import asdict, replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from pytest_agenteval.cli.main import main
from pytest_agenteval.records.transcript import Event
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.exports import otel
from pytest_agenteval.reports.exports.otel import provider_name, send_run, trial_spans
from pytest_agenteval.reports.exports.otel_sdk import Collector, otlp_json, service
from pytest_agenteval.store.run_folder import RunHeader, RunModel
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from tests.forked_workers import run_python
from tests.fresh_imports import FORGET
from tests.reports.exports.collector import collecting
from tests.reports.exports.talk import CLAUDE, NEVER_BEGUN, TALK, store_talks
from tests.store.samples import TRIALS

RUN = Run(Path("r"), RunHeader("2026-11-21T09:30:15+00:00", name="r", models=(CLAUDE,)), (), ())
GOLDEN = Path(__file__).parent / "golden"
"""Spans as reviewed, written anew by ``python -m tests.reports.exports.test_otel``."""


@pytest.fixture(autouse=True)
def _no_settings_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A stored run of two trials."""
    return store_talks(tmp_path_factory.mktemp("runs"))


def exported(run: Run) -> list[ReadableSpan]:
    """Send a run to the SDK's own exporter that keeps what it is given."""
    memory = InMemorySpanExporter()
    send_run(run, Collector(memory))
    return list(memory.get_finished_spans())


SPANS = {"talk": (TALK, True), "talk_without_content": (TALK, False), "never_begun": (NEVER_BEGUN, True)}


def as_json(name: str) -> str:
    """Give the spans of a trial, with what was said or without."""
    trial, content = SPANS[name]
    spans = [asdict(span) for span in trial_spans(RUN, trial, content=content)]
    return json.dumps(spans, ensure_ascii=False, indent=1, default=asdict) + "\n"


@pytest.mark.parametrize("name", SPANS)
def test_spans_are_as_reviewed(name: str) -> None:
    """Names of the conventions, times of the trial, grades as events; what is not known is not there."""
    assert as_json(name) == (GOLDEN / f"spans_{name}.json").read_text(encoding="utf-8")


def test_a_failed_operation_is_an_error_and_a_missed_trial_is_none(run: Run) -> None:
    """By the SDK's status; a call of a model leaves the process, unless the model is ours."""
    root, first, _, _, search, save, *_, broken = exported(run)

    assert root.parent is None
    assert {span.parent.span_id for span in (first, search, save) if span.parent} == {root.context.span_id}
    assert (root.status.status_code, search.status.status_code) == (StatusCode.UNSET, StatusCode.UNSET)
    assert save.status.status_code is broken.status.status_code is StatusCode.ERROR
    assert broken.status.description == "503 from the provider"
    assert (first.kind, search.kind) == (SpanKind.CLIENT, SpanKind.INTERNAL)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)


def test_what_was_said_is_left_out_unless_it_is_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conventions want content to be asked for, by the variable that OpenTelemetry has for it."""
    plain = [text for span in exported(run) for text in _texts(span.attributes)]
    assert not [text for text in plain if "Mina" in text or text == "id"]

    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    asked = exported(run)[1]
    assert "Say hello to Mina." in str((asked.attributes or {})["gen_ai.input.messages"])


def test_a_collector_takes_the_spans(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without ``-o``: over HTTP where OTEL_EXPORTER_OTLP_ENDPOINT says, with its headers; twice the same."""
    with collecting() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=evals")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci")
        assert main(["report", str(run.folder), "--as", "otel"]) == 0
        first = received.spans
        assert main(["report", str(run.folder), "--as", "otel"]) == 0

    says = f"{run.folder.name}: 2 traces, 9 spans sent to {received.address}/v1/traces\n"
    assert capsys.readouterr().out == says * 2
    assert received.paths == ["/v1/traces"] * 2
    assert received.headers[0]["x-team"] == "evals"
    assert [span.SerializeToString() for span in received.spans[len(first) :]] == [
        span.SerializeToString() for span in first
    ]
    assert first[0].name == "invoke_agent greeter"
    assert first[1].parent_span_id == first[0].span_id
    resource = received.requests[0].resource_spans[0].resource.attributes
    named = {attribute.key: attribute.value.string_value for attribute in resource}
    assert (named["service.name"], named["deployment.environment.name"]) == ("agenteval", "ci")


def test_whole_traces_are_sent_in_several_requests(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of any size: what waits to be sent is bounded."""
    monkeypatch.setattr(otel, "BATCH", 1)
    with collecting() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.address)
        assert main(["report", str(run.folder), "--as", "otel"]) == 0

    assert len(received.requests) == 2
    assert len(received.spans) == 9


def test_a_collector_that_refuses_is_told_in_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where to, why, and what else can be done; exit status 2."""
    with collecting(status=403) as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.address)
        assert main(["report", str(run.folder), "--as", "otel"]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"agenteval: {received.address}/v1/traces: the collector did not accept the spans ("
    )
    assert "403" in line
    assert "-o DIR" in line


def test_where_nothing_listens_the_system_says_why(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, and not what three libraries wrapped around it."""
    with collecting() as closed:
        pass
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", closed.address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")

    assert main(["report", str(run.folder), "--as", "otel"]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert "(" in line
    assert len(line) < 300


def _hex_to_base64(line: str) -> str:
    data = json.loads(line)
    for resource in data["resourceSpans"]:
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in span:
                    span[name] = b64encode(bytes.fromhex(span[name])).decode()
    return json.dumps(data)


def test_files_hold_what_a_collector_would_take(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``-o DIR``: a line of OTLP's JSON for each trial, ids in hex, read back by OpenTelemetry's messages."""
    assert main(["report", str(run.folder), "--as", "otel", "-o", str(tmp_path / "out")]) == 0

    path = Path(capsys.readouterr().out.strip())
    assert path == tmp_path / "out" / f"{run.folder.name}.otlp.jsonl"
    lines = path.read_text().splitlines()
    requests = [Parse(_hex_to_base64(line), ExportTraceServiceRequest()) for line in lines]
    spans = [span for request in requests for span in request.resource_spans[0].scope_spans[0].spans]
    assert [span.name for span in spans][:2] == ["invoke_agent greeter", "chat anthropic/claude-sonnet-4-5"]
    assert [span.span_id for span in spans] == [
        span.context.span_id.to_bytes(8, "big") for span in exported(run)
    ]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TRIALS)
def test_every_trial_makes_spans_that_can_be_sent(trial: Trial) -> None:
    """Whatever agents, providers and importers leave: in one trace, within its root."""
    spans = trial_spans(RUN, trial, content=True)

    assert all(0 <= span.start_ns <= span.end_ns for span in spans)
    assert len({span.trace_id for span in spans}) == 1
    assert {span.parent_id for span in spans[1:]} <= {spans[0].span_id}
    begin, end = spans[0].start_ns, spans[0].end_ns
    assert all(begin <= span.start_ns and span.end_ns <= end for span in spans)
    assert all(begin <= event.at_ns <= end for span in spans for event in span.events)
    line = json.loads(otlp_json(spans, service()))
    assert len(line["resourceSpans"][0]["scopeSpans"][0]["spans"]) == len(spans)


def test_an_event_after_the_agents_end_stands_at_its_end() -> None:
    """A limit is told a moment later, and judges are asked later still: all of it is within the trace."""
    late = (Event(3.501, "limit", "seconds"), Event(9.0, "judge_ask", "gpt"))
    trial = replace(TALK, transcript=replace(TALK.transcript, events=late))
    root = trial_spans(RUN, trial)[0]
    assert [event.at_ns for event in root.events[:2]] == [root.end_ns, root.end_ns]


def test_ids_tell_trials_and_attempts_apart() -> None:
    """An attempt that was made again is another trace."""
    trials = [TALK, replace(TALK, attempt=2), NEVER_BEGUN, replace(TALK, key=TALK.key._replace(repetition=3))]
    ids = sorted(trial_spans(RUN, trial)[0].trace_id for trial in trials)
    assert all(one != next_one for one, next_one in pairwise(ids))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (RunModel("rules", "rules", offline=True), "agenteval"),
        (RunModel("g", "gpt-4o"), "openai"),
        (RunModel("c", "claude-sonnet-4-5"), "anthropic"),
        (RunModel("b", "bedrock/anthropic.claude"), "aws.bedrock"),
        (RunModel("m", "ollama/llama3"), "ollama"),
        (RunModel("x", "some-model"), "litellm"),
    ],
)
def test_providers_have_the_names_of_the_conventions(model: RunModel, name: str) -> None:
    """As far as an id tells; nothing is guessed of others."""
    assert provider_name(model) == name


def test_no_secret_and_no_half_of_a_pair_is_sent(tmp_path: Path) -> None:
    """A run may be older than what is known of secrets now; half of a surrogate pair cannot be sent."""
    run = store_talks(tmp_path, replace(NEVER_BEGUN, message="no tr0ub4dor-and-3 \ud83d", traceback=""))
    KNOWN_SECRETS.know(["tr0ub4dor-and-3"])
    try:
        (span,) = exported(run)
    finally:
        KNOWN_SECRETS.forget()
    assert span.status.description == "no <redacted> ?"
    assert (span.events[0].attributes or {})["exception.message"] == "no <redacted> ?"


def test_without_opentelemetry_a_line_says_what_to_install(run: Run) -> None:
    """And whoever does not ask for traces never imports it."""
    code = FORGET.format(forgotten=("pytest_agenteval", "opentelemetry")) + (
        "for name in ('opentelemetry', 'google.protobuf'): sys.modules[name] = None\n"
        "from pytest_agenteval.cli.main import main\n"
        f"sys.exit(main(['report', {str(run.folder)!r}, '--as', 'otel', '-o', 'nowhere']))"
    )
    done = run_python("-c", code)

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("agenteval: --as otel needs OpenTelemetry")
    assert line.endswith("pip install 'pytest-agenteval[otel]'")


if __name__ == "__main__":
    for shown in SPANS:
        (GOLDEN / f"spans_{shown}.json").write_text(as_json(shown), encoding="utf-8", newline="\n")
