"""toolcrib skills: what a person sees, what a program gets, and what agents are shown afterwards."""

import io
import json
import os
import re
import shlex
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from toolcrib.cli import main
from toolcrib.policy.state import STATE_SCHEMA, Report, SkillOutcomes
from toolcrib.storage.store import Store
from worlds import world

pytestmark = pytest.mark.anyio

Run = Callable[..., tuple[int, str, str]]
OFF = {"core_pack": False}
DOCS = Path(__file__).resolve().parents[2] / "docs"


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def skill(folder: Path, name: str, description: str, more: str = "") -> Path:
    text = f"---\nname: {name}\ndescription: {description}\n{more}---\n# About\n\n1. Open it.\n2. Close it.\n"
    return write(folder / name / "SKILL.md", text)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return the folder of a repository's skills: two that load, and one that does not."""
    folder = tmp_path / "project" / ".agents" / "skills"
    skill(folder, "pdf-forms", "Fills in PDF forms. Use it for every form.")
    skill(folder, "invoices", "Sends an invoice to a customer.")
    write(folder / "broken" / "SKILL.md", "Nothing but words.\n")
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, repository: Path) -> Run:
    """Run a command in the repository, with these ``skills`` of the config."""
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("TOOLCRIB_PARENT", "TOOLCRIB_SKILLS_ROOT"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, skills: dict[str, Any] = OFF) -> tuple[int, str, str]:
        section = {"cache_dir": "cache", "skills": {**OFF, **skills}}
        file = write(tmp_path / "toolcrib.json", json.dumps({"toolcrib": section}))
        code = main(["skills", *arguments, *([] if arguments[0] == "check" else ["--config", str(file)])])
        out, err = capsys.readouterr()
        return code, out, err

    return run


# -- relevant ------------------------------------------------------------------------------------


def test_the_skills_for_a_task_are_printed_as_a_model_reads_them(run: Run):
    code, out, err = run("relevant", "fill in a PDF form")
    assert (code, err) == (0, "")
    assert out.index("/pdf-forms/SKILL.md") < out.index("1. Open it.")
    code, out, err = run("relevant", "fill in a PDF form", "--json")
    assert json.loads(out)["skills"][0] == "pdf-forms"
    assert run("relevant", "xyzzy") == (0, "", "")


def test_a_frame_without_tags_brings_nothing(run: Run):
    frames = {"frames": {"desk": ["office"], "talk": []}}
    assert "/pdf-forms/" in run("relevant", "fill in a PDF form", "--frame", "desk", skills=frames)[1]
    assert run("relevant", "fill in a PDF form", "--frame", "talk", skills=frames) == (0, "", "")


RECIPES = re.findall(
    r"<!-- hook: (\S+) (.+?) -->\n```json\n(.*?)```", (DOCS / "hooks.md").read_text(encoding="utf-8"), re.DOTALL
)


@pytest.mark.sampled
@pytest.mark.parametrize(("host", "given", "recipe"), RECIPES, ids=[host for host, _, _ in RECIPES])
def test_the_documented_hook_of_each_host_brings_the_skills(
    host: str, given: str, recipe: str, run: Run, monkeypatch: pytest.MonkeyPatch
):
    [command] = re.findall(r'"(?:command|bash)": "toolcrib skills (.*?)"', json.dumps(json.loads(recipe)))
    monkeypatch.setattr("sys.stdin", io.StringIO(given))
    code, out, err = run(*shlex.split(command))
    assert (code, err) == (0, "")
    assert "/pdf-forms/SKILL.md" in json.dumps(json.loads(out))
    assert {"claude-code", "codex", "gemini-cli", "copilot-cli", "cursor"} == {each for each, _, _ in RECIPES}


def test_a_hook_lets_all_go_on_whatever_goes_wrong(run: Run, monkeypatch: pytest.MonkeyPatch):
    for given in ("{}", '{"prompt": ""}', '{"prompt": "xyzzy"}'):
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        code, out, _ = run("relevant", "-", "--hook", "gemini-cli")
        assert (code, json.loads(out)) == (0, {})


# -- list ----------------------------------------------------------------------------------------


