"""Chats of real models, as in ``tests/chat``."""

from __future__ import annotations

from tests.chat.conftest import bench, loop, pytest_generate_tests

__all__ = ["bench", "loop", "pytest_generate_tests"]
