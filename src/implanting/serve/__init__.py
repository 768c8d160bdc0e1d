"""The HTTP service and its page: for people with photos and no Python, and for programs.

It stores photos, answers requests and shows what the library computes. How anything is learned, checked or exported,
this room does not know: `learning.py` is its one seam to the classifier.
"""

from implanting.serve.learning import Reading
from implanting.serve.running import Address, address_of, default_folder, run_service
from implanting.serve.store import Store

__all__ = ["Address", "Reading", "Store", "address_of", "default_folder", "run_service"]