def test_list_shows_what_agents_get_and_tells_beside_it_what_they_do_not(run: Run):
    code, out, err = run("list")
    assert code == 0
    assert out.splitlines() == [
        "invoices  [repo]  Sends an invoice to a customer.",
        "pdf-forms  [repo]  Fills in PDF forms. Use it for every form.",
    ]
    assert err.splitlines()[0] == "2 skills, 2 of them new or changed"
    assert err.splitlines()[1].startswith("not loaded: repo/broken/SKILL.md:1: has no frontmatter")
    assert run("list")[2].splitlines()[0] == "2 skills, 0 of them new or changed"


def test_list_tells_which_skill_of_a_pack_a_learned_one_keeps_out(run: Run, tmp_path: Path):
    run("list")
    with closing(sqlite3.connect(tmp_path / "cache" / "skills.db")) as connection:
        values = "'sk_learned', 'pack.home.tea', 'When it is four.', '[\"Steep.\"]', 'learned', 'global'"
        connection.execute(f"INSERT INTO skills(id, name, trigger, steps, origin, scope_mode) VALUES ({values})")
        connection.commit()
    write(tmp_path / "pack" / "tea.skill.yaml", "name: pack.home.tea\ntrigger: At four.\nsteps: [Boil it.]\n")
    pack = {"skill_packs": [{"name": "home", "path": str(tmp_path / "pack"), "scope_mode": "global"}]}
    code, out, err = run("list", skills=pack)
    assert (code, "pack.home.tea  [learned]  When it is four." in out) == (0, True)
    assert "not loaded: pack/home/tea.skill.yaml: A learned skill has the name 'pack.home.tea'; it stays" in err


def test_list_has_all_of_it_for_a_program(run: Run):
    code, out, err = run("list", "--json", skills={"disabled_skills": ["invoices"]})
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert [(each["name"], each["source"]) for each in answer["skills"]] == [("pdf-forms", "repo")]
    assert answer["skills"][0]["id"].startswith("sk_")
    assert answer["hidden"] == [{"name": "invoices", "source": "repo", "reason": "in skills.disabled_skills"}]
    assert [each["path"] for each in answer["errors"]] == ["broken/SKILL.md"]
    assert answer["untrusted"] == 0


def test_list_shows_one_source_or_says_which_there_are(run: Run, tmp_path: Path):
    skill(tmp_path / "home" / ".agents" / "skills", "letters", "Writes letters.")
    assert run("list", "--source", "user")[1] == "letters  [user]  Writes letters.\n"
    assert run("list", "--source", "users") == (
        1,
        "",
        "Error: There is no skill from users. Sources with skills: repo, user\n",
    )


def test_list_tells_what_is_hidden_and_why_only_when_asked(run: Run, repository: Path):
    skill(repository, "deploy", "Deploys.", "requires: [DEPLOY_TOKEN_OF_MINE]\n")
    skill(repository, "manual", "For people.", "disable-model-invocation: true\n")
    _code, out, err = run("list")
    assert "deploy" not in out
    assert "hidden: 2 skills; --hidden lists them with the reasons" in err
    _code, out, _err = run("list", "--hidden")
    assert "deploy  [repo]  hidden: needs the environment variable DEPLOY_TOKEN_OF_MINE" in out
    assert "manual  [repo]  hidden: its author hides it from models (disable-model-invocation)" in out


def test_list_says_how_many_skills_of_an_untrusted_repository_are_hidden_and_why(run: Run):
    code, out, err = run("list", skills={"trust_project": False})
    assert (code, out) == (0, "")
    assert "hidden: 3 skills of the repository, because skills.trust_project is false\n" in err
    answer = json.loads(run("list", "--json", skills={"trust_project": False})[1])
    assert (answer["skills"], answer["untrusted"]) == ([], 3)


def test_list_names_a_folder_of_the_config_that_is_not_there(run: Run):
    _code, _out, err = run("list", skills={"skill_dirs": ["nowhere"]})
    [line] = [line for line in err.splitlines() if "nowhere" in line]
    assert line.startswith("not loaded: toolcrib.skills.skill_dirs[0]: ")
    assert line.endswith("nowhere is not there, so no skills come from it")


