"""What is said: plain texts, instructions, pictures, sounds, files, and contents that are empty."""

from __future__ import annotations

from .conversation import (
    ADD,
    OK,
    Ask,
    Conversation,
    ReplyPlan,
    called,
    once,
    result,
    said,
    system,
    text,
    user,
)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
LINKED = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
DETAILED = {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{PIXEL}", "detail": "low"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
PDF = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}
UPLOADED = {"type": "file", "file": {"file_id": "file-abc"}}

CONVERSATIONS = (
    Conversation("plain", once(), [OK]),
    Conversation("several turns", (*once(), *once(user("And 3 more?")), *once(user("Sure?"))), [OK]),
    Conversation(
        "unicode", once(user("한국어 日本語 🙂 e\u0301 \u202e")), [ReplyPlan(text="안녕 🙂🙃 \u00a0")]
    ),
    Conversation(
        "line separators",
        once(user("a\u2028b")),
        [ReplyPlan(text="a\u2028b\u0085c")],
    ),
    Conversation("lone surrogate", once(user("broken \ud83d text")), [OK]),
    Conversation("control characters", once(user("a\x00b\x07c\r\nd\t")), [ReplyPlan(text="\x00\x07\r\n\t")]),
    Conversation("long", once(user("word " * 5000)), [ReplyPlan(text="answer " * 200)]),
    Conversation("blank reply", once(), [ReplyPlan(text="  \n ")]),
    Conversation("empty reply", once(), [ReplyPlan(text="")]),
    Conversation("system", once(system("Be terse."), user("Hi")), [OK]),
    Conversation("two systems", once(system("Be terse."), system("Be kind."), user("Hi")), [OK]),
    Conversation(
        "late system", once(system("One."), user("Hi"), said("Hello"), system("Two."), user("Go")), [OK]
    ),
    Conversation("developer", once({"role": "developer", "content": "Be terse."}, user("Hi")), [OK]),
    Conversation("system in parts", once(system([text("Be terse."), text("Be kind.")]), user("Hi")), [OK]),
    Conversation(
        "cached system",
        once(system([{**text("Be terse."), "cache_control": {"type": "ephemeral"}}]), user("Hi")),
        [OK],
    ),
    Conversation("picture", once(user(text("What is it?"), PICTURE)), [OK]),
    Conversation("linked picture", once(user(LINKED, text("And this?"), DETAILED)), [OK]),
    Conversation("picture alone", once(user([PICTURE])), [OK]),
    Conversation("sound", once(user(text("Listen"), SOUND)), [OK]),
    Conversation("file", once(user(text("Read"), PDF)), [OK]),
    Conversation("uploaded file", once(user(text("Read"), UPLOADED)), [OK]),
    Conversation(
        "picture as a result",
        (
            Ask((user("Look"),), tools=[ADD]),
            Ask(results=[[text("here"), PICTURE]], tools=[ADD]),
        ),
        [ReplyPlan(calls=(("add", {"a": 1, "b": 2}),)), OK],
        ends="tool_calls stop",
    ),
    Conversation(
        "file as a result",
        (Ask((user("Look"),), tools=[ADD]), Ask(results=[[text("here"), PDF]], tools=[ADD])),
        [ReplyPlan(calls=(("add", {"a": 1, "b": 2}),)), OK],
        ends="tool_calls stop",
    ),
    Conversation("users in a row", once(user("One"), user("Two"), user("Three")), [OK]),
    Conversation("assistants in a row", once(user("One"), said("Two"), said("Three"), user("Four")), [OK]),
    Conversation("assistant first", once(said("Hello"), user("Hi")), [OK]),
    Conversation("named user", once(user("Hi", name="mina")), [OK]),
    Conversation("empty user", once(user("")), [OK]),
    Conversation("blank user", once(user("  \n")), [OK]),
    Conversation("empty system", once(system(""), user("Hi")), [OK]),
    Conversation("empty assistant", once(user("Hi"), said(""), user("Hello?")), [OK]),
    Conversation("no content", once(user("Hi"), said(None), user("Hello?")), [OK]),
    Conversation(
        "empty result",
        once(user("Go"), called(("call_1", "add", "{}")), result("call_1", ""), tools=[ADD]),
        [OK],
    ),
    Conversation("blank parts", once(user(text(""), text("Hi"), text(" "))), [OK]),
    Conversation("prefill", once(user("Count"), said("One, two,")), [OK]),
    Conversation("prefill with blanks", once(user("Count"), said("One, two, \n")), [OK]),
    Conversation("refused text", once(user("Hi"), said(None, refusal="No.")), [OK]),
    Conversation("several texts", once(user(text("One"), text("Two"))), [OK]),
)
