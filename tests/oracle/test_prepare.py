"""`python -m tensor_tracer prepare` beside the chat templates of `transformers`."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chats import CHATML, LLAMA3, MARKED, THINKING, conversations, plain, write_folder
from prepared import ROLES, prepare, prepared, write_lines
from program import REPOSITORY
from real_tokenizers import smollm2
from tensor_tracer.convert.gguf import convert_gguf
from tokenizers import Tokenizer
from transformers import AutoTokenizer

SUM = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]


@pytest.fixture(scope="module")
def chatml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("chatml") / "tokenizer", "chatml", plain(CHATML))


def of_transformers(folder: Path, messages: Any, **options: Any) -> tuple[list[int], list[int]]:
    """Ids and mask."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    made = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True, **options)
    return made["input_ids"], made["assistant_masks"]


@pytest.mark.parametrize("style", MARKED)
def test_ids_and_mask_are_those_of_transformers(style: str, tmp_path: Path) -> None:
    """With the template's generations and without them: then the turns are found by the program."""
    chats = conversations(60, has_tools=style != "mistral")
    marked = write_folder(tmp_path / "marked", style, MARKED[style])
    ids, masks = of_transformers(marked, chats)
    lines = [{"messages": messages} for messages in chats]
    found = prepared(marked, lines, tmp_path / "a")
    assert found.ids == ids and found.masks() == masks
    assert any(any(mask) for mask in masks) and all(not all(mask) for mask in masks)
    unmarked = write_folder(tmp_path / "unmarked", style, plain(MARKED[style]))
    again = prepared(unmarked, lines, tmp_path / "b")
    assert again.ids == ids and again.roles == found.roles


@pytest.mark.parametrize("style", ["chatml", "llama-3"])
def test_a_role_has_the_texts_of_its_messages(style: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tokenizer", style, plain(MARKED[style]))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    chats = [chat for chat in conversations(60, True) if all(message["content"].strip("\n ") == message["content"] and
             "<|im_end|>" not in message["content"] for message in chat)]  # fmt: skip
    assert len(chats) > 10
    found = prepared(folder, [{"messages": messages} for messages in chats], tmp_path / "out")
    for number, messages in enumerate(chats):
        for role in ROLES[1:]:
            texts = "".join(message["content"] for message in messages if message["role"] == role)
            assert found.texts_of(number, role, tokenizer) == texts, (number, role)


def test_prompt_and_response_are_two_messages(chatml: Path, tmp_path: Path) -> None:
    pairs = [{"prompt": "2+2?", "response": "4"}, {"prompt": " \n", "response": "é"}]
    found = prepared(chatml, pairs, tmp_path / "a")
    chats = [[{"role": "user", "content": one["prompt"]}, {"role": "assistant", "content": one["response"]}]
             for one in pairs]  # fmt: skip
    other = prepared(chatml, [{"messages": messages} for messages in chats], tmp_path / "b")
    assert (found.ids, found.roles) == (other.ids, other.roles) and found.ids == of_transformers(chatml, chats)[0]