def test_nothing_in_a_skill_can_steer_the_terminal(run: Run, repository: Path):
    skill(repository, "evil", '"a\\x1b[2Jb"')
    assert "\x1b" not in run("list")[1] + run("show", "evil")[1] + run("search", "evil")[1]


# -- search and show -----------------------------------------------------------------------------


def test_search_finds_what_agents_find(run: Run):
    code, out, _err = run("search", "fill a form")
    assert code == 0
    score, name, source = out.splitlines()[0].split("  ")
    assert (name, source) == ("pdf-forms", "[repo]")
    assert 0 <= float(score) <= 1
    assert out.splitlines()[1].strip() == "Fills in PDF forms. Use it for every form."
    answer = json.loads(run("search", "inv.*", "--type", "regex", "--limit", "1", "--json")[1])
    assert ([hit["name"] for hit in answer["skills"]], answer["search_type"]) == (["invoices"], "regex")


def test_search_says_so_when_there_is_nothing(run: Run):
    code, out, _err = run("search", "astronomy")
    assert (code, out.splitlines()[0]) == (0, "Nothing found.")


@pytest.mark.parametrize("arguments", [["(", "--type", "regex"], [" "]])
def test_a_query_that_cannot_be_used_is_an_error(run: Run, arguments: list[str]):
    code, out, err = run("search", *arguments)
    assert (code, out) == (1, "")
    assert err.startswith("Error: ")


def test_show_gives_what_an_agent_would_get_or_the_text_as_it_was_written(run: Run):
    code, out, err = run("show", "pdf-forms")
    assert (code, err) == (0, "")
    assert out.index("/pdf-forms/SKILL.md") < out.index("Open it.") < out.index("</skill>")
    assert "# About" in run("show", "repo/pdf-forms", "--raw")[1]
    answer = json.loads(run("show", "pdf-forms", "--json")[1])
    assert [each["name"] for each in answer["skills"]] == ["pdf-forms"]
    assert "Open it." in answer["formatted_context"]


def test_show_explains_what_moves_a_skill_in_searches(run: Run, tmp_path: Path):
    settings = {"outcomes": True, "frames": {"desk": ["office"], "talk": []}}
    skill(tmp_path / "project" / ".agents" / "skills", "letters", "Writes letters.", "tags: [office]\n")
    assert run("show", "letters", skills=settings)[2] == "before a task of the frame desk: +0.2\n"
    meta = next(each for each in json.loads(run("list", "--json")[1])["skills"] if each["name"] == "letters")
    [state] = Path(os.environ["XDG_DATA_HOME"]).rglob("state.db")
    with Store(state, STATE_SCHEMA) as store:
        for _ in range(5):
            digest = json.loads(run("show", "letters", "--raw", "--json")[1])["skills"][0]["digest"]
            report = Report(meta["id"], digest, success=False, note="It hangs.")
            SkillOutcomes(store).record("local", report, time.time() - 3 * 86_400)
    code, out, err = run("show", "letters", skills=settings)
    assert (code, "It hangs." in out) == (0, False)
    said = (
        "5 reports by local, 100% of them failures, the last 3 days ago: -0.09 in searches by local, half of that every"
    )
    assert err.splitlines()[1] == f'{said} 30 days ("It hangs.")'
    [explained] = json.loads(run("show", "letters", "--json", skills=settings)[1])["explained"]
    assert explained["frames"] == ["desk"]
    [told] = explained["outcomes"]
    assert (told["principal"], told["reports"], told["setback"]) == ("local", 5, 0.09)
    assert "no change to its score" in run("show", "letters", skills={"outcomes": False})[2]


def test_doctor_says_what_is_to_be_mended_and_how_skills_are_used(run: Run, repository: Path):
    file = skill(repository, "log-in", "Logs in to the shop.", "task_type: browser\ntools: [shop__enter]\n")
    os.utime(file, (0, 0))
    run("show", "log-in")
    code, out, err = run("doctor")
    assert (code, err) == (0, "3 skills checked, problems in 1\n")
    head, absent, stale = out.splitlines()
    assert head == "log-in  [repo]  used 1 time, the last today"
    assert absent == "    names tools that no server has: shop__enter. Correct the names, or add the server."
    assert stale.startswith("    is about pages and has not changed for ")
    found = {each["name"]: each for each in json.loads(run("doctor", "--json")[1])["skills"]}
    assert found["log-in"]["uses"] == 1
    assert [each["code"] for each in found["log-in"]["findings"]] == ["absent-tools", "stale"]
    assert (found["invoices"]["findings"], found["invoices"]["last_used"]) == ([], None)


