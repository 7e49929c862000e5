"""Counts, as ``sitecustomize`` of a process, the connections that anybody in it begins."""

import atexit
import os
import sys

_connects = []


def _count(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        _connects.append(f"{arguments[1][0]}:{arguments[1][1]}")


def _tell():
    with open(os.environ["CONNECTS"], "a", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{address}\n" for address in _connects)


if "CONNECTS" in os.environ:
    sys.addaudithook(_count)
    atexit.register(_tell)
