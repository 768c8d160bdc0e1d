"""Help that reads well, and flags that say what is wrong."""

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import pytest

from implanting.cli.main import VERBS, main
from implanting.cli.parsing import EXAMPLES, named_settings, parse
from implanting.cli.verbs.bench import SUBJECTS
from implanting.cli.verbs.evaluate import Evaluate
from implanting.cli.verbs.pretrain import Pretrain
from implanting.config import PretrainConfig
from implanting.errors import ConfigError


def help_of(verb: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        import_module(f"implanting.cli.verbs.{verb.split()[0]}").main([*verb.split()[1:], "--help"])
    assert not ended.value.code
    return capsys.readouterr().out


def test_headings_name_what_is_set_not_where_it_is_stored(capsys: pytest.CaptureFixture[str]) -> None:
    headings = re.findall(r"^(?:╭─)? ((?:[\w.]+ )?options)(?: ─+╮|\s*$)", help_of("pretrain", capsys), re.MULTILINE)
    assert headings == [
        "options", "pretrain options", "network options", "augment options", "data options", "episode options",
        "run options",
    ]  # fmt: skip


@pytest.mark.parametrize("verb", ["pretrain", "evaluate", "info", "demo"])
def test_none_is_never_offered(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "None" not in help_of(verb, capsys)


@pytest.mark.parametrize(
    ("verb", "usage"),
    [
        ("fit", "[OPTIONS] [FOLDER]"),
        ("predict", "[OPTIONS] CLASSIFIER IMAGE..."),
        ("score", "[OPTIONS] CLASSIFIER FOLDER"),
        ("check", "[OPTIONS] FOLDER|CLASSIFIER"),
        ("suggest", "[OPTIONS] CLASSIFIER IMAGE..."),
        ("explain", "[OPTIONS] CLASSIFIER IMAGE..."),
        ("export", "[OPTIONS] CLASSIFIER"),
    ],
)
def test_help_names_what_to_give_and_shows_one_flag_per_switch(
    verb: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = help_of(verb, capsys)
    assert told.startswith(f"usage: implanting {verb} [-h] {usage}\n")
    assert "(default: )" not in told
    assert re.findall(r"--no-[\w-]+", told) in ([], ["--no-keep-supports"])


def test_switches_that_are_on_by_default_or_part_of_a_recipe_can_be_turned_off(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "--no-open" in help_of("serve", capsys)
    assert {"--no-flip", "--no-wide"} <= set(re.findall(r"--no-[\w-]+", help_of("pretrain", capsys)))


def test_none_is_refused_and_values_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    required = ["--base", "a", "--data", "b"]
    with pytest.raises(ConfigError, match="--threads"):
        parse(Evaluate, "evaluate", [*required, "--threads", "None"])
    assert parse(Evaluate, "evaluate", required).run.threads is None
    assert parse(Evaluate, "evaluate", [*required, "--threads", "2"]).run.threads == 2


@dataclass(frozen=True)
class Home:
    length: int = 1
    """How long it is."""
    width: int = 1
    """How wide it is."""


@dataclass(frozen=True)
class Lodger:
    HELP_FROM: ClassVar[tuple[type, ...]] = (Home,)

    length: int = 2
    width: int = 3
    """A width of its own."""


def test_a_setting_without_a_text_has_that_of_its_home(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(Lodger, "toy", ["--help"])
    told = capsys.readouterr().out
    assert re.search(r"--length INT +How long it is\. \(default: 2\)", told)
    assert re.search(r"--width INT +A width of its own\. \(default: 3\)", told)
    assert parse(Lodger, "toy", ["--width", "5"]) == Lodger(2, 5)


@pytest.mark.parametrize("verb", [*(verb for verb in VERBS if verb != "bench"), "bench adapt"])
def test_every_flag_is_explained(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")  # one column
    told = re.sub(r"[│╭╮╰╯─]|-{3,}", " ", help_of(verb, capsys)).split("examples:")[0]
    flags = re.findall(r"^ +(--[\w-]+.*?)(?=^ +--|^ *(?:\w+ )?options *$|\Z)", told, re.MULTILINE | re.DOTALL)
    assert flags
    for flag in flags:
        text = re.sub(r"--[\w-]+,?|\((default|optional|required)[^)]*\)|[A-Z]{3,}|[{\[][^}]*[}\]]", "", flag)
        assert re.search(r"[a-z]+ [a-z]+", " ".join(text.split())), flag


def test_defaults_given_reach_the_nested_settings() -> None:
    config = PretrainConfig(tau=3.0, iterations=5)
    default = Pretrain(data=Path("a"), out=Path("b"), config=config)
    found = parse(Pretrain, "pretrain", ["--data", "c", "--width", "7"], default)
    assert (found.config.tau, found.config.iterations, found.config.architecture.width) == (3.0, 5, 7)
    assert (str(found.data), str(found.out)) == ("c", "b")


def test_every_verb_ends_its_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    verbs = [verb for verb in VERBS if verb != "bench"] + [f"bench {subject}" for subject in SUBJECTS]
    assert set(verbs) <= set(EXAMPLES)
    for verb in ("info", "bench adapt"):
        assert help_of(verb, capsys).endswith(f"examples:\n{EXAMPLES[verb]}\n")


def test_examples_show_flags_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for verb, examples in EXAMPLES.items():
        assert all(f" implanting {verb} " in f"{line} " for line in examples.splitlines())
        told = help_of(verb, capsys)
        assert [
            flag for flag in re.findall(r"--[\w-]+", examples) if f"{flag} " not in told and f"{flag}," not in told
        ] == []


@pytest.mark.parametrize("verb", ["fit", "predict", "evaluate", "pretrain", "reproduce", "bench adapt", "info", "demo"])
@pytest.mark.parametrize("flags", [["--nonsense", "3"], ["--threads", "many"], ["--seed"], ["--tyro-write-completion"]])
def test_a_wrong_flag_is_one_line_with_a_hint_at_the_help(
    verb: str, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*verb.split(), *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("implanting: ")
    assert f"`implanting {verb} --help`" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "photos"], "fit needs --out FILE (Write the classifier to this file (.safetensors)); "),
        (["predict"], "predict needs CLASSIFIER (A classifier made by `implanting fit`); "),
        (["fit", "photos", "--out"], "--out needs a value; "),
        (["demo", "--nope"], "unrecognized options: --nope; "),
        (["fit", "photos", "--out", "a", "--slimm"], "unrecognized options: --slimm (perhaps you meant --slim); "),
        (["predict", "a", "b", "--top", "x"], "--top is 'x'; expected a whole number; "),
        (["fit", "photos", "--out", "a", "--threads", "many"], "--threads is 'many'; expected a whole number; "),
        (["fit", "photos", "--out", "a", "--refuse", "some"], "--refuse is 'some'; expected a number; "),
        (["fit", "photos", "--out", "a", "--head", "hat"], "--head is 'hat'; expected one of 'auto', 'logistic', "),
    ],
)
def test_an_option_that_is_missing_or_wrong_is_named_in_a_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"implanting: {said}")


def test_settings_that_are_named_are_told_from_values() -> None:
    arguments = [
        "a.png",
        "--image-size",
        "3",
        "--refuse=0.05",
        "--image_size",
        "--no-keep-supports",
        "-x",
        "--",
        "--top",
    ]
    assert named_settings(arguments) == {"image_size", "refuse", "keep_supports"}
