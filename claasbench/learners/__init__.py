"""Plug-ins that turn experience into context, notes or weights, one file each."""
