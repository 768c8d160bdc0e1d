"""The methods that are evaluated, one file each; all name the classes of queries of the same tasks."""

from implanting.methods.by_class_weights import BaseClassMethod, JointMethod
from implanting.methods.by_decision import DecidedMethod
from implanting.methods.by_implants import ImplantMethod
from implanting.methods.by_prototypes import PrototypeMethod
from implanting.methods.method import Method

__all__ = ["BaseClassMethod", "DecidedMethod", "ImplantMethod", "JointMethod", "Method", "PrototypeMethod"]
