"""Plug-ins that answer prompts, one file per engine."""
