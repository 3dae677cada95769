"""What a contributor's tools run is what CI runs."""

import re
from pathlib import Path

from toolcrib.base.yaml import parse_yaml
from toolcrib.cli.app import build

ROOT = Path(__file__).resolve().parents[2]


def steps() -> list[str]:
    found = re.search(r"^steps=\((.+)\)$", (ROOT / "scripts/check").read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return found[1].split()


def test_the_hooks_of_a_commit_run_the_checks_of_ci():
    config = parse_yaml((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == [f"scripts/check {step}" for step in steps()]
    in_ci = " ".join(each for each in steps() if each != "architecture")  # which the quick suite has tested
    assert f"scripts/check {in_ci}\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_the_workflow_runs_everything_on_linux_and_the_quick_suite_elsewhere():
    jobs = parse_yaml((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    [step] = [step for step in jobs["everything"]["steps"] if step.get("run") == "bash .ci/run"]
    assert step["env"].keys() == {"CI_BASE"}
    assert jobs["quick"]["strategy"]["matrix"]["os"] == ["macos-latest", "windows-latest"]


def test_the_forms_for_issues_are_yaml_and_ask_only_for_commands_that_there_are():
    forms = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) == 4
    app = build()
    commands = {each.name for each in (*app.registered_commands, *app.registered_groups)}
    for form in forms:
        text = form.read_text(encoding="utf-8")
        assert parse_yaml(text)
        assert set(re.findall(r"`toolcrib (\w+)", text)) <= commands, form.name
