"""Models of other programs as folders that Hugging Face's `transformers` reads: docs/models.md."""
