"""Chat templates: a conversation as the text that the model was trained to see."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase

from gramian.data.document import Document
from gramian.errors import GramianError

ChatTemplate = Literal["off", "auto"]


def render(
    document: Document,
    tokenizer: PreTrainedTokenizerBase,
    chat_template: ChatTemplate = "off",
    thinking: bool | None = None,
) -> str:
    """The text of a document as the network will read it.

    With ``"auto"`` a conversation, or plain text as the turn of a user, goes through the
    tokenizer's template; a tokenizer without one gives the plain text, as ``"off"`` does.

    Parameters
    ----------
    thinking : passed on as ``enable_thinking`` unless None.

    Raises
    ------
    GramianError : the template refuses the conversation.
    """
    if template_digest(tokenizer, chat_template, thinking) == "none":
        return document.text
    turns = document.messages or ({"role": "user", "content": document.text},)
    options: dict[str, Any] = {} if thinking is None else {"enable_thinking": thinking}
    try:
        text = tokenizer.apply_chat_template(
            [dict(turn) for turn in turns], tokenize=False, **options
        )
    except Exception as error:
        raise GramianError(
            f"{document.name}: the tokenizer's chat template refused this conversation: {error}; "
            "correct the turns, or turn the template off"
        ) from error
    return str(text)


def template_digest(
    tokenizer: PreTrainedTokenizerBase,
    chat_template: ChatTemplate = "off",
    thinking: bool | None = None,
) -> str:
    """``"none"`` when the text is used as it is, else the SHA-256 of template and options.

    Raises
    ------
    GramianError : ``chat_template`` is neither ``"off"`` nor ``"auto"``.
    """
    if chat_template not in ("off", "auto"):
        raise GramianError(f"chat_template is {chat_template!r}, expected 'off' or 'auto'")
    template = getattr(tokenizer, "chat_template", None)
    if chat_template == "off" or not template:
        return "none"
    described = json.dumps({"template": template, "thinking": thinking}, sort_keys=True)
    return hashlib.sha256(described.encode("utf-8")).hexdigest()
