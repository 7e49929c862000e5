"""What users may type as a model, and which key is missing for it."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval.chat.models import SHIPPED, Aliases, expand_panels, missing_key, resolve, resolve_all
from pytest_agenteval.records.plan import Model
from pytest_agenteval.text.errors import UsageMistake

OFFLINE = frozenset({"rules", "nop"})
PANELS = {"ko": ("openai/gpt-4o", "claude", "gemini")}


def test_each_kind_of_name_finds_its_model() -> None:
    """Offline models, shipped aliases, litellm ids and the user's aliases, which beat the shipped ones."""
    mine: Aliases = {
        "claude": "anthropic/claude-opus-5-5",
        "hot": {"id": "gpt", "temperature": 1.5},
        "dry": "nop",
    }
    assert resolve("nop", {}, OFFLINE) == Model("nop", "nop", offline=True)
    assert resolve("claude", {}, OFFLINE) == Model("claude", SHIPPED["claude"], via="direct")
    assert resolve(" openai/gpt-5.5 ", {}, OFFLINE) == Model("openai/gpt-5.5", "openai/gpt-5.5", via="direct")
    assert resolve("claude", mine, OFFLINE).id == "anthropic/claude-opus-5-5"
    hot = Model("hot", SHIPPED["gpt"], params={"temperature": 1.5}, via="direct")
    assert resolve("hot", mine, OFFLINE) == hot
    assert resolve("dry", mine, OFFLINE).offline


@pytest.mark.parametrize(
    ("table", "via"),
    [
        ({"id": "gpt"}, "direct"),
        ({"id": "openai/responses/gpt-6.1-sol"}, "litellm"),
        ({"id": "hosted_vllm/qwen", "api_base": "http://h/v1", "extra_body": {"top_k": 2}}, "direct"),
        ({"id": "vllm/qwen", "dtype": "bfloat16"}, "direct"),
        ({"id": "claude", "params": {"thinking": {"type": "adaptive"}}}, "litellm"),
        ({"id": "gemini"}, "litellm"),
        ({"id": "anthropic/claude-of-tomorrow"}, "litellm"),
        ({"id": "gpt", "via": "litellm"}, "litellm"),
        ({"id": "gpt", "via": "direct"}, "direct"),
        ({"id": "hf/qwen"}, ""),
        ({"id": "nop"}, ""),
    ],
)
def test_a_model_is_asked_directly_where_that_says_the_same(table: dict[str, Any], via: str) -> None:
    """By litellm where only it knows the provider or a parameter, and where the user says so."""
    assert resolve("mine", {"mine": table}, OFFLINE).via == via


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"id": "gemini", "via": "direct"}, r"begins with openai/, anthropic/, hosted_vllm/; found gemini/"),
        ({"id": "gpt", "via": "direct", "params": {"n_best": 2}}, r"params.n_best is a parameter that only"),
        ({"id": "hf/qwen", "via": "litellm"}, r"expected a model that is reached over HTTP; found hf/qwen"),
        ({"id": "openai/responses/x", "via": "direct"}, r"responses API is reached through litellm"),
        ({"id": "gpt", "via": "http"}, r"via: expected direct or litellm, found 'http'"),
    ],
)
def test_a_way_that_does_not_lead_to_a_model_is_refused(table: dict[str, Any], problem: str) -> None:
    """With the name of the model's table, before anything is asked."""
    with pytest.raises(UsageMistake, match=rf"models\] mine: .*{problem}"):
        resolve("mine", {"mine": table}, OFFLINE)


def test_a_table_holds_params_and_the_name_of_a_key() -> None:
    """Settings and what stands under params go to the provider; dates and ``@`` are fine in an id."""
    table = {
        "id": "vertex_ai/claude@20250929",
        "api_base": "http://localhost:8000",
        "api_key_env": "LOCAL_KEY",
        "request_seconds": 5,
        "stream": True,
        "params": {"thinking": "low"},
    }
    model = resolve("local", {"local": table}, OFFLINE)
    assert (model.id, model.api_key_env) == ("vertex_ai/claude@20250929", "LOCAL_KEY")
    assert model.params == {
        "api_base": "http://localhost:8000",
        "request_seconds": 5,
        "stream": True,
        "thinking": "low",
    }


@pytest.mark.parametrize(
    "typed", ["모델", "a/b[c]", "a/b::c", "vertex_ai/x@1", "a b/c", "a/b\n1", "a/b]", "é/x", "a/b,c"]
)
def test_a_name_that_cannot_stand_in_a_test_id_needs_an_alias(typed: str) -> None:
    """The text says how to make one."""
    with pytest.raises(UsageMistake, match=r"add `short_name = .*` to \[tool.agenteval.models\]"):
        resolve(typed, {}, OFFLINE)


