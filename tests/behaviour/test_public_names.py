"""`from implanting import ...`: everything that a public function takes, gives or raises, imported when it is used."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import implanting
from implanting import errors

SOURCE = Path(implanting.__file__)
MADE_FOR_USERS = {"BaseNetwork.__init__", "BaseNetwork.from_training", "Explanation.__init__", "Explanation.overlays"}
"""Functions that `load_base`, `from_module`, `pretrain` and `explain` call, with parts that users need not make."""


def imports_for_type_checkers() -> dict[str, str]:
    """Each name that type checkers and editors see, with the module that they find it in."""
    blocks = [part for part in ast.parse(SOURCE.read_text()).body if isinstance(part, ast.If)]
    imports = [part for block in blocks for part in block.body if isinstance(part, ast.ImportFrom)]
    return {str(name.asname): str(part.module) for part in imports for name in part.names}


def test_type_checkers_find_the_names_that_python_finds() -> None:
    found = {name: f"implanting.{home}" for name, home in implanting._HOMES.items()}
    assert imports_for_type_checkers() == found
    assert set(implanting.__all__) == {*found, "__version__"}


@pytest.mark.parametrize("name", implanting.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(implanting, name) is not None
    assert name in dir(implanting)


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        implanting.nonsense  # noqa: B018 (looking it up is the test)


def test_all_exceptions_and_warnings_are_public() -> None:
    raised = {name for name, value in vars(errors).items() if inspect.isclass(value)}
    assert len(raised) > 10
    assert raised <= set(implanting.__all__)


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = "import sys, implanting; print(*sorted({'torch', 'numpy', 'sklearn', 'PIL'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "\n"


def public_functions(value: object) -> Iterator[Callable[..., Any]]:
    """A function itself, or the constructor and the public methods of a class."""
    if inspect.isclass(value):
        methods = (method for name, method in inspect.getmembers(value) if name == "__init__" or name[0] != "_")
        yield from (inspect.unwrap(getattr(method, "__func__", method)) for method in methods if callable(method))
    elif inspect.isfunction(value):
        yield value


def classes_in(hint: Any) -> Iterator[type]:
    if inspect.isclass(hint) and hint.__module__.startswith("implanting."):
        yield hint
    for part in get_args(hint):
        yield from classes_in(part)


@pytest.mark.parametrize("name", implanting.__all__)
def test_what_a_public_function_takes_can_be_imported(name: str) -> None:
    for function in public_functions(getattr(implanting, name)):
        if not getattr(function, "__module__", "").startswith("implanting.") or function.__qualname__ in MADE_FOR_USERS:
            continue  # the former are inherited from Python or scikit-learn
        hints = [parameter.annotation for parameter in inspect.signature(function).parameters.values()]
        taken = [part for hint in hints for part in classes_in(hint)]
        assert {part.__name__ for part in taken} <= set(implanting.__all__), function
