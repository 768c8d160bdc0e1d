"""`python -m implanting`, which also makes `torchrun -m implanting` work."""

import sys

from implanting.cli import main

sys.exit(main())
