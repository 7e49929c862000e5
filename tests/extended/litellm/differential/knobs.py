"""Settings: of an ask, of an alias, in families of models that know other names or none; hosts and keys."""

from __future__ import annotations

from .conversation import ADD, OK, Conversation, Wire, once, settings, user

ALL = settings(temperature=0.3, max_tokens=500, top_p=0.8, seed=7)
FAMILIES: tuple[tuple[Wire, str], ...] = (
    ("chat", "openai/gpt-4o"),
    ("chat", "openai/gpt-4.1"),
    ("chat", "openai/gpt-5"),
    ("chat", "openai/gpt-5.1"),
    ("chat", "openai/gpt-5-chat-latest"),
    ("chat", "openai/gpt-5.5"),
    ("chat", "openai/gpt-6.1-sol"),
    ("chat", "openai/my/own-model"),
    ("chat", "hosted_vllm/my/own-model"),
    ("messages", "anthropic/claude-sonnet-4-5"),
    ("messages", "anthropic/claude-opus-4-6"),
    ("messages", "anthropic/claude-opus-4-7"),
    ("messages", "anthropic/claude-sonnet-5-5"),
    ("messages", "anthropic/claude-haiku-5-5"),
    ("messages", "anthropic/some-model"),
)

CONVERSATIONS = (
    *(
        Conversation(
            f"settings of {model.replace('/', ' ')}",
            (*once(settings=ALL), *once(tools=[ADD]), *once(settings=settings(temperature=1.0))),
            [OK],
            forms=("whole",),
            wires=(wire,),
            model={wire: model},
        )
        for wire, model in FAMILIES
    ),
    Conversation("alias wins", once(settings=ALL), [OK], params={"temperature": 0.0, "max_tokens": 77}),
    Conversation(
        "further settings",
        once(settings=settings(extra={"stop": ["END"], "presence_penalty": 0.5, "user": "me"})),
        [OK],
    ),
    Conversation(
        "one call at a time by an agent",
        once(tools=[ADD], settings=settings(tool_choice="required", extra={"parallel_tool_calls": False})),
        [OK],
    ),
    Conversation(
        "a mail address for a user", once(settings=settings(extra={"user": "me@example.com"})), [OK]
    ),
    Conversation("stop as a text", once(settings=settings(extra={"stop": "END"})), [OK]),
    Conversation("blank stop", once(settings=settings(extra={"stop": " "})), [OK]),
    Conversation(
        "extra body", once(), [OK], params={"extra_body": {"top_k": 5, "metadata": {"user_id": "u"}}}
    ),
    Conversation(
        "extra body over a setting",
        once(),
        [OK],
        params={"temperature": 0.2, "extra_body": {"temperature": 0.9}},
    ),
    Conversation(
        "sampling of local servers",
        once(),
        [OK],
        params={"extra_body": {"min_p": 0.1, "chat_template_kwargs": {"enable_thinking": False}}},
        wires=("chat",),
        model={"chat": "hosted_vllm/qwen3"},
    ),
    Conversation(
        "effort in extra body",
        once(),
        [OK],
        params={"extra_body": {"reasoning_effort": "low"}},
        wires=("chat",),
    ),
    Conversation(
        "settings that are null", once(settings=settings(extra={"top_p": None, "stop": None})), [OK]
    ),
    Conversation("temperature of 0", once(settings=settings(temperature=0.0)), [OK]),
    Conversation("warm above 1", once(settings=settings(temperature=1.7)), [OK]),
    Conversation("one token", once(settings=settings(max_tokens=1)), [OK]),
    Conversation("max_completion_tokens", once(settings=settings(extra={"max_completion_tokens": 90})), [OK]),
    Conversation(
        "logprobs",
        once(settings=settings(extra={"logprobs": True, "top_logprobs": 2})),
        [OK],
        wires=("chat",),
    ),
    Conversation(
        "verbosity", once(settings=settings(extra={"verbosity": "low"})), [OK], model={"chat": "openai/gpt-5"}
    ),
    Conversation(
        "kept key", once(settings=settings(extra={"prompt_cache_key": "k", "safety_identifier": "s"})), [OK]
    ),
    Conversation(
        "tools without effort stay",
        (*once(tools=[ADD]), *once(user("Hi"))),
        {"chat": [OK]},
        model={"chat": "openai/gpt-6.1-sol"},
    ),
    Conversation(
        "no tools stay at OpenAI's own",
        once(settings=ALL),
        {"chat": [OK]},
        model={"chat": "openai/gpt-6.1-sol"},
        host="eu.api.openai.com",
    ),
    Conversation(
        "older models stay at OpenAI's own",
        once(tools=[ADD]),
        {"chat": [OK]},
        model={"chat": "openai/gpt-5.1"},
        params={"reasoning_effort": "low"},
        host="eu.api.openai.com",
    ),
    Conversation(
        "a named key", once(), [OK], api_key_env="MY_KEY", environment={"MY_KEY": "sk-mine-0123456789"}
    ),
    Conversation(
        "nobody's key",
        once(),
        [OK],
        environment={"OPENAI_API_KEY": "sk-other-0123456789", "ANTHROPIC_API_KEY": "sk-other-9876543210"},
    ),
    Conversation("a named key that is not there", once(), [OK], api_key_env="MY_KEY", ends="!auth"),
)