def test_show_keeps_to_its_budget(run: Run, repository: Path):
    text = skill(repository, "long", "Is long.").read_text()
    write(repository / "long" / "SKILL.md", text + "Words without end.\n\n" * 2000)
    assert len(run("show", "long", "--max-tokens", "300")[1]) <= 4 * 300 + 1


def test_show_of_what_is_not_there_fails_with_a_hint(run: Run):
    assert run("show", "nope") == (1, "", "Error: Not found: nope. `toolcrib skills search` finds skills.\n")
    code, out, err = run("show", "nope", "--json")
    assert (code, json.loads(out)["not_found"], err) == (1, ["nope"], "")


def test_a_miss_names_the_skills_that_may_be_meant(run: Run):
    more = "Did you mean: invoices?"
    for missed in ("invocies", "office:invoices"):
        assert run("show", missed) == (
            *(1, "", f"Error: Not found: {missed}. {more} `toolcrib skills search` finds skills.\n"),
        )
        assert f"Not found: {missed}. {more}" in run("disable", missed)[2]


def test_a_name_of_several_skills_is_answered_with_names_of_one(run: Run, tmp_path: Path):
    skill(tmp_path / "home" / ".agents" / "skills", "invoices", "Another one.")
    several = "Several skills are called invoices"
    assert run("show", "invoices") == (1, "", f"Error: {several}; show one of: repo/invoices, user/invoices\n")
    assert run("disable", "invoices") == (1, "", f"Error: {several}: repo/invoices, user/invoices\n")
    assert run("disable", "user/invoices") == (0, "invoices [user] is disabled.\n", "")
    assert run("show", "invoices")[0] == 0


# -- enable and disable --------------------------------------------------------------------------


def test_a_disabled_skill_stays_hidden_until_it_is_enabled(run: Run):
    assert run("disable", "invoices") == (0, "invoices [repo] is disabled.\n", "")
    assert run("show", "invoices")[0] == 1
    assert "invoices  [repo]  hidden: disabled" in run("list", "--hidden")[1]
    switched = json.loads(run("enable", "invoices", "--json")[1])
    assert switched == {"name": "invoices", "source": "repo", "enabled": True, "hidden": None}
    assert run("show", "invoices")[0] == 0


def test_a_disabled_skill_stays_disabled_when_its_file_changes_or_comes_back(run: Run, repository: Path):
    run("disable", "invoices")
    skill(repository, "invoices", "Sends invoices, and reminders too.")
    assert "invoices" not in run("list")[1]
    text = (repository / "invoices" / "SKILL.md").read_text()
    (repository / "invoices" / "SKILL.md").unlink()
    assert "invoices" not in run("list", "--hidden")[1]
    write(repository / "invoices" / "SKILL.md", text)
    assert "invoices  [repo]  hidden: disabled" in run("list", "--hidden")[1]


def test_a_skill_that_something_else_hides_is_enabled_but_said_to_be_hidden_still(run: Run):
    code, out, err = run("enable", "invoices", skills={"disabled_skills": ["invoices"]})
    assert (code, out) == (0, "invoices [repo] is enabled.\n")
    assert err == "It is still hidden: in skills.disabled_skills\n"


def test_a_skill_that_is_not_there_cannot_be_switched(run: Run):
    assert run("disable", "nope") == (
        1,
        "",
        "Error: Not found: nope. `toolcrib skills list --hidden` shows all skills.\n",
    )


