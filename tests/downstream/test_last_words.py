"""Of what a server wrote on stderr before it ended, the lines that say why are told."""

import pytest

from toolcrib.downstream.failures import last_words

NPM = """npm warn Unknown user config "nodedir". This will stop working in the next major version of npm.
npm error code E404
npm error 404 Not Found - GET https://example.com/@nobody%2fserver
npm error 404
npm error 404  The requested resource '@nobody/server@*' could not be found or you do not have permission to access it.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /home/ana/.npm/_logs/2026-11-21T15_03_04_777Z-debug-0.log"""

NODE_MODULE = """node:internal/modules/cjs/loader:1210
throw err;
^
Error: Cannot find module 'express'
Require stack:
- /srv/server.js
at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
at node:internal/main/run_main_module:28:49 {
code: 'MODULE_NOT_FOUND',
requireStack: [ '/srv/server.js' ]
}
Node.js v20.20.2"""

NODE_THROWN = """/srv/index.js:12
throw new Error('GITHUB_TOKEN is not set')
^
Error: GITHUB_TOKEN is not set
at Object.<anonymous> (/srv/index.js:12:9)
at Module._compile (node:internal/modules/cjs/loader:1521:14)
Node.js v20.20.2"""

PYTHON = """Traceback (most recent call last):
File "/srv/main.py", line 4, in <module>
raise_an_error(config)
File "/srv/main.py", line 3, in raise_an_error
return environ["API_KEY"]
KeyError: 'API_KEY'"""

GO = """panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x49]
goroutine 1 [running]:
/src/main.go:12 +0x1d
exit status 2"""

DOCKER = """docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?
Run 'docker run --help' for more information"""

RUST = """thread 'main' panicked at src/main.rs:4:5: no config file
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace"""

OWN = """Starting server on stdio
fatal: the licence has expired
shutting down
closing connections
bye"""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (NPM, ["npm error code E404", "npm error 404 Not Found", "could not be found"]),
        (NODE_MODULE, ["Cannot find module 'express'"]),
        (NODE_THROWN, ["Error: GITHUB_TOKEN is not set"]),
        (PYTHON, ["KeyError: 'API_KEY'"]),
        (GO, ["invalid memory address"]),
        (DOCKER, ["Is the docker daemon running?"]),
        (RUST, ["no config file"]),
        (OWN, ["the licence has expired"]),
    ],
    ids=["npm", "node module", "node thrown", "python", "go", "docker", "rust", "its own words"],
)
def test_the_reason_is_among_the_lines_told(said: str, told: list[str]):
    shown = last_words(said.splitlines())
    assert 1 <= len(shown) <= 3
    for words in told:
        assert any(words in line for line in shown), shown


@pytest.mark.parametrize("noise", ["A complete log", "at Module", "Node.js v20", "raise_an_error(config)", "goroutine"])
def test_what_every_failure_of_a_kind_says_is_left_out(noise: str):
    for said in (NPM, NODE_MODULE, NODE_THROWN, PYTHON, GO, DOCKER, RUST):
        assert not any(noise in line for line in last_words(said.splitlines()))


def test_nothing_but_noise_is_better_than_nothing():
    assert last_words(["Node.js v20.20.2"]) == ["Node.js v20.20.2"]
    assert last_words([]) == []


def test_words_without_a_known_shape_are_the_last_ones():
    assert last_words(["one", "two", "three", "four"]) == ["two", "three", "four"]