def test_prompt_and_response_without_a_template(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tokenizer", "chatml", None)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    found = prepared(folder, [{"prompt": "Translate: Fluß\n", "response": "river"}], tmp_path / "out")
    end = tokenizer.token_to_id("<|end|>")
    assert found.ids == [[*tokenizer.encode("Translate: Fluß\nriver", add_special_tokens=False).ids, end]]
    assert found.texts_of(0, "user", tokenizer) == "Translate: Fluß\n"
    assert found.texts_of(0, "assistant", tokenizer) == "river"
    assert found.roles[0][-1] == ROLES.index("assistant") and found.manifest["chat_template_sha256"] is None


def test_texts_end_with_the_end_token(chatml: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(chatml / "tokenizer.json"))
    texts = ["def f(x): return x\n", "Привет, мир!", "a" * 70_000]
    found = prepared(chatml, [{"text": text} for text in texts], tmp_path / "out")
    end = tokenizer.token_to_id("<|end|>")
    assert found.ids == [[*tokenizer.encode(text, add_special_tokens=False).ids, end] for text in texts]
    assert {role for roles in found.roles for role in roles} == {found.manifest["roles"].index("assistant")}
    assert found.manifest["end_token"] == end


def test_tools_and_dates_reach_the_template(tmp_path: Path) -> None:
    template = LLAMA3.replace("{{- bos_token }}", "{{- bos_token }}{{ strftime_now('%Y') }}{% for i in [1, 2] %}"
                              "{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}")  # fmt: skip
    folder = write_folder(tmp_path / "tokenizer", "llama-3", template)
    tools = [{"type": "function", "function": {"name": "add <é>", "parameters": {}}}]
    found = prepared(folder, [{"messages": SUM, "tools": tools}], tmp_path / "out")
    ids, mask = of_transformers(folder, SUM, tools=tools)
    assert found.ids == [ids] and found.masks() == [mask]


def test_a_call_of_a_tool_is_the_assistants(tmp_path: Path) -> None:
    """It has no content, and the template writes it in another form."""
    said = "(message.tool_calls | tojson if message.tool_calls else message.content)"
    template = plain(CHATML).replace("message.content +", f"{said} +")
    folder = write_folder(tmp_path / "tokenizer", "chatml", template)
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "add"}}]}
    messages = [SUM[0], call, {"role": "tool", "content": "4"}, SUM[1]]
    found = prepared(folder, [{"messages": messages}], tmp_path / "out")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert found.texts_of(0, "assistant", tokenizer) == '[{"function": {"name": "add"}}]4'
    assert found.texts_of(0, "tool", tokenizer) == "4"
    assert found.ids[0].count(tokenizer.token_to_id("<|im_end|>")) == found.ids[0].count(
        tokenizer.token_to_id("<|im_start|>")) == 4  # fmt: skip


def test_an_empty_system_prompt_has_no_tokens(chatml: Path, tmp_path: Path) -> None:
    """And fields of other forms are not read."""
    messages = [{"role": "system", "content": ""}, *SUM]
    found = prepared(chatml, [{"messages": messages, "prompt": "2+2?", "text": 3}], tmp_path / "out")
    assert found.ids == [of_transformers(chatml, messages)[0]] and ROLES.index("system") not in found.roles[0]


THOUGHTS = [*SUM, {"role": "user", "content": "3+3?"}, {"role": "assistant", "content": "<think>three twice</think>6"}]


