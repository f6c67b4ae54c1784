"""`study.toml` explains itself, and leaves alone what people wrote into it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.config import StudyConfig, ask_preset, ranker_preset
from steelyard.config.commented import END, with_comments
from steelyard.config.section import Section
from steelyard.config.study_config import tomllib
from steelyard.errors import ConfigError

FILES = Path(__file__).parents[1] / "files"


def preset(name: str) -> StudyConfig:
    return StudyConfig(name=name, ranker=ranker_preset(name), ask=ask_preset(name))


@pytest.mark.parametrize("name", ["quick", "features", "small", "tuned", "paper"])
def test_every_key_is_commented_with_its_meaning_what_it_may_hold_and_its_default(
    name: str, tmp_path: Path
) -> None:
    config = preset(name)
    config.save(tmp_path / "study.toml")
    text = (tmp_path / "study.toml").read_text(encoding="utf-8")
    sections: list[tuple[str, Section]] = [("", config)]
    sections += [
        (key, value)
        for key in ("images", "ranker", "ask", "page", "people")
        if (value := getattr(config, key))
    ]
    written = config.to_dict()
    for place, section in sections:
        part = text.split(f"[{place}]\n")[1] if place else text
        for key in (
            written[place] if place else (key for key in written if not isinstance(written[key], dict))
        ):
            comment, _, _ = part.partition(f"\n{key} = ")
            own = " ".join(re.findall(r"#: (.*)", comment.rpartition("\n\n")[2]))
            assert own, key
            if key == "version":
                continue
            meaning = section.meaning(key)
            default = type(section).model_fields[key].get_default(call_default_factory=True)
            assert len(meaning) > 10, f"{key} is not explained"
            assert own.lower().startswith(meaning.lower()), key
            assert own.endswith(f"; default {json.dumps(default, ensure_ascii=False)})."), key
    assert max(map(len, text.splitlines())) <= 200


def test_what_a_key_may_hold_is_said() -> None:
    config = StudyConfig()
    assert "(one of rounds, continuous; default" in config.ask.explain("mode")
    assert "(1 or more; default 1)" in config.ask.explain("raters")
    assert "(true or false; default true)" in config.ask.explain("reselect")
    assert "(a list of texts; default" in config.page.explain("reasons")
    assert '(text; default "")' in config.explain("store")


OWN = """# of the clinic
name = "colon"  # as in the protocol

[ask]
# two for the pilot,
# three later
raters = 2
budget = 40 # agreed
[ask_later]
[page]
grades = [
  "calm # really",  # Mayo 0
  'angry',
]
# nobody uses the mouse
[page.keys]
left = "a"  # as on the old machine
"""


def test_what_people_wrote_stays(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(OWN.replace("[ask_later]\n", "") + "# the end\n", encoding="utf-8")
    config = StudyConfig.load(path)
    config.save(path)
    text = path.read_text(encoding="utf-8")
    assert '# of the clinic\nname = "colon"  # as in the protocol\n' in text
    assert "# two for the pilot,\n# three later\nraters = 2\n" in text
    assert "budget = 40  # agreed\n" in text
    assert "# Mayo 0\ngrades = [\n" in text
    assert "# nobody uses the mouse\n" in text
    assert "# as on the old machine" in text
    assert text.endswith(f"# the end\n\n{END}\n")
    assert StudyConfig.load(path) == config
    config.save(path)
    assert path.read_text(encoding="utf-8") == text, "saved again, nothing grows"


def test_a_comment_of_a_key_that_is_gone_stays_with_its_section() -> None:
    config = StudyConfig()
    text = with_comments(
        config, config.to_dict(), "[ask]\n# why so\nold_key = 3\n[gone]\n# of nothing\nx = 1\n"
    )
    assert "# why so\n[ask]\n" in text
    assert text.endswith(f"# of nothing\n\n{END}\n")


def test_a_file_that_was_cut_anywhere_is_no_study_with_other_settings(tmp_path: Path) -> None:
    config, path = preset("quick"), tmp_path / "study.toml"
    config.save(path)
    whole = path.read_bytes()
    for length in range(len(whole) - 1):  # without its last newline it is whole
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError, match="steelyard restore"):
            StudyConfig.load(path)


def test_who_takes_all_comments_out_needs_no_end(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    preset("quick").save(path)
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#:")]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert StudyConfig.load(path) == preset("quick")


def test_a_file_that_is_no_text_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_bytes(b"\xff\x00")
    StudyConfig().save(tmp_path / "study.toml")
    assert StudyConfig.load(tmp_path / "study.toml") == StudyConfig()


@pytest.mark.parametrize("file", sorted(FILES.glob("configs-0.1/*.toml")), ids=lambda path: path.stem)
def test_files_of_0_1_are_commented_when_they_are_written_anew(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(file.read_bytes())
    config = StudyConfig.load(path)
    config.save(path)
    assert StudyConfig.load(path) == config
    assert "#: Different people asked about each pair (1 or more; default 1).\nraters = " in path.read_text(
        encoding="utf-8"
    )


@given(st.text(max_size=40), st.lists(st.text(max_size=10), max_size=3), st.dictionaries(st.sampled_from(["left", "undo"]), st.text(max_size=5)))  # fmt: skip
def test_whatever_is_in_a_value_it_is_read_back(
    question: str, grades: list[str], keys: dict[str, str]
) -> None:
    config = StudyConfig.from_dict({"page": {"question": question, "grades": grades, "keys": keys}})
    once = with_comments(config, config.to_dict())
    again = with_comments(config, config.to_dict(), once)
    assert once == again, "nothing of ours, and no value, is taken for a comment of somebody's"
    assert StudyConfig.from_dict(tomllib.loads(again)) == config


@given(st.text(alphabet="ab#=[]{}\"' \n\\:", max_size=60))
def test_any_text_that_was_there_makes_no_file_that_cannot_be_read(before: str) -> None:
    config = StudyConfig()
    assert StudyConfig.from_dict(tomllib.loads(with_comments(config, config.to_dict(), before))) == config