async def test_a_served_toolcrib_knows_of_a_switch_on_the_next_request(run: Run, tmp_path: Path):
    async with world(tmp_path, toolcrib={"skills": OFF}) as w, w.client() as client:
        assert (await client.skill("list"))["total"] == 2
        await anyio.to_thread.run_sync(run, "disable", "invoices")
        assert [each["name"] for each in (await client.skill("list"))["skills"]] == ["pdf-forms"]
        assert (await client.skill("search", query="send an invoice"))["skills"] == []
        assert (await client.skill("get", names=["invoices"]))["not_found"] == ["invoices"]
        await anyio.to_thread.run_sync(run, "enable", "invoices")
        assert (await client.skill("get", names=["invoices"]))["skills"][0]["name"] == "invoices"
        await anyio.to_thread.run_sync(run, "disable", "pdf-forms")
    async with world(tmp_path, toolcrib={"skills": OFF}) as w, w.client() as client:
        assert [each["name"] for each in (await client.skill("list"))["skills"]] == ["invoices"]


# -- check ---------------------------------------------------------------------------------------


def test_check_says_where_every_rule_is_broken_and_fails(run: Run, tmp_path: Path, repository: Path):
    file = write(repository / "Bad_Name" / "SKILL.md", "---\nname: Bad_Name\ndescription: d\n---\nText.\n")
    code, out, err = run("check", str(file))
    assert (code, err) == (1, "")
    *problems, counts = out.splitlines()
    assert any(line.startswith(f"{file}: error: name ") for line in problems)
    assert len(problems) == len(set(problems))
    assert counts == f"1 file, 0 skills, {sum(': error: ' in line for line in problems)} error"


def test_check_looks_through_a_whole_folder(run: Run, repository: Path):
    write(repository / "more.skill.yaml", "name: forms\ntrigger: A form is to be filled in.\nsteps: [Open it.]\n")
    code, out, _err = run("check", str(repository), "--json")
    answer = json.loads(out)
    assert (code, answer["ok"]) == (1, False)
    assert sorted(answer["files"]) == ["broken/SKILL.md", "invoices/SKILL.md", "more.skill.yaml", "pdf-forms/SKILL.md"]
    assert sorted(answer["skills"]) == ["forms", "invoices", "pdf-forms"]
    errors = [(each["path"], each["code"]) for each in answer["problems"] if each["level"] == "error"]
    assert errors == [("broken/SKILL.md", "frontmatter-missing")]


def test_check_is_content_with_a_good_skill_and_needs_no_config(run: Run, repository: Path, tmp_path: Path):
    write(tmp_path / "home" / ".config" / "toolcrib" / "toolcrib.json", "{not json")
    code, out, err = run("check", str(repository / "invoices" / "SKILL.md"))
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "1 file, 1 skill, 0 errors"
    assert not (tmp_path / "cache").exists()


def test_check_of_what_is_no_skill_is_an_error(run: Run, tmp_path: Path):
    other = write(tmp_path / "notes.md", "Notes.")
    (tmp_path / "empty").mkdir()
    for path, said in (
        (tmp_path / "nowhere", "nowhere is not there."),
        (other, "notes.md is not a SKILL.md or a pack's file"),
        (tmp_path / "empty", "There are no skills in "),
    ):
        code, out, err = run("check", str(path))
        assert (code, out) == (1, "")
        assert said in err


# -- exit codes ----------------------------------------------------------------------------------

COMMANDS = [["list"], ["search", "x"], ["show", "x"], ["enable", "x"], ["disable", "x"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_where_skills_are_switched_off_every_command_says_so(run: Run, command: list[str]):
    said = "Error: Skills are disabled: set toolcrib.skills.enabled to true in the config.\n"
    assert run(*command, skills={"enabled": False}) == (1, "", said)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_config_ends_every_command_with_2(run: Run, command: list[str]):
    code, out, err = run(*command, skills={"enable": True})
    assert (code, out) == (2, "")
    assert "did you mean" in err


def test_a_list_may_be_that_of_another_folder(run: Run, tmp_path: Path):
    skill(tmp_path / "other" / ".agents" / "skills", "tea", "Makes tea.")
    (tmp_path / "other" / ".git").mkdir()
    _, out, _ = run("list", "--cwd", str(tmp_path / "other"))
    assert out.splitlines() == ["tea  [repo]  Makes tea."]
    assert run("list", "--cwd", str(tmp_path / "nowhere"))[0] != 0


def test_a_search_may_be_for_one_source(run: Run):
    assert "invoices" in run("search", "invoice", "--source", "repo")[1]
    assert "invoices" not in run("search", "invoice", "--source", "user")[1]
