import dataclasses

import pytest

from implanting.config import ImplantConfig
from implanting.errors import ConfigError
from implanting.pretraining import RECIPES
from implanting.reproduce import ABLATION, RESNET_DC, RESNET_GAP, TABLES, Setting, base_file, base_settings
from implanting.reproduce.settings import paper_implants


def test_the_same_experiment_has_the_same_figure_in_every_table():
    seen: dict[tuple[str, Setting], dict[str, float]] = {}
    for name, table in TABLES.items():
        for setting, figure in table.figures().items():
            seen.setdefault((table.data, setting), {})[name] = figure.mean
    shared = {key: figures for key, figures in seen.items() if len(figures) > 1}
    assert all(len(set(figures.values())) == 1 for figures in shared.values())
    tables = {tuple(figures): figure for figures in shared.values() for figure in figures.values()}
    assert tables["table1", "table2", "table4"] == 76.40
    assert {(*figures, *set(figures.values())) for figures in shared.values()} == {
        ("table1", "table4", 58.61),
        ("table1", "table2", "table4", 76.40),
        ("table1", "table4", 80.76),
        ("table1", "table2", 79.01),
        ("table2", "table4", 78.95),
        ("table3", "table4", 79.77),
    }


def test_how_much_each_table_needs():
    needs = {
        name: (len(table.settings()), sum(len(settings) for settings in table.settings().values()))
        for name, table in TABLES.items()
    }
    assert needs == {"table1": (4, 12), "table2": (3, 36), "table3": (1, 12), "table4": (3, 11), "table5": (2, 8)}


def test_literature_rows_have_no_experiment_and_ours_no_figure():
    for table in TABLES.values():
        for row in table.rows:
            experiments = {cell.setting is not None for cell in row.cells.values()}
            assert experiments == {row.source == "paper"}
            assert set(row.cells) <= set(table.columns)


def test_the_papers_implants():
    assert dataclasses.asdict(paper_implants("gmp", "dense")).items() >= {
        ("implant_channels", 16),
        ("implant_epochs", 50),
        ("implant_tau", 10.0),
        ("adapt_support_pooling", "gmp"),
        ("adapt_query_pooling", "dense"),
        ("adapt_views", 1),
        ("implant_decision", "always"),
    }
    assert Setting(RESNET_DC, 5, "gap", "dense").inference.support_views == 1


def test_one_shot_has_no_implants():
    cells = [cell.setting for table in TABLES.values() for cell in table.cells() if cell.setting]
    assert all(setting.shot > 1 for setting in cells if setting.implants)


def test_shots_are_columns():
    table = TABLES["table4"].with_shots([1])
    assert table.columns == ("1-shot",)
    assert "DC + IMP (GAP/DC)" not in [row.title for row in table.rows]
    assert Setting(RESNET_GAP, 1, "gap", "gap") in table.figures()
    assert TABLES["table2"].with_shots([5]) == TABLES["table2"]


@pytest.mark.parametrize(("name", "shot"), [("table4", 3), ("table2", 1)])
def test_shots_that_a_table_lacks_are_refused(name, shot):
    with pytest.raises(ConfigError, match=f"`shot` is {shot}; the tasks of {name}"):
        TABLES[name].with_shots([shot])


def test_other_implants_are_a_row_of_ours():
    adapt = ImplantConfig(implant_channels=64, implant_share=1.0)
    table = TABLES["table5"].with_ours(adapt)
    paper, ours = (row for row in table.rows if "IMP" in row.title)
    assert (paper.source, ours.source) == ("paper", "ours")
    assert ours.title == "DC + IMP (GAP/DC), channels 64"
    assert ours.cells["10-shot"].setting == Setting(RESNET_DC, 10, "gap", "dense", implants=adapt)
    assert ours.cells["10-shot"].figure is None
    assert set(ours.cells) == {"5-shot", "10-shot"}
    assert table.settings()[RESNET_DC][-1].implants == adapt


def test_the_papers_implants_are_no_row_of_ours():
    assert TABLES["table5"].with_ours(paper_implants()) == TABLES["table5"]


def test_implants_for_a_table_without_them_are_refused():
    with pytest.raises(ConfigError, match="table1 has no implants"):
        TABLES["table1"].with_ours(ImplantConfig(implant_channels=64))


@pytest.mark.parametrize(("name", "systems"), [("table4", 5), ("table5", 2)])
def test_systems_of_the_literature_are_run_beside_their_reported_figures(name, systems, tmp_path):
    table = TABLES[name].with_systems()
    rows = [row for row in table.rows if row.system is not None]
    assert len(rows) == systems
    assert all(cell.setting.stage1 is row.system and cell.figure for row in rows for cell in row.cells.values())
    shared = RECIPES["cpu"].config
    trained = list(table.settings())
    for stage1 in trained:
        config = base_settings(stage1, shared, tmp_path)
        assert (config.method, config.architecture.network, config.pooling) == (
            stage1.method,
            stage1.network,
            stage1.pooling,
        )
        assert stage1.start is None or trained.index(stage1.start) < trained.index(stage1)
    assert len({base_file(tmp_path, stage1, shared) for stage1 in trained}) == len(trained)


def test_a_table_without_systems_cannot_run_them():
    with pytest.raises(ConfigError, match="table1 quotes no system"):
        TABLES["table1"].with_systems()


def test_the_ablation_is_of_one_base_network():
    assert list(ABLATION.settings()) == [RESNET_DC]
    assert ABLATION.name == "ablation"
    methods = {setting.approach.method for setting in ABLATION.settings()[RESNET_DC]}
    assert methods == {None, "last-block", "logistic", "baseline++", "simpleshot", "nearest"}


def test_the_ablation_compares_trained_and_random_implants_at_the_same_share():
    implants = [setting.approach.implants for setting in ABLATION.settings()[RESNET_DC] if setting.shot == 5]
    trained, ours, random = [each for each in implants if each is not None]
    assert trained == paper_implants()
    assert random == dataclasses.replace(trained, implant_epochs=0)
    assert ours == ImplantConfig()
