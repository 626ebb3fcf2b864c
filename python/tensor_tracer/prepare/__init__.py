"""Text and conversations as token ids with roles: docs/prepare.md."""
