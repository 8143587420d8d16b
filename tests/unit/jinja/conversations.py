"""Conversations that every template of a model maker is rendered with."""

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather",
        "description": "Current weather & forecast for a <place>.",
        "parameters": {"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Name, e.g. \"Zürich\""},
            "days": {"type": "integer", "default": 3, "minimum": 1, "maximum": 18446744073709551615},
            "units": {"type": "string", "enum": ["metric", "imperial"]},
            "detail": {"type": ["string", "null"]},
            "box": {"type": "object", "properties": {
                "lat": {"type": "number", "default": 1e-7}, "on": {"type": "boolean", "default": False}}},
            "tags": {"type": "array", "items": {"type": "string"}}}}}},
    {"type": "function", "function": {
        "name": "now", "description": "Time", "parameters": {"type": "object", "properties": {}}}},
]
FLAT_TOOLS = [tool["function"] for tool in TOOLS]
DOCUMENTS = [
    {"title": "One", "text": "First text.", "snippet": "first"},
    {"title": "Zwei", "text": "Zweiter Text: ünï", "snippet": "second"},
]


def call(name="get_weather", arguments=None, **more):
    arguments = {"city": "Zürich", "days": 2} if arguments is None else arguments
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def tool(text, **more):
    return {"role": "tool", "content": text, **more}


def dialogues():
    """Pairs of a name and a message list."""
    tricky = "a <|im_end|> [INST] {{ x }} {% y %} \"q\" 'p' \\ \t\n  \n\u00a0é 漢字 🎉\u200b </s> "
    yield "user", [user("Hi")]
    yield "spaces", [user("  padded \n\n")]
    yield "system", [system("Be brief."), user("Hi")]
    yield "turns", [user("One"), assistant("1"), user("Two"), assistant("2"), user("Three")]
    yield "system-turns", [system("S"), user("One"), assistant("1"), user("Two")]
    yield "ends-assistant", [user("One"), assistant("Partial answer")]
    yield "unicode", [system(tricky), user(tricky), assistant(tricky), user(tricky)]
    yield "empty", [system(""), user(""), assistant(""), user("")]
    yield "none-content", [user("x"), assistant(None), user("y")]
    yield "missing-content", [{"role": "user"}]
    yield "missing-role", [{"content": "x"}]
    yield "no-messages", []
    yield "wrong-order", [assistant("first"), user("then")]
    yield "two-users", [user("a"), user("b")]
    yield "two-assistants", [user("a"), assistant("b"), assistant("c")]
    yield "late-system", [user("a"), system("late"), user("b")]
    yield "unknown-role", [user("a"), {"role": "critic", "content": "hm"}]
    yield "developer", [{"role": "developer", "content": "Dev rules"}, user("a")]
    yield "system-only", [system("alone")]
    yield "parts", [user([{"type": "text", "text": "part one"}, {"type": "text", "text": " two"}])]
    yield "image-part", [user([{"type": "image"}, {"type": "text", "text": "what?"}])]
    yield "system-parts", [system([{"type": "text", "text": "Sys"}]), user("a")]
    think = "<think>\nhmm, \u00fcber\n</think>\n\nThe answer"
    yield "think", [user("q"), assistant(think), user("again"), assistant(think)]
    yield "reasoning", [user("q"), assistant("A", reasoning_content="because\n"), user("r"),
                        assistant("B", reasoning_content="so")]
    yield "thinking", [user("q"), assistant("A", thinking="because"), user("r"),
                       assistant("B", thinking="so")]
    yield "no-think", [system("Talk. /no_think"), user("q /no_think"), assistant("A")]
    calls = [user("Weather?"), assistant("", tool_calls=[call(id="abcdefghi")]),
             tool("{\"t\": 21}", name="get_weather", tool_call_id="abcdefghi"), assistant("21."),
             user("Thanks")]
    yield "tool-call", calls
    yield "tool-call-system", [system("S")] + calls
    yield "tool-call-open", calls[:2]
    yield "tool-call-result", calls[:3]
    yield "tool-call-thinking", [user("W?"), assistant(None, thinking="call it",
                                                       tool_calls=[call(id="abcdefghi")]),
                                 tool({"t": 21, "ok": True}, tool_call_id="abcdefghi"), user("and?")]
    text_arguments = "{\"city\": \"B\\u00e9rn <\", \"n\": 1.0}"
    yield "string-arguments", [user("W?"), assistant("sure", tool_calls=[
        call(arguments=text_arguments, id="abcdefghi")]), tool("ok", tool_call_id="abcdefghi"), user("?")]
    yield "two-calls", [user("W?"), assistant("", tool_calls=[
        call(id="aaaaaaaaa"), call("now", {}, id="bbbbbbbbb")]),
        tool("1", tool_call_id="aaaaaaaaa"), tool("2", tool_call_id="bbbbbbbbb"), assistant("done")]
    yield "odd-arguments", [user("W?"), assistant("", tool_calls=[call(arguments={
        "s": "a\"b\\c\n", "n": None, "t": True, "f": 0.1, "big": 12345678901234567890,
        "exp": 1e22, "list": [1, [2.5, "x"]], "nested": {"k": {"z": []}}}, id="abcdefghi")]),
        tool([{"r": 1}], tool_call_id="abcdefghi")]
    yield "bare-call", [user("W?"), assistant("", tool_calls=[
        {"name": "get_weather", "arguments": {"city": "X"}}]), tool("r"), user("go on")]
    yield "short-id", [user("W?"), assistant("", tool_calls=[call(id="a")]), tool("r", tool_call_id="a")]
    yield "content-type-int", [user(5)]
    yield "many", [m for i in range(20) for m in (user(f"q{i}"), assistant(f"a{i}"))] + [user("end")]


def extras():
    """Pairs of a name and what stands beside the messages."""
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    yield "plain", dict(tokens)
    yield "prompt", dict(tokens, add_generation_prompt=True)
    yield "no-prompt", dict(tokens, add_generation_prompt=False)
    yield "no-tokens", dict(add_generation_prompt=True)
    yield "tools", dict(tokens, tools=TOOLS, add_generation_prompt=True)
    yield "flat-tools", dict(tokens, tools=FLAT_TOOLS, add_generation_prompt=True)
    yield "null-tools", dict(tokens, tools=None, documents=None, add_generation_prompt=True)
    yield "empty-tools", dict(tokens, tools=[], add_generation_prompt=True)
    yield "documents", dict(tokens, documents=DOCUMENTS, add_generation_prompt=True)
    yield "options", dict(tokens, tools=TOOLS, add_generation_prompt=True, enable_thinking=False,
                          thinking=True, controls={"length": "short", "originality": "abstractive"},
                          reasoning_effort="high", builtin_tools=["browser", "python"],
                          model_identity="You are T.", xml_tools=TOOLS, python_tools=TOOLS,
                          date_string="1 Jan 2030", citations=True, custom_instructions="Do.",
                          tools_in_user_message=False, available_tools=FLAT_TOOLS,
                          safety_mode="NONE", skip_thinking=True, clear_thinking=False)


def matrix():
    """All combinations: names and contexts."""
    for name, messages in dialogues():
        for other, extra in extras():
            yield f"{name}/{other}", dict(extra, messages=messages)
