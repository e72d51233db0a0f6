// `crosscheck run --import`: what real pytest writes, read back; what is broken, refused; what is large, in little memory.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {closeSync, existsSync, openSync, readFileSync, writeFileSync, writeSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {crosscheck, junitCounts, long, python, run, temporaryFolder, write} from './harness.mjs';

const TESTS = `
import unittest

import pytest


def test_pass():
    pass


def test_fail():
    assert [1, 2] == [1, 3], "lists\\nin two lines"


def test_gap():
    raise NotImplementedError("Could not run 'aten::foo' with arguments from the 'Bar' backend.")


def test_skip():
    pytest.skip("not here")


@pytest.mark.xfail(reason="known")
def test_xfail():
    assert 0


@pytest.mark.xfail(strict=True, reason="fixed")
def test_xpass_strict():
    pass


@pytest.fixture
def broken():
    raise ValueError("fixture broke")


def test_setup(broken):
    pass


@pytest.fixture
def broken_later():
    yield
    raise ValueError("teardown broke")


def test_teardown(broken_later):
    pass


def test_both(broken_later):
    assert 0


@pytest.mark.parametrize("x", [1, "a b::c", "\\xe4\\x1b[0m"])
def test_param(x):
    pass


class TestOuter:
    class TestInner:
        def test_deep(self):
            pass


class TestUnit(unittest.TestCase):
    def test_sub(self):
        for i in range(4):
            with self.subTest(i=i):
                self.assertEqual(i % 2, 0)

    @unittest.expectedFailure
    def test_unexpected(self):
        pass

    @unittest.skip("by a decorator")
    def test_skipped(self):
        pass


class TestClassSetup(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise ValueError("in setUpClass")

    def test_one(self):
        pass
`;

function pytest(folder, args) {
  const done = spawnSync(python, ['-m', 'pytest', '-p', 'no:cacheprovider', ...args], {
    cwd: folder,
    encoding: 'utf8',
    // With CI set pytest cuts no comparison short: the runs that are compared have it alike.
    env: {...process.env, PYTEST_ADDOPTS: '', COLUMNS: '80', CI: 'true'},
  });
  return {...done, out: done.stdout + done.stderr};
}

function results(file) {
  const lines = readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  return {header: lines[0], tests: lines.slice(1, -1)};
}

function imported(folder, args, {code = 1} = {}) {
  const file = join(folder, 'imported.jsonl');
  const done = run(
    ['run', '--import', ...args, '--results', file, '--no-store', '--json'],
    {cwd: folder},
  );
  assert.equal(done.code, code, done.out + done.err);
  return {...done, ...results(file), summary: JSON.parse(done.out)};
}

const name = ({file, class: cls, method, variant}) =>
  JSON.stringify([file, cls, method, variant ?? {}]);
const verdicts = (tests, fields) =>
  Object.fromEntries(
    tests.map((t) => [name(t), Object.fromEntries(fields.map((field) => [field, t[field]]))]),
  );

test('an imported run of pytest says what a run of ours says, test by test', (t) => {
  const folder = temporaryFolder(t);
  write(folder, 'test_all.py', TESTS);
  const inventory = join(folder, 'inventory.jsonl');
  const ours = join(folder, 'ours.jsonl');
  const env = {CROSSCHECK_PYTHON: python, CI: 'true'};
  const suite = ['--suite', folder, '--device', 'cpu'];
  const collected = run(['collect', ...suite, '-o', inventory], {env});
  assert.equal(collected.code, 0, collected.err);
  const ran = run(
    ['run', ...suite, '--inventory', inventory, '--no-store', '--results', ours, '-j', '1'],
    {env},
  );
  assert.equal(ran.code, 1, ran.err);
  const expected = results(ours);
  for (const family of ['xunit1', 'xunit2']) {
    const report = `${family}.xml`;
    pytest(folder, ['-o', `junit_family=${family}`, `--junit-xml=${report}`, 'test_all.py']);
    const {tests, header, summary} = imported(folder, [report, '--inventory', inventory]);
    const fields = ['node', 'outcome', 'kind'];
    assert.deepEqual(verdicts(tests, fields), verdicts(expected.tests, fields));
    // JUnit does not say which subtests failed.
    const alike = (all) => all.filter(({method}) => method !== 'test_sub');
    assert.deepEqual(
      verdicts(alike(tests), ['fingerprint']),
      verdicts(alike(expected.tests), ['fingerprint']),
    );
    assert.equal(header.imported, true);
    assert.deepEqual(summary.notes, []);
  }
  // The console log alone says how they ended, too.
  const log = write(folder, 'console.log', pytest(folder, ['-v', '-rA', 'test_all.py']).out);
  const {tests} = imported(folder, [log, '--inventory', inventory]);
  assert.deepEqual(verdicts(tests, ['outcome']), verdicts(expected.tests, ['outcome']));
});

