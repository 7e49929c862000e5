"""``python -m tests.extended.local_models``: how fast a model of this machine is."""

import sys

from .gpu import main

main(sys.argv[1:])
