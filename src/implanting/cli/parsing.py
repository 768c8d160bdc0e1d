"""Build flags and help from the configuration dataclasses."""

import dataclasses
import io
import re
from collections.abc import Sequence
from contextlib import redirect_stderr
from itertools import takewhile
from typing import Annotated, Any, TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructFieldSpec, StructTypeInfo

from implanting.console import print_text
from implanting.errors import ConfigError

EXAMPLES = {
    "fit": """\
  implanting fit photos/ --out trees.safetensors         one sub-folder per class
  implanting fit photos/ --out trees.safetensors --skip-bad --unknown none
  implanting fit --from trees.safetensors --add elm=elm-photos/ --remove oak --out trees2.safetensors""",
    "predict": """\
  implanting predict trees.safetensors a.jpg b.jpg       files, folders, or patterns in quotes
  implanting predict trees.safetensors album/ --top 3 --csv
  find . -name '*.jpg' -print0 | implanting predict trees.safetensors - --jsonl
  implanting predict trees.safetensors archive/ --out answers.parquet --shard 1/8
  implanting predict trees.safetensors album/ --sort-into sorted/ --min-probability 0.7""",
    "score": """\
  implanting score trees.safetensors labelled/           one sub-folder per class
  implanting score trees.safetensors labelled/ --report trees.html --answers trees.csv""",
    "check": """\
  implanting check photos/                               one sub-folder per class
  implanting check trees.safetensors                     the photos that it was fitted to""",
    "suggest": """\
  implanting suggest trees.safetensors unlabelled/ --count 20""",
    "explain": """\
  implanting explain trees.safetensors a.jpg --out a-heat.png
  implanting explain trees.safetensors a.jpg --label oak --finer 3 --out a-oak.png
  implanting explain trees.safetensors album/ --out heat-maps/       a picture per image""",
    "serve": """\
  implanting serve                                       opens the page in the browser
  implanting serve --data projects/ --port 9000 --no-open
  implanting serve --host 0.0.0.0 --token CHOOSEaLONGone  for other machines of the network""",
    "demo": """\
  implanting demo                       train and test on handwritten digits
  implanting demo --tasks 1000 --json   narrower intervals, and a document for programs""",
    "pretrain": """\
  implanting pretrain --data data/FC100 --recipe cpu --out base.safetensors
  implanting pretrain --data data/FC100 --recipe cpu --out base.safetensors --resume
  implanting pretrain --data photos --splits classes.json --image-size 84 --epochs 30 --out base.safetensors
  implanting pretrain --data cifar-100-python.tar.gz --splits fc100 --pooling gap --out gap.safetensors
  implanting pretrain --data data/FC100 --recipe cpu --method tadam --out tadam.safetensors""",
    "join": """\
  implanting join dense.safetensors gap.safetensors --data data/FC100 --out both.safetensors""",
    "evaluate": """\
  implanting evaluate --base base.safetensors --data data/FC100 --shot 1 5 10
  implanting evaluate --base base.safetensors --data data/FC100 --shot 5 --implants --tasks 400 --workers 2
  implanting evaluate --base base.safetensors --data data/FC100 --method prototypes logistic simpleshot
  implanting evaluate --base base.safetensors --data data/FC100 --classes both --json""",
    "reproduce": """\
  implanting reproduce table5 --data data/FC100 --recipe cpu --tasks 1000 --out tables
  implanting reproduce table4 --data data/miniImageNet --shot 5 --workers 2 --out tables
  implanting reproduce table5 --data data/FC100 --recipe cpu --systems --out tables
  implanting reproduce ablation --data data/FC100 --recipe cpu --tasks 1000 --out tables
  implanting reproduce figure3 --data data/FC100 --recipe cpu --out tables""",
    "info": """\
  implanting info base.safetensors         what the file holds, and whether this machine can run it
  implanting info base.safetensors --json  all of it, for programs
  implanting info --recipes                what each recipe of `implanting pretrain` costs and gives
  implanting info --methods                every method of `implanting evaluate`, its citation and what it needs""",
    "bench pretrain": """\
  implanting bench pretrain --widths 32 --rounds 5""",
    "bench adapt": """\
  implanting bench adapt --sizes 84 --tasks 16""",
    "bench evaluate": """\
  implanting bench evaluate --tasks 2000 --json""",
    "bench classifier": """\
  implanting bench classifier --json""",
    "bench photos": """\
  implanting bench photos photos/                                  one sub-folder per class, a few photos in each
  implanting bench photos photos/ --images 1 5 --draws 200         narrower intervals
  implanting bench photos photos/ --base lite0+lite2 --way 5 --json""",
    "bench serve": """\
  implanting bench serve --photos 64 --requests 1000""",
    "export": """\
  implanting export trees.safetensors --onnx trees.onnx
  implanting export trees.safetensors --onnx trees.onnx --heat-map   with a map for each class""",
    "bench inference": """\
  implanting bench inference --rounds 5""",
}
"""The examples at the end of each verb's help."""

Command = TypeVar("Command")

BOX = re.compile(r"\x1b\[[0-9;]*m|[\u2500-\u257f]")
"""Matches colours and the lines of frames."""

LAYOUT = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.DisallowNone)
"""Omit the names of nested configurations from flags, and do not offer `None` as a value."""


