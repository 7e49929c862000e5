"""Tests of chats, offline and real."""