@pytest.mark.parametrize(
    ("typed", "aliases", "message"),
    [
        ("", {}, "needs a name"),
        ("cluade", {}, "did you mean 'claude'?"),
        ("rulse", {}, "did you mean 'rules'?"),
        ("gpt-5-mini", {}, "did you mean 'openai/gpt-5-mini'?"),
        ("baseline", {}, "it is called 'rules' now"),
        ("a", {"a": {"temperature": 1}}, "the key `id` is missing"),
        ("a", {"a": "no-provider"}, "expected an id such as"),
        ("a", {"a": 3}, "expected a litellm id or a table"),
        ("a", {"a": {"id": "x/y", "api_key": "sk-1"}}, "name its environment variable with api_key_env"),
        ("a", {"a": {"id": "x/y", "stream": "yes"}}, "stream: expected true or false, found 'yes'"),
        ("a", {"a": {"id": "x/y", "stream": 1}}, "stream: expected true or false, found 1"),
        ("a", {"a": {"id": "x/y", "stream_options": {}}}, "stream_options cannot be set"),
        ("a", {"a": {"id": "x/y", "temperature": "warm"}}, "temperature: expected a number, 0 or more"),
        ("a", {"a": {"id": "x/y", "temperature": True}}, "temperature: expected"),
        ("a", {"a": {"id": "x/y", "max_tokens": 0.5}}, "max_tokens: expected a whole number"),
        ("a", {"a": {"id": "x/y", "request_seconds": 0}}, "request_seconds: expected"),
        (
            "a",
            {"a": {"id": "x/y", "api_bas": "http://h"}},
            "api_bas: unknown; one of api_base, params, api_key_env, via, ",
        ),
        ("a", {"a": {"id": "x/y", "api_bas": "http://h"}}, "did you mean 'api_base'?"),
        ("a", {"a": {"id": "x/y", "max_token": 5}}, "did you mean 'max_tokens'?"),
        ("a", {"a": {"id": "x/y", "top_k": 5}}, "params = {top_k = 5}"),
        ("a", {"a": {"id": "x/y", "reasoning_effort": 3}}, "reasoning_effort: expected the provider's word"),
        ("a", {"a": {"id": "x/y", "extra_body": "low"}}, "extra_body: expected a table"),
        (
            "a",
            {"a": {"id": "x/y", "device": "cuda"}},
            "device: expected a model that begins with hf/",
        ),
        (
            "a",
            {"a": {"id": "hf/y", "serve_args": ["-q"]}},
            "expected a model that begins with vllm/",
        ),
        ("a", {"a": {"id": "hf/y", "device": "cuda:x"}}, "device: expected auto, cpu, cuda, cuda:N or mps"),
        ("a", {"a": {"id": "hf/y", "dtype": "half"}}, "dtype: expected one of auto, float32"),
        ("a", {"a": {"id": "hf/y", "quantization": "awq"}}, "quantization: expected one of 4bit, 8bit"),
        ("a", {"a": {"id": "vllm/y", "gpu_memory_utilization": 9}}, "expected a share above 0, 1 at most"),
        ("a", {"a": {"id": "x/y", "params": "low"}}, "params: expected a table with parameters for litellm"),
        ("a", {"a": {"id": "x/y", "params": {"api_base": "b"}}}, "api_base belongs beside params, not in it"),
        (
            "a",
            {"a": {"id": "x/y", "params": {"api_key": "sk-1"}}},
            "name its environment variable with api_key_env",
        ),
        ("a", {"a": {"id": "x/y", "params": {"timeout": 5}}}, "params.timeout cannot be set"),
        ("a", {"a": {"id": "x/y", "seed": 1.5}}, "seed: expected a whole number"),
        ("nop", {"nop": "openai/gpt-5.5"}, "the name is that of an offline model"),
    ],
)
def test_mistakes_are_said_in_the_users_words(typed: str, aliases: Any, message: str) -> None:
    """Each names what to change; a key never stands in a file."""
    with pytest.raises(UsageMistake) as caught:
        resolve(typed, aliases, OFFLINE)
    assert message in str(caught.value)
    assert "sk-1" not in str(caught.value)


def test_a_list_keeps_its_order_and_names_nobody_twice() -> None:
    """Trials of one model under one name could not be told apart."""
    assert [model.name for model in resolve_all(["nop", "gpt"], {}, OFFLINE)] == ["nop", "gpt"]
    with pytest.raises(UsageMistake, match="'nop' is named more than once"):
        resolve_all(["nop", "gpt", " nop"], {}, OFFLINE)


@pytest.mark.parametrize(
    ("model", "environ", "missing"),
    [
        (Model("claude", "anthropic/x"), {}, "ANTHROPIC_API_KEY"),
        (Model("claude", "anthropic/x"), {"ANTHROPIC_API_KEY": ""}, "ANTHROPIC_API_KEY"),
        (Model("claude", "anthropic/x"), {"ANTHROPIC_API_KEY": "k"}, ""),
        (Model("g", "gemini/x"), {}, "GEMINI_API_KEY or GOOGLE_API_KEY"),
        (Model("g", "gemini/x"), {"GOOGLE_API_KEY": "k"}, ""),
        (Model("l", "openai/x", params={"api_base": "http://localhost"}), {}, ""),
        (Model("l", "openai/x", params={"api_base": "b"}, api_key_env="K"), {"OPENAI_API_KEY": "k"}, "K"),
        (Model("l", "openai/x", api_key_env="K"), {"K": "k"}, ""),
        (Model("b", "bedrock/x"), {}, ""),
        (Model("o", "ollama/x"), {}, ""),
        (Model("h", "hf/x"), {}, ""),
        (Model("v", "vllm/anthropic/x"), {}, ""),
        (Model("nop", "nop", offline=True), {}, ""),
    ],
)
def test_the_missing_key_is_named(model: Model, environ: dict[str, str], missing: str) -> None:
    """Only where one is needed and not there; providers with other ways to sign in are not checked."""
    assert missing_key(model, environ) == missing


def test_a_panel_stands_for_its_judges() -> None:
    """``ko`` is the three judges that Ko-AgentBench names; a user's alias of that name comes first."""
    assert expand_panels(["ko", "nop"], {}, PANELS) == ("openai/gpt-4o", "claude", "gemini", "nop")
    assert expand_panels(["ko"], {"ko": "openai/mine"}, PANELS) == ("ko",)
    assert len(resolve_all(expand_panels(["ko"], {}, PANELS), {}, OFFLINE)) == 3