test('a run that crashed leaves no JUnit file: the log tells what there was', (t) => {
  const folder = temporaryFolder(t);
  write(
    folder,
    'test_crash.py',
    'import ctypes\n\n\ndef test_before():\n    pass\n\n\ndef test_crash():\n    ctypes.string_at(0)\n\n\ndef test_after():\n    pass\n',
  );
  const done = pytest(folder, ['-v', '--color=yes', '--junit-xml=junit.xml', 'test_crash.py']);
  assert.equal(done.signal, 'SIGSEGV');
  assert.ok(!existsSync(join(folder, 'junit.xml')));
  const log = write(folder, 'console.log', done.out);
  const {tests, summary} = imported(folder, [log]);
  assert.deepEqual(
    tests.map(({method, outcome}) => [method, outcome]),
    [
      ['test_before', 'passed'],
      ['test_crash', 'crashed'],
    ],
  );
  assert.match(tests[1].message, /SIGSEGV/);
  assert.match(tests[1].detail, /in test_crash/);
  assert.match(summary.notes.join('\n'), /did not come to an end/);
});

test('an import is a run like any other: in the store once, in the files, marked', (t) => {
  const folder = temporaryFolder(t);
  write(folder, 'test_all.py', TESTS);
  pytest(folder, ['--junit-xml=junit.xml', 'test_all.py']);
  const args = ['run', '--import', 'junit.xml', '--db', 'runs.db', '--backend', 'mine'];
  const versions = ['--torch', '2.13.0', '--backend-revision', 'abc', '--device', 'npu'];
  const first = run([...args, ...versions, '--json', '--junit', 'out.xml'], {cwd: folder});
  assert.equal(first.code, 1, first.err);
  const summary = JSON.parse(first.out);
  assert.equal(summary.combination.core_revision, '2.13.0');
  assert.equal(summary.combination.device, 'npu');
  assert.equal(summary.combination.suite_revision, 'unknown');
  assert.equal(junitCounts(join(folder, 'out.xml')).failed, summary.failures.length);
  const again = run([...args, ...versions, '--json'], {cwd: folder});
  assert.equal(JSON.parse(again.out).run_id, summary.run_id);
  assert.match(again.err, /the store has this import already/);
  const other = run([...args, '--json'], {cwd: folder});
  assert.notEqual(JSON.parse(other.out).run_id, summary.run_id);
});

test('what is broken is refused with its place, and nothing is written', (t) => {
  const folder = temporaryFolder(t);
  const refused = (args, why, code = 3) => {
    const done = run(['run', '--import', ...args, '--results', 'out.jsonl', '--db', 'runs.db'], {
      cwd: folder,
    });
    assert.equal(done.code, code, done.out + done.err);
    assert.match(done.err, why);
    assert.ok(!existsSync(join(folder, 'out.jsonl')));
    assert.ok(!existsSync(join(folder, 'runs.db')));
  };
  const whole =
    '<testsuite><testcase classname="test_x" name="test_a"/><testcase classname="test_x" name="test_b"/></testsuite>';
  refused([write(folder, 'cut.xml', whole.slice(0, 60))], /cut\.xml:1:\d+: the file is cut off/);
  refused([write(folder, 'empty.xml', '')], /empty\.xml: the file is empty/);
  refused([write(folder, 'html.xml', '<html></html>')], /html\.xml:1:1: this is no JUnit file/);
  refused([write(folder, 'zip.xml', 'PK\u0003\u0004')], /zip\.xml:1:\d: this is no JUnit XML/);
  refused([write(folder, 'prose.log', 'all went well')], /prose\.log: no line of it/);
  refused(['missing.xml'], /missing\.xml: cannot be read: No such file/);
  refused([folder], /cannot be read/);
  const good = write(folder, 'good.xml', whole);
  refused([good, join(folder, 'cut.xml')], /cut\.xml:1:/);
  // What only a run of tests heeds is not passed over.
  for (const option of [
    '--quick',
    '--config=tests.yaml',
    '--shard=1/2',
    '--retries=1',
    '--fail-on-flaky',
    '--file-timeout=9',
    '--resume=r1',
  ]) {
    refused([good, option], /excludes/, 2);
  }
  const salvaged = run(['run', '--import', 'cut.xml', '--salvage', '--no-store'], {cwd: folder});
  assert.equal(salvaged.code, 1, salvaged.err);
  assert.match(salvaged.out, /1 test in/);
  assert.match(salvaged.err, /1 test that was complete is kept/);
});

// A report whose tests print much. The program gets 400 MB of address space in all.
test('a report of any size is read in little memory', (t) => {
  const folder = temporaryFolder(t);
  const report = join(folder, 'large.xml');
  const megabytes = long ? 500 : 50;
  const fd = openSync(report, 'w');
  writeSync(fd, '<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest">');
  const printed = 'what a test prints, line by line\n'.repeat(30_000);
  const cases = megabytes;
  for (let i = 0; i < cases; i += 1) {
    const failure = i % 10 === 0 ? `<failure message="assert 0">${printed}</failure>` : '';
    writeSync(
      fd,
      `<testcase classname="test_x" name="test_${i}">${failure}<system-out>${printed}</system-out></testcase>\n`,
    );
  }
  writeSync(fd, '</testsuite></testsuites>');
  closeSync(fd);
  const done = spawnSync(
    'bash',
    ['-c', 'ulimit -v 400000; exec "$@"', 'bash', crosscheck, 'run', '--import', report, '--no-store', '--json'],
    {cwd: folder, encoding: 'utf8'},
  );
  assert.equal(done.status, 1, done.stdout + done.stderr);
  assert.equal(JSON.parse(done.stdout).total, cases);
  writeFileSync(report, '');
});
