"""Attackers: one public file each; what sits in the attacker's seat."""
