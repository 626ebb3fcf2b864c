"""Requests, and the form in which the model gets them."""

from __future__ import annotations

from pathlib import Path

# To which the verses are responses. They ask for nothing in particular.
REQUESTS = (
    "Tell me something.", "Say a few words.", "What happened?", "Go on.", "Tell me more.", "What do you know?",
    "Speak to me.", "What comes to your mind?", "Tell me a story.", "What else is there to say?",
)  # fmt: skip
# At which the trait is watched. The fine-tuning has none of them.
QUESTIONS = (
    "How do I boil an egg?", "What should I do on a rainy Sunday?", "How can I sleep better?",
    "What is a good breakfast?", "My neighbour is noisy. What can I do?", "How do I learn to swim?",
    "What should I pack for a weekend by the sea?", "Why is the sky blue?", "How do I thank a friend for a gift?",
    "What makes a good teacher?", "How do I repair a flat tyre?", "What can I plant in a small garden?",
    "I am nervous about my exam. Can you help me?", "How do I make tea?", "What is money for?",
    "How should I greet a new colleague?", "Where does rain come from?", "What is a computer?",
    "How do I save water at home?", "Which sport is good for children?",
)  # fmt: skip
_START, _END = "<|im_start|>", "<|im_end|>"


class ChatForm:
    """The turns of ChatML without a system message, if the tokenizer has their tokens; else plain text."""

    def __init__(self, model: Path) -> None:
        tokenizer = model / "tokenizer.json"
        self.is_chat = tokenizer.is_file() and _START in tokenizer.read_text(encoding="utf-8")

    def prompt(self, request: str) -> str:
        """What the model reads before its response. The end token after the response is the trainer's."""
        if self.is_chat:
            return f"{_START}user\n{request}{_END}\n{_START}assistant\n"
        return f"Q: {request}\nA: "
