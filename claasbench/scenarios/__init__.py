"""Plug-ins that stream tasks and play episodes, one public file each."""
