// `crosscheck run --config`: the rows of the table "what its users run into" that concern running, each by its number.
import assert from 'node:assert/strict';
import {spawn, spawnSync} from 'node:child_process';
import {existsSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {crosscheck, eventually, junitCounts, python, run, temporaryFolder, write} from './harness.mjs';

const TESTS = `
import os, sys, time, unittest
import torch
from torch.testing._internal.common_device_type import OpDTypes, dtypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

SOME = [op for op in op_db if op.name in ("sum", "sum_to_size", "bitwise_and") and not op.variant_test_name]
STATE = os.environ.get("ROWS_STATE", "/nonexistent/state")

class TestOne(TestCase):
    def test_same(self, device): self.fail("of the one")
    @dtypes(torch.int8, torch.float32)
    def test_int8_weights(self, device, dtype): pass
    @ops(SOME, allowed_dtypes=(torch.float32,))
    def test_op(self, device, dtype, op): pass
    @ops(SOME, dtypes=OpDTypes.none)
    def test_dtypes(self, device, op): pass

class TestOther(TestCase):
    def test_same(self, device): pass

class TestParametrized(TestCase):
    @parametrize("n", [1, 2])
    def test_n(self, n): pass

class TestFaults(unittest.TestCase):
    def test_compiler(self): raise RuntimeError("g++: not found")
    def test_crash(self): os.abort()
    def test_flaky(self):
        if not os.path.exists(STATE):
            open(STATE, "w").close()
            self.fail("the first time")
    def test_may_fail(self): self.fail("as it may")
    def test_passes_now(self): pass
    def test_strict(self): self.fail("as it must")
    def test_last(self): pass

instantiate_device_type_tests(TestOne, globals())
instantiate_device_type_tests(TestOther, globals())
instantiate_parametrized_tests(TestParametrized)
`;

const CONFIG = `
test_suite_config:
  files:
    - path: \${TORCH_ROOT}/test/test_rows.py
      tests:
        - names: [TestOne::test_same]
          mode: xfail
          rationale: {reason: undecided}
        - names: [TestOther::test_same, TestFaults::test_last, TestFaults::test_flaky, TestOne::test_int8_weights]
        - names: [TestOne::test_op, TestOne::test_dtypes]
          edits: {ops: {exclude: [{name: sum}, {name: bitwise_and}]}}
        - names: [TestParametrized::test_n]
        - names: [TestFaults::test_compiler, TestFaults::test_may_fail, TestFaults::test_passes_now]
          mode: xfail
          rationale: {reason: undecided}
        - names: [TestFaults::test_crash]
          mode: xfail
          rationale: {reason: crash}
        - names: [TestFaults::test_strict]
          mode: xfail_strict
          rationale: {reason: device_error}
  global:
    supported_dtypes: [{name: float32}]
`;

let folder;
let inventory;
let main;
let cleanUp = () => {};
after(() => cleanUp());

const lines = (file) =>
  readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

function runRows(name, config, args = [], env = {}) {
  const results = join(folder, `${name}.jsonl`);
  const junit = join(folder, `${name}.xml`);
  const done = run(
    [
      'run',
      '--inventory',
      inventory,
      '--config',
      write(folder, `${name}.yaml`, config),
      '--db',
      join(folder, `${name}.db`),
      '--results',
      results,
      '--junit',
      junit,
      '-j',
      '1',
      ...args,
    ],
    {cwd: folder, env: {CROSSCHECK_PYTHON: python, CI: 'true', ...env}},
  );
  const all = existsSync(results) ? lines(results).slice(1, -1) : [];
  const of = (part) => all.filter(({node}) => node.includes(part));
  return {...done, junit, all, of, one: (part) => of(part).at(-1)};
}

before(async () => {
  folder = temporaryFolder({after: (remove) => (cleanUp = remove)});
  write(folder, 'test_rows.py', TESTS);
  inventory = join(folder, 'inventory.jsonl');
  const collected = run(
    ['collect', '--suite', folder, '--files', join(folder, 'test_rows.py'), '-o', inventory],
    {cwd: folder, env: {CROSSCHECK_PYTHON: python}},
  );
  assert.equal(collected.code, 0, collected.err);
  main = runRows('main', CONFIG, ['--retries', '1'], {ROWS_STATE: join(folder, 'state')});
});

test('the run as a whole: nothing that must pass failed, so it exits 0', () => {
  assert.equal(main.code, 0, main.out + main.err);
  assert.match(main.out, /8 must pass: 7 passed, 1 flaky/);
});

test('row 1: two classes with one method name have modes of their own', () => {
  assert.equal(main.one('TestOneCPU::test_same').outcome, 'xfailed');
  assert.equal(main.one('TestOtherCPU::test_same').outcome, 'passed');
});

test('row 3: a dtype is what the test says, not what its name holds', () => {
  assert.equal(main.one('test_int8_weights_cpu_float32').outcome, 'passed');
  const {outcome, governed, message} = main.one('test_int8_weights_cpu_int8');
  assert.equal(outcome, 'skipped');
  assert.equal(governed.basis, 'unsupported_dtype');
  assert.match(message, /int8 is not among those supported/);
});

test('rows 4 and 5: an excluded operator is excluded whole, and also where no dtype follows', () => {
  for (const part of ['test_op_sum_cpu', 'test_dtypes_sum_cpu', 'test_dtypes_bitwise_and_cpu']) {
    assert.equal(main.one(part).governed.basis, 'excluded_op', part);
    assert.equal(main.one(part).outcome, 'skipped');
  }
  assert.equal(main.one('test_op_sum_to_size_cpu').outcome, 'passed');
  assert.equal(main.one('test_dtypes_sum_to_size_cpu').outcome, 'passed');
});

test('row 6: every collected test is governed, however its class was made', () => {
  assert.equal(main.of('TestParametrized::test_n').length, 2);
  const collected = lines(inventory).filter(({ev}) => ev === 'test').length;
  assert.equal(new Set(main.all.map(({node}) => node)).size, collected);
  assert.ok(main.all.every(({governed}) => /main\.yaml:\d+:\d+$/.test(governed.place)));
});

test('row 9: a skip is an outcome with its reason, in JUnit too', () => {
  const skipped = main.all.filter(({outcome}) => outcome === 'skipped');
  assert.ok(skipped.length > 0);
  assert.ok(skipped.every(({message}) => message.length > 0));
  assert.equal(
    junitCounts(main.junit).skipped,
    skipped.length + main.all.filter(({outcome}) => outcome === 'xfailed').length,
  );
});

test('row 11: every attempt is kept, and a pass after a failure is flaky', () => {
  assert.deepEqual(
    main.of('test_flaky').map(({attempt, outcome}) => [attempt, outcome]),
    [
      [1, 'failed'],
      [2, 'passed'],
    ],
  );
  assert.match(main.out, /FLAKY test_rows\.py::TestFaults::test_flaky/);
  assert.match(readFileSync(main.junit, 'utf8'), /<flakyFailure [^>]*the first time/);
});

test('row 13: a compiler that is missing is the environment\'s, also of a test that may fail', () => {
  const {outcome, governed} = main.one('test_compiler');
  assert.equal(outcome, 'environment_error');
  assert.equal(governed.observed, 'environment_error');
});

test('row 18: what may fail is run, and what passes against expectation is told', () => {
  assert.equal(main.one('test_passes_now').outcome, 'xpassed');
  assert.equal(main.one('test_may_fail').outcome, 'xfailed');
  assert.equal(main.one('test_strict').outcome, 'xfailed');
});

test('row 19: a crash costs one test, and its file goes on', () => {
  assert.equal(main.one('test_crash').outcome, 'xfailed');
  assert.equal(main.one('test_crash').governed.observed, 'crashed');
  assert.equal(main.one('test_last').outcome, 'passed');
});

test('rows 10 and 18: 0 must pass, and what may fail left out: exit 0, not run, said', () => {
  const config = `
test_suite_config:
  files:
    - path: test_rows.py
      tests:
        - {names: [TestFaults::test_may_fail, TestFaults::test_passes_now], mode: xfail}
`.replace('test_rows.py', '${TORCH_ROOT}/test/test_rows.py');
  const ran = runRows('xfail', config);
  assert.equal(ran.code, 0, ran.err);
  assert.match(ran.out, /^0 must pass$/m);
  assert.match(ran.out, /^2 may fail: 1 passed, 1 failed$/m);
  const left = runRows('left', config, ['--skip-xfail']);
  assert.equal(left.code, 0, left.err);
  assert.equal(left.one('test_may_fail').outcome, 'not_run');
  assert.match(left.one('test_may_fail').message, /--skip-xfail/);
  const observed = runRows('observed', config, ['--observe', '--select', 'TestFaults']);
  assert.equal(observed.code, 0, observed.out + observed.err);
  assert.match(observed.out, /score: of 0 that must pass 0 failed; of 5 skipped 1 pass; of 2 that may fail 1 pass/);
});

test('row 17: a configuration that lists nothing says why, and what it lacks', () => {
  const ran = runRows(
    'nothing',
    'test_suite_config:\n  files:\n    - path: ${TORCH_ROOT}/test/test_rows.py\n',
  );
  assert.equal(ran.code, 3);
  assert.match(ran.err, /lists none of the \d+ tests selected; hidden by unlisted_test_mode: \S*nothing\.yaml:3:/);
  const other = runRows(
    'other',
    'test_suite_config:\n  files:\n    - path: ${TORCH_ROOT}/test/test_other.py\n      unlisted_test_mode: xfail\n',
  );
  assert.equal(other.code, 3);
  assert.match(other.err, /in files that it does not have: test_rows\.py/);
});

test('row 8: a listed test that is not collected is told of, with the nearest', () => {
  const ran = runRows('gone', CONFIG.replace('TestFaults::test_last', 'TestFaults::test_lost'), [
    '--select',
    'test_same',
  ]);
  assert.equal(ran.code, 0, ran.err);
  assert.match(ran.err, /gone\.yaml:\d+:\d+: .*test_lost/);
  assert.match(ran.err, /test_last/);
});

test('row 16: tests of another torch are refused, and nothing is run', () => {
  const text = readFileSync(inventory, 'utf8');
  const version = JSON.parse(text.split('\n')[0]).environment.torch;
  const aside = inventory;
  inventory = join(folder, 'other-torch.jsonl');
  writeFileSync(inventory, text.replace(`"torch":"${version}"`, '"torch":"2.12.0"'));
  const ran = runRows('torch', CONFIG);
  inventory = aside;
  assert.equal(ran.code, 4);
  assert.ok(ran.err.includes('2.12.0') && ran.err.includes(version), ran.err);
  assert.equal(ran.all.length, 0);
});

test('killed, then resumed: only what has no result is run, and it is one run', async (t) => {
  const db = join(folder, 'killed.db');
  const config = write(
    folder,
    'killed.yaml',
    `
test_suite_config:
  files:
    - path: \${TORCH_ROOT}/test/test_hangs.py
      unlisted_test_mode: mandatory_success
`,
  );
  write(
    folder,
    'test_hangs.py',
    `
import os, time, unittest
class TestHangs(unittest.TestCase):
    def test_a(self): open(os.environ["RAN"], "a").write("a")
    def test_b(self):
        while not os.path.exists(os.environ["GO_ON"]): time.sleep(0.05)
    def test_c(self): pass
`,
  );
  const env = {
    ...process.env,
    CROSSCHECK_PYTHON: python,
    CI: 'true',
    RAN: join(folder, 'ran'),
    GO_ON: join(folder, 'go-on'),
  };
  const args = ['run', '--suite', folder, '--config', config, '--db', db, '--json'];
  const child = spawn(crosscheck, args, {cwd: folder, env, stdio: 'ignore'});
  t.after(() => child.kill('SIGKILL'));
  await eventually('the first test has run', () => existsSync(env.RAN));
  // Its result is in the store a little later: the next start must see it.
  await eventually('its result is kept', () => storedResults(db) === 1);
  const gone = new Promise((resolve) => child.once('exit', resolve));
  const early = run([...args, '--resume'], {cwd: folder, env});
  assert.match(early.err, /still goes on/);
  child.kill('SIGKILL');
  await gone;
  writeFileSync(env.GO_ON, '');
  const done = run([...args, '--resume'], {cwd: folder, env});
  assert.equal(done.code, 0, done.out + done.err);
  const {counts, total} = JSON.parse(done.out);
  assert.equal(total, 3);
  assert.equal(counts.passed, 3);
  assert.equal(readFileSync(env.RAN, 'utf8'), 'a');
  const none = run([...args, '--resume'], {cwd: folder, env});
  assert.equal(none.code, 3);
  assert.match(none.err, /no unfinished run/);
});

function storedResults(db) {
  const {stdout} = spawnSync(python, [
    '-c',
    'import sqlite3, sys\n' +
      'print(sqlite3.connect(sys.argv[1]).execute("SELECT COUNT(*) FROM test_results").fetchone()[0])',
    db,
  ]);
  return Number(stdout);
}
