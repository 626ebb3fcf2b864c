"""Recordings in other formats: docs/recording.md, "Exports"."""
