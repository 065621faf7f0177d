"""Continual learning of language-model agents: one stream, one matrix, one report."""

__version__ = "0.1.0"
