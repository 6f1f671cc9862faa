"""What a conversation is made of beside its words: summaries that stand for older messages, and how far it has come."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

SUMMARY_SOURCE = "summarization"
"""`additional_kwargs["lc_source"]` of a summary, as langchain marks it."""
ANSWERS = "answers_cut"
"""Key of a summary's `additional_kwargs`: answers of the model that it stands for."""


def summary_message(text: str, cut: Sequence[BaseMessage], message_id: str) -> HumanMessage:
    """The message that stands for `cut`. It knows how many answers of the model those held."""
    # Not a SystemMessage: providers refuse one amid a conversation, and what it summarizes is not to be obeyed.
    return HumanMessage(text, id=message_id, additional_kwargs={"lc_source": SUMMARY_SOURCE, ANSWERS: answers_given(cut)})


def is_summary(message: BaseMessage) -> bool:
    """Whether this message stands for older ones."""
    return message.additional_kwargs.get("lc_source") == SUMMARY_SOURCE


def answers_given(messages: Sequence[BaseMessage]) -> int:
    """Answers of the model in this conversation, those that were cut included: the number never falls."""
    cut = sum(int(message.additional_kwargs.get(ANSWERS, 0)) for message in messages if is_summary(message))
    return cut + sum(isinstance(message, AIMessage) for message in messages)
