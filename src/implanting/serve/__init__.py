"""The HTTP service and its page: for people with photos and no Python, and for programs.

It stores photos, answers requests and shows what the library computes. It contains no method of its own for learning,
checking or exporting; `learning.py` is its connection to the classifier.
"""

from implanting.serve.learning import Reading, key_of
from implanting.serve.running import Address, address_of, default_folder, run_service
from implanting.serve.store import Store

__all__ = ["Address", "Reading", "Store", "address_of", "default_folder", "key_of", "run_service"]
