"""Makes chat.json: what transformers 5 makes of a user's message by chat templates of the kinds that are known.

    python chat.py

The templates are written here, each with what the published ones of its kind have: a system prompt of their own, a date, blanks
around marks, messages that are trimmed, the token that begins a text. "refused": those of no known kind. The first one is that of
the folder gpt2/, in tokenizer_config.json.
"""

import json
import pathlib

from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

here = pathlib.Path(__file__).parent
ANSWER, NEXT = "An animal.", "And a dog?"
MESSAGES = ["What is a cat?", "  two\nlines \n", "caf\u00e9"]
GENERATE = "{%- if add_generation_prompt %}{{- MARK }}{%- endif %}"
TURNS = "{%- for turn in messages %}BODY{%- endfor %}"


def template(body, mark=None, before="", loop=TURNS):
    return before + loop.replace("BODY", body) + (GENERATE.replace("MARK", repr(mark)) if mark else "")


IM = "{{- '<|im_start|>' + turn.role + '\\n' + turn.content + '<|im_end|>' + '\\n' }}"
ASSISTANT = "<|im_start|>assistant\n"
HEADER = "'<|start_header_id|>' + turn['role'] + '<|end_header_id|>\\n\\n' + turn['content'] | trim + '<|eot_id|>'"
DATED = """{%- set today = '26 Jul 2024' %}
{{- bos_token + "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + today + "\\n\\n" }}
{{- "<|eot_id|>" }}
"""
TEMPLATES = {
    "chatml": template(IM, ASSISTANT),
    "chatml_raw_text": "{% for turn in messages %}<|im_start|>{{ turn.role }}{{ '\\n' }}{{ turn.content }}<|im_end|>{{ '\\n' }}"
                       "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "chatml_system": template(IM, ASSISTANT, "{%- if messages[0].role != 'system' %}"
                              "{{- '<|im_start|>system\\nYou are a cat.<|im_end|>\\n' }}{%- endif %}"),
    "chatml_system_newlines": template(IM, ASSISTANT, "{%- if messages[0].role != 'system' %}"
                                       "{{- '<|im_start|>system\nYou are a cat.<|im_end|>\n' }}{%- endif %}"),
    "chatml_tools": template(IM, ASSISTANT, """{#- '<|im_start|>system\\nNo.<|im_end|>\\n' #}
{%- if tools %}{{- '<|im_start|>system\\n' }}{{- 'You have tools.' }}{{- "<|im_end|>\\n" }}
{%- elif messages[0].role == "system" %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- else %}{{- '<|im_start|>system\\nIt\\'s a cat.<|im_end|>\\n' }}{%- endif %}"""),
    "chatml_thinking": template(IM, ASSISTANT + "<think>\n"),
    "chatml_begin": template(IM, ASSISTANT, "{{- bos_token }}"),
    "llama3": template("{%- set part = " + HEADER + " %}{%- if loop.first %}{%- set part = bos_token + part %}{%- endif %}"
                       "{{- part }}", "<|start_header_id|>assistant<|end_header_id|>\n\n"),
    "llama3_dated": template("{{- " + HEADER + " }}", "<|start_header_id|>assistant<|end_header_id|>\n\n", DATED),
    "llama3_system_trimmed": template("{%- if turn.role != 'user' %}{%- set part = messages[0]['content'] | trim %}{%- endif %}"
                                      "{{- " + HEADER.replace(" | trim", "") + " }}",
                                      "<|start_header_id|>assistant<|end_header_id|>\n\n"),
    "llama2": template("{{- bos_token + '[INST] ' + turn['content'].strip() + ' [/INST]' }}"),
    "mistral": template("{{- '[INST] ' + turn['content'] + ' [/INST]' }}", before="{{- bos_token }}"),
    "mistral_first": template("{{- \" [INST] \" + turn.content + \" [/INST]\" }}", before="{{- bos_token }}"),
    "mistral_third": template("{%- if turn.role == 'user' %}{{- \"[INST] \" + turn.content + \"[/INST]\" }}{%- endif %}",
                              before="{{- bos_token }}"),
    "mistral_tekken": template("{{- '[INST]' + turn.content + '[/INST]' }}", before="{{- bos_token }}"),
    # Those of Llama-2-7b-chat and of Mistral-7B-Instruct v0.1, v0.2 and v0.3, without what they say of other roles.
    "llama2_chat": template("{% if turn['role'] == 'user' %}{{ bos_token + '[INST] ' + turn['content'].strip() + ' [/INST]' }}"
                            "{% elif turn['role'] == 'assistant' %}{{ ' '  + turn['content'].strip() + ' ' + eos_token }}{% endif %}"),
    "mistral_v1": template("{% if turn['role'] == 'user' %}{{ '[INST] ' + turn['content'] + ' [/INST]' }}"
                           "{% elif turn['role'] == 'assistant' %}{{ turn['content'] + eos_token + ' ' }}{% endif %}",
                           before="{{ bos_token }}"),
    "mistral_v2": template("{%- if turn[\"role\"] == \"user\" %}{{- \" [INST] \" + turn[\"content\"] + \" [/INST]\" }}"
                           "{%- elif turn[\"role\"] == \"assistant\" %}{{- \" \" + turn[\"content\"] + eos_token}}{%- endif %}",
                           before="{{- bos_token }}"),
    "mistral_v3": template("{%- if turn[\"role\"] == \"user\" %}{{- \"[INST] \" + turn[\"content\"] + \"[/INST]\" }}"
                           "{%- elif turn[\"tool_calls\"] is defined %}{{- \"]\" + eos_token }}"
                           "{%- elif turn[\"role\"] == \"assistant\" %}{{- \" \" + turn[\"content\"]|trim + eos_token}}{%- endif %}",
                           before="{{- bos_token }}"),
    "gemma": template("{%- set role = 'model' if turn.role == 'assistant' else turn.role %}"
                      "{{- '<start_of_turn>' + role + '\\n' + (turn['content'] | trim) + '<end_of_turn>\\n' }}",
                      "<start_of_turn>model\n", "{{ bos_token }}"),
}
REFUSED = {
    "plain": template("{{- turn.role + ': ' + turn.content + '\\n' }}", "assistant: "),
    "phi": template("{{- '<|im_start|>' + turn.role + '<|im_sep|>' + turn.content + '<|im_end|>' }}",
                    "<|im_start|>assistant<|im_sep|>"),
    "no_answer": template(IM),
    "two_systems": template(IM, ASSISTANT, "{%- if a %}{{- '<|im_start|>system\\nA.<|im_end|>\\n' }}{%- else %}"
                            "{{- '<|im_start|>system\\nB.<|im_end|>\\n' }}{%- endif %}"),
    "clock": template(IM, ASSISTANT, "{{- '<|im_start|>system\\n' + strftime_now('%d') + '<|im_end|>\\n' }}"),
    "other_date": template("{{- " + HEADER + " }}", "<|start_header_id|>assistant<|end_header_id|>\n\n",
                           DATED.replace("Jul", "July")),
    "llama3_system": template("{{- " + HEADER + " }}", "<|start_header_id|>assistant<|end_header_id|>\n\n",
                              "{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' + 'A.' + '<|eot_id|>' }}"),
    "other_blanks": template("{%- if loop.first %}{{- '[INST] ' + turn.content + ' [/INST]' }}{%- else %}"
                             "{{- '[INST]' + turn.content + '[/INST]' }}{%- endif %}"),
    "system_prompt": template("{{- '[INST]' + turn.content + '[/INST]' }}", before="{{- '[SYSTEM_PROMPT]Be a cat.[/SYSTEM_PROMPT]' }}"),
    "two_kinds": template("{{- '<|im_start|>' + turn.content + '<|im_end|>[INST][/INST]' }}", ASSISTANT),
    "not_closed": "{{ '<|im_start|>assistant' ",
    "empty": "",
}

tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(here / "gpt2" / "tokenizer.json"), bos_token="<|endoftext|>", eos_token="</s>")


# What the answer begins with is not a part of the message in transformers.
def conversation(template):
    begun = "<think>\n" if "<think>" in template else ""
    return [{"role": "user", "content": MESSAGES[0]}, {"role": "assistant", "content": begun + ANSWER},
            {"role": "user", "content": NEXT}]


# A tokenizer of SentencePiece's kind: a blank stands in front of each stretch between special tokens, as in Llama's.
def pieces():
    blank, marks = "\u2581", ["<s>", "</s>"]
    tokens = ["<unk>"] + marks + [f"<0x{byte:02X}>" for byte in range(256)] + [chr(c) for c in range(33, 127)] + [blank]
    made = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, [], unk_token="<unk>", byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend(blank), normalizers.Replace(" ", blank)])
    made.decoder = decoders.Sequence([decoders.Replace(blank, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    made.add_special_tokens(marks)
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")


# What a conversation so far is decoded to, and the ids of what follows it in the whole.
def goes_on(tokenizer, template):
    whole = tokenizer.apply_chat_template(conversation(template), chat_template=template)["input_ids"]
    end = whole.index(tokenizer.eos_token_id) + 1
    return {"template": template, "so_far": whole[:end], "text": tokenizer.decode(whole[:end]), "rest": whole[end:]}


known = {}
for name, text in TEMPLATES.items():
    chats = [[{"role": "user", "content": message}] for message in MESSAGES]
    options = dict(chat_template=text, add_generation_prompt=True)
    known[name] = {
        "template": text,
        "goes_on": "INST" not in text or "eos_token" in text,
        "texts": [tokenizer.apply_chat_template(chat, tokenize=False, **options) for chat in chats],
        "conversation": tokenizer.apply_chat_template(conversation(text), tokenize=False, **options),
        "ids": [tokenizer.apply_chat_template(chat, **options)["input_ids"] for chat in chats],
    }
    print(name, known[name]["texts"][1:2])
of_pieces = pieces()
in_pieces = {name: goes_on(of_pieces, TEMPLATES[name]) for name in ("llama2_chat", "mistral_v1", "mistral_v2", "mistral_v3")}
chats = {"messages": MESSAGES, "answer": ANSWER, "next": NEXT, "known": known, "refused": REFUSED,
         "pieces": {"tokenizer": json.loads(of_pieces.backend_tokenizer.to_str()), "chats": in_pieces}}
(here / "chat.json").write_text(json.dumps(chats, indent=0) + "\n", "ascii")
config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|endoftext|>", "chat_template": TEMPLATES["chatml"]}
(here / "gpt2" / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "ascii")
