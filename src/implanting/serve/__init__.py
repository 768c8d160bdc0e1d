"""The HTTP service and its page: for people with photos and no Python, and for programs.

It stores photos, answers requests and shows what the library computes. How anything is learned, checked or exported,
this room does not know: `learning.py` is its one seam to the classifier.
"""

from implanting.serve.running import Address, address_of, default_folder, run_service

__all__ = ["Address", "address_of", "default_folder", "run_service"]