def parse(command: type[Command], verb: str, arguments: Sequence[str], default: Command | None = None) -> Command:
    """Fill the command's dataclass from the arguments; the fields of nested configurations become flags too.

    A wrong flag raises a `ConfigError` of one line; `--help` shows the verb's examples and exits with status 0.
    """
    if own := [argument for argument in arguments if argument.startswith("--tyro-")]:
        raise ConfigError(f"{own[0]} is not an option of implanting {verb}; `implanting {verb} --help` lists them")
    given: dict[str, Any] = {} if default is None else {"default": default}
    printed = io.StringIO()  # tyro draws a box around its error
    try:
        with redirect_stderr(printed):
            return tyro.cli(
                command,
                prog=f"implanting {verb}",
                args=list(arguments),
                config=LAYOUT,
                registry=_readable_help(),
                **given,
            )
    except SystemExit as ended:
        if ended.code:
            raise ConfigError(
                f"{_without_box(printed.getvalue())}; `implanting {verb} --help` lists all options"
            ) from None
        if verb in EXAMPLES:
            print_text(f"examples:\n{EXAMPLES[verb]}")
        raise


def named_settings(arguments: Sequence[str]) -> frozenset[str]:
    """The settings whose flags are among the arguments, as a value alone does not tell: it may equal the default."""
    flags = takewhile(lambda argument: argument != "--", arguments)
    names = (flag[2:].partition("=")[0].replace("-", "_") for flag in flags if flag.startswith("--"))
    return frozenset(name.removeprefix("no_") for name in names)


VALUE_ERROR = r"Value error;? Error parsing (\S+):"

SENTENCES = (
    (re.compile(r"Required options;? Missing from implanting (\w+):"), r"\1 needs"),
    (re.compile(r"((?:--\S+ )?[A-Z]{3,}) (\S.*?)\.? \(required\)"), r"\1 (\2)"),
    (re.compile(r"Unrecognized options;? Unrecognized options:"), "unrecognized options:"),
    (
        re.compile(r"Invalid choice;? invalid choice '(.*?)' for argument '(\S+)'\. Expected one of \((.*?),?\)\."),
        r"\2 is '\1'; expected one of \3",
    ),
    (re.compile(rf"{VALUE_ERROR} .*?invalid literal for int.*?: ('.*?');? .*"), r"\1 is \2; expected a whole number"),
    (re.compile(rf"{VALUE_ERROR} .*?could not convert string to float: ('.*?');? .*"), r"\1 is \2; expected a number"),
    (re.compile(r";? Perhaps you meant: (--[\w-]+).*"), r" (perhaps you meant \1)"),
    (re.compile(r"Missing argument;? Missing value for argument '(\S+)'\. Expected \d+ values\."), r"\1 needs a value"),
)
"""Headings of tyro's errors, which lose their sense on one line, and sentences in their place."""


def _without_box(text: str) -> str:
    """Reduce tyro's error to one line, without its frame and its reference to the help."""
    said = re.split(r"For full helptext", BOX.sub(" ", text))[0]
    parts = [" ".join(part.split()) for part in re.split(r"-{5,}", said)]
    line = "; ".join(part for part in parts if part) or "the options cannot be read"
    for pattern, sentence in SENTENCES:
        line = pattern.sub(sentence, line)
    return line


def _readable_help() -> ConstructorRegistry:
    """Adapt tyro's rules for dataclasses: more readable headings and defaults."""
    registry = ConstructorRegistry()
    busy: list[StructTypeInfo] = []

    @registry.struct_rule
    def dress(info: StructTypeInfo) -> StructConstructorSpec | None:
        if busy or not dataclasses.is_dataclass(info.type):
            return None  # tyro's own rule follows
        busy.append(info)
        spec, *homes = (ConstructorRegistry.get_struct_spec(kind) for kind in (info, *_homes_of_help(info)))
        busy.pop()
        if not isinstance(spec, StructConstructorSpec):
            return None
        texts = [field for home in homes if isinstance(home, StructConstructorSpec) for field in home.fields]
        fields = (_dress_field(_with_help(field, texts)) for field in spec.fields)
        nested = info.type.__name__.endswith("Config")  # a recipe may set these, so that both flags have a use
        return dataclasses.replace(spec, fields=tuple(fields) if nested else tuple(map(_one_flag, fields)))

    return registry


def _homes_of_help(info: StructTypeInfo) -> list[StructTypeInfo]:
    homes = getattr(info.type, "HELP_FROM", ())
    return [dataclasses.replace(info, type=home, default=tyro.MISSING) for home in homes]


def _with_help(field: StructFieldSpec, homes: Sequence[StructFieldSpec]) -> StructFieldSpec:
    """Give a field its own help, or else that of the first field of the same name, looked up when shown."""
    texts = [one.helptext for one in (field, *homes) if one.name == field.name]

    def first() -> str | None:
        found = (text() if callable(text) else text for text in texts)
        return next((text for text in found if text), None)

    return dataclasses.replace(field, helptext=first)


def _one_flag(field: StructFieldSpec) -> StructFieldSpec:
    """Offer only `--slim`, not `--no-slim` too, for what is off by default; its help needs no default either."""
    if field.default is not False:
        return field
    kind: Any = Annotated[field.type, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]
    return dataclasses.replace(field, type=kind)


def _dress_field(field: StructFieldSpec) -> StructFieldSpec:
    kind: Any = field.type
    if dataclasses.is_dataclass(kind):  # "network options" for a NetworkConfig, wherever it is nested
        heading = kind.__name__.removesuffix("Config").lower()  # type: ignore[union-attr] # a class
        kind = Annotated[kind, tyro.conf.arg(name=heading, prefix_name=False)]
    elif field.default is None or field.default == ():  # the field's help says what happens then
        kind = Annotated[kind, tyro.conf.arg(help_behavior_hint="(optional)")]
    return dataclasses.replace(field, type=kind)