def test_rewritten_turns_are_refused_or_have_no_role(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tokenizer", "chatml", THINKING)
    data = write_lines(tmp_path / "data.jsonl", [{"messages": SUM}, {"messages": THOUGHTS}])
    done = prepare(data, "--tokenizer", folder, "--out", tmp_path / "out")
    assert done.returncode == 2 and f"{data}, line 2: message 2: the chat template writes it" in done.stderr
    found = prepared(folder, [{"messages": SUM}, {"messages": THOUGHTS}], tmp_path / "out", "--rewritten-turns", "none")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    said = ["<think>\n\n</think>\n\n4<|im_end|>", "<think>three twice</think>6<|im_end|>"]
    for number, (messages, text) in enumerate(zip([SUM, THOUGHTS], said, strict=True)):
        whole = tokenizer.apply_chat_template(messages, tokenize=False)
        assert found.ids[number] == tokenizer(whole, add_special_tokens=False).input_ids
        ids = [id for id, one in zip(found.ids[number], found.masks()[number], strict=True) if one]
        assert tokenizer.decode(ids) == text and whole.endswith(f"<|im_start|>assistant\n{text}\n")


def test_special_tokens_take_white_space_but_no_role(tmp_path: Path) -> None:
    """A header that swallows the space behind it (rstrip), and a post-processor that trims offsets."""
    template = "{% for message in messages %}{{ '<|head|>' + message.content + '<|end|>' }}{% endfor %}" \
               "{% if add_generation_prompt %}{{ '<|head|>' }}{% endif %}"  # fmt: skip
    folder = write_folder(tmp_path / "tokenizer", "chatml", template)
    whole = json.loads((folder / "tokenizer.json").read_text())
    next(token for token in whole["added_tokens"] if token["content"] == "<|head|>")["rstrip"] = True
    whole["post_processor"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    found = prepared(folder, [{"prompt": " hello", "response": " \n yes \n"}], tmp_path / "out")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    names = [(tokenizer.id_to_token(id), ROLES[role]) for id, role in zip(found.ids[0], found.roles[0], strict=True)]
    heads = [number for number, (name, _) in enumerate(names) if name == "<|head|>"]
    assert all(names[number][1] == "none" for number in heads) and len(heads) == 2
    assert all(role == "assistant" for _, role in names[heads[1] + 1:]) and names[-1] == ("<|end|>", "assistant")


@pytest.mark.parametrize("place", ["chat_template.jinja", "chat_template.json", "list"])
def test_a_template_stands_in_any_of_its_places(place: str, chatml: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tokenizer", "chatml", None if place == "chat_template.json" else "{{ bos_token }}")
    template = plain(CHATML)
    if place == "chat_template.jinja":
        (folder / place).write_text(template)
    elif place == "chat_template.json":
        (folder / place).write_text(json.dumps({"chat_template": template}))
    else:
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        settings["chat_template"] = [{"name": "tool_use", "template": "-"}, {"name": "default", "template": template}]
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    found = prepared(folder, [{"messages": SUM}], tmp_path / "out")
    assert found.ids == [of_transformers(chatml, SUM)[0]]
    assert found.manifest["chat_template_sha256"] == hashlib.sha256(template.encode()).hexdigest()


def test_the_manifest_describes_the_data(chatml: Path, tmp_path: Path) -> None:
    found = prepared(chatml, [{"messages": SUM}], tmp_path / "out")
    data = tmp_path / "out.jsonl"
    vocabulary, file = len(AutoTokenizer.from_pretrained(chatml)), chatml / "tokenizer.json"
    assert found.manifest == {
        "format": "tensor-tracer prepared data", "version": 1,
        "tokenizer_hash": hashlib.sha256(file.read_bytes()).hexdigest(),
        "vocab_size": vocabulary, "end_token": 2, "roles": ROLES, "documents": 1, "tokens": len(found.ids[0]),
        "source": {"file": str(data), "sha256": hashlib.sha256(data.read_bytes()).hexdigest()},
        "chat_template_sha256": hashlib.sha256(plain(CHATML).encode()).hexdigest(),
    }  # fmt: skip


def test_large_vocabularies_are_int32(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tokenizer", "chatml", plain(CHATML))
    whole = json.loads((folder / "tokenizer.json").read_text())
    for last, code in ((65498, 8), (65499, 4)):
        whole["model"]["vocab"]["<last>"] = last
        (folder / "tokenizer.json").write_text(json.dumps(whole))
        found = prepared(folder, [{"messages": SUM}], tmp_path / str(last))
        assert found.manifest["vocab_size"] == last + 1
        assert (tmp_path / str(last) / "data.idx").read_bytes()[17] == code


def test_many_documents_are_written_in_order(chatml: Path, tmp_path: Path) -> None:
    """More than one batch, with blank lines between."""
    texts = [f"number {number}" for number in range(700)]
    data = tmp_path / "data.jsonl"
    data.write_text("\n\n".join(json.dumps({"text": text}) for text in texts))
    done = prepare(data, "--tokenizer", chatml, "--out", tmp_path / "a")
    tokenizer = Tokenizer.from_file(str(chatml / "tokenizer.json"))
    found = prepared(chatml, [{"text": text} for text in texts], tmp_path / "b")
    assert [tokenizer.decode(ids) for ids in found.ids] == texts
    assert (tmp_path / "a" / "data.bin").read_bytes() == (tmp_path / "b" / "data.bin").read_bytes()
    longest, tokens = max(map(len, found.ids)), found.manifest["tokens"]
    summary = (
        f"700 documents, {tokens} tokens, 100.0 % of them of the assistant, the longest document has {longest}\n"
    )
    assert done.stdout == f"{tmp_path / 'a'}: {summary}"


USER, BOT = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
BAD_LINES = {
    '{"text": "a"': "it is not JSON",
    "[" * 100_000: "it is not JSON",
    '"text"': "it is no JSON object",
    "{}": "it has no field of these; a line has",
    '{"prompt": "a"}': 'the field "response" is missing',
    '{"text": "a", "messages": 1}': '"messages" is no list',
    '{"text": 1}': '"text" is no text',
    '{"text": ""}': '"text" is empty',
    '{"text": "\\ud800"}': "its text is not Unicode",
    '{"prompt": "a", "response": ""}': '"response" is empty',
    '{"messages": {}}': '"messages" is no list',
    '{"messages": []}': '"messages" is empty',
    '{"messages": [1]}': "message 1 is no JSON object",
    '{"messages": [{"content": "a"}]}': "message 1 has no role",
    '{"messages": [{"role": "user"}]}': "message 1 has no content",
    '{"messages": [{"role": "user", "content": [1]}]}': "message 1 has a content that is no text",
    '{"messages": [{"role": "user", "content": ""}]}': "message 1 is empty",
    json.dumps({"messages": [USER, BOT | {"role": "bot"}]}): 'message 2 has the role "bot"; known are system, user,',
    json.dumps({"messages": [USER, BOT | {"role": ["user"]}]}): 'message 2 has the role ["user"]',
    json.dumps({"messages": [USER]}): "no message has the role assistant",
    json.dumps({"messages": [USER, BOT], "tools": 1}): '"tools" is no list',
}


@pytest.mark.parametrize(("line", "told"), BAD_LINES.items(), ids=list(BAD_LINES.values()))
def test_a_bad_line_is_named(line: str, told: str, chatml: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("\n" + line + "\n")
    refuse(f"{data}, line 2: {told}", data, chatml, tmp_path)


def refuse(told: str, data: Path, tokenizer: Path, tmp_path: Path) -> None:
    done = prepare(data, "--tokenizer", tokenizer, "--out", tmp_path / "out")
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1, done.stderr[-2000:]
    assert done.stderr.startswith(f"prepare: {told}"), done.stderr
    assert not any(path.name.strip(".").startswith("out") for path in tmp_path.iterdir())


def test_forms_do_not_mix(chatml: Path, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", [{"text": "a"}, {"messages": SUM}])
    refuse(f'{data}, line 2: the line has "messages", and the lines before it have "text"', data, chatml, tmp_path)
    data.write_text("\n\n")
    refuse(f"{data}: the file has no line", data, chatml, tmp_path)
    data.write_bytes(b"\n" + b"[" * ((64 << 20) + 1))
    refuse(f"{data}, line 2: the line is longer than 64 MiB", data, chatml, tmp_path)
    refuse(f"{tmp_path / 'x'}: there is no such file", tmp_path / "x", chatml, tmp_path)


BAD_TEMPLATES = {
    "{% for %}": ("tokenizer_config.json: the chat template cannot be read", ""),
    "{{ raise_exception('no system') }}": ("line 1: the chat template refuses it: no system", ""),
    "{{ 1 / 0 }}": ("line 1: the chat template refuses it: division by zero", ""),
    "{{ messages.__class__.__mro__ }}": ("line 1: the chat template refuses it: access to attribute", ""),
    "{{ messages.append(1) }}": ("line 1: the chat template refuses it: ", ""),
    "hello": ("line 1: message 2: the chat template does not write its content", ""),
    "{{ messages[0].content * 2 }}": ("line 1: message 1: the chat template writes it twice", ""),
    "{% generation %}{% endgeneration %}": ("line 1: the chat template leaves nothing that the assistant would say", ""),
}


@pytest.mark.parametrize("template", BAD_TEMPLATES)
def test_a_template_fails_with_its_words(template: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tokenizer", "chatml", template)
    data = write_lines(tmp_path / "data.jsonl", [{"messages": SUM}])
    done = prepare(data, "--tokenizer", folder, "--out", tmp_path / "out")
    assert done.returncode == 2 and BAD_TEMPLATES[template][0] in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_folder_without_a_tokenizer_or_template_is_named(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", [{"messages": SUM}])
    refuse(f"{tmp_path / 'tokenizer.json'}: it cannot be read: No such file", data, tmp_path, tmp_path)
    folder = write_folder(tmp_path / "tokenizer", "chatml", None)
    refuse(f"{data}, line 1: the tokenizer {folder} has no chat template for messages", data, folder, tmp_path)
    (folder / "tokenizer_config.json").write_text("[]")
    refuse(f"{folder / 'tokenizer_config.json'}: it is no JSON object", data, folder, tmp_path)
    (folder / "tokenizer.json").write_text('{"model": {}}')
    (folder / "tokenizer_config.json").unlink()
    refuse(f"{folder / 'tokenizer.json'}: it is no tokenizer", data, folder, tmp_path)


def test_it_is_a_command_of_the_package(chatml: Path, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", [{"messages": SUM}])
    words = [sys.executable, "-m", "tensor_tracer", "prepare", data, "--tokenizer", chatml, "--out", tmp_path / "out"]
    done = subprocess.run(words, cwd=REPOSITORY / "python", capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "" and "1 documents" in done.stdout, done.stderr


@pytest.mark.parametrize("package", ["jinja2", "tokenizers"])
def test_a_missing_package_is_named(package: str, chatml: Path, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", [{"messages": SUM}])
    words = [str(data), "--tokenizer", str(chatml), "--out", str(tmp_path / "out")]
    imports = f"import sys; sys.modules[{package!r}] = None; from tensor_tracer.prepare.command import main"
    line = [sys.executable, "-c", f"{imports}; sys.exit(main({words}))"]
    done = subprocess.run(line, cwd=REPOSITORY / "python", capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert f"needs the package {package}" in done.stderr and f"-m pip install {package}" in done.stderr


def test_only_prepared_data_is_replaced(chatml: Path, tmp_path: Path) -> None:
    first = prepared(chatml, [{"text": "a"}], tmp_path / "out")
    data = write_lines(tmp_path / "data.jsonl", [{"text": "b"}])
    words = (data, "--tokenizer", chatml, "--out", tmp_path / "out")
    assert "it holds prepared data already; give another --out, or --force" in prepare(*words).stderr
    assert prepared(chatml, [{"text": "b"}], tmp_path / "out", "--force").ids != first.ids
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years")
    done = prepare(*words, "--force")
    assert done.returncode == 2 and "it is no folder of prepared data, and stays as it is" in done.stderr
    assert (tmp_path / "out" / "thesis.tex").read_text() == "years"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.nightly(suite="models")
def test_smollm2(tmp_path: Path) -> None:
    """Its own tokenizer and template: the ids of `transformers`, and what the template's turns say."""
    folder = tmp_path / "model"
    convert_gguf(smollm2(), folder)
    chats = conversations(50)
    found = prepared(folder, [{"messages": messages} for messages in chats], tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for number, messages in enumerate(chats):
        assert found.ids[number] == tokenizer.apply_chat_template(messages), number
        ids = [id for id, one in zip(found.ids[number], found.masks()[number], strict=True) if one]
        said = ""
        for message in messages:
            if message["role"] != "assistant":
                continue
            # White space at the begin may be in one token with the template's newline.
            said += "\n?" if message["content"][:1].isspace() else ""
            said += re.escape(message["content"] + "<|im_end|>")
        assert re.fullmatch(said, tokenizer.decode(ids)), number
